"""How well the models of a benchmark do: each is scored once, whatever engines run it, since all give the same predictions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run.bench_options import BenchOptions
from vitrail.run.evaluate import open_setup
from vitrail.run.stored import training_options
from vitrail.tasks import registry
from vitrail.tasks.metric import first_measured


class Score(NamedTuple):
    metric: str
    value: float


def score_models(run: str, models: Sequence[Any], options: BenchOptions, bar: ProgressBar) -> list[Score]:
    """Of models that are all made from one trained run. Its own data is split as it was in training."""
    trained = training_options(run)
    name = registry.task_of_model(models[0]) if trained is None else trained.task
    asked = registry.options_of(name, "eval")(data=options.data, split=options.split)
    task, setup, split = open_setup(run, models[0], trained, asked, bar)
    found = []
    for model in models:
        metrics = task.score(replace(setup, model=model), split, device="cpu", world=World()).metrics
        metric = first_measured(registry.metrics_of(name), metrics)
        assert metric is not None
        found.append(Score(metric.key, float(metrics[metric.key])))
    return found
