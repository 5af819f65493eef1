"""How well the models of a benchmark do: each is scored once, whatever engines run it, since all give the same answers."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from vitrail.data.loading import choose_workers
from vitrail.jobs.bench_options import BenchOptions
from vitrail.jobs.classification_scores import match_labels, score
from vitrail.jobs.cleaning import open_clean
from vitrail.jobs.evaluate import HEADLINES, training_options
from vitrail.jobs.options import EvalOptions
from vitrail.jobs.scored_data import open_scored
from vitrail.learn.training.progress_bar import ProgressBar

LIMIT = 0.05  # share of pictures that may be unreadable
BATCH = 64


class Score(NamedTuple):
    metric: str
    value: float


def score_models(run: str, models: Sequence[Any], options: BenchOptions, bar: ProgressBar) -> list[Score]:
    """Of models that are all made from one trained run. Its own data is divided as it was in training."""
    asked = EvalOptions(data=options.data, split=options.split)
    opened = partial(open_clean, image_size=models[0].image_size, limit=LIMIT, progress=bar)
    data, bad, name = open_scored(opened, run, training_options(run), asked)
    data = match_labels(data, models[0])
    found = []
    for model in models:
        answers = score(
            model, data.classes, data[name], batch=BATCH, workers=choose_workers(data[name]), device="cpu", bad=bad, name=name
        )  # fmt: skip
        metric = next(word for word in HEADLINES if word in answers.metrics)
        found.append(Score(metric, float(answers.metrics[metric])))
    return found
