"""The model card, README.md in Hugging Face's form  [Mitchell+ 2019]: what the task says of the model, its training, its scores.

Nothing in it tells when, where or on which machine it was written.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vitrail.errors import check_choice
from vitrail.files import write_whole
from vitrail.models.markdown import last_name, literal, plain
from vitrail.models.model import Model
from vitrail.models.readme import README, describe_source, front_matter, what_it_reads, write_page
from vitrail.tasks import registry
from vitrail.tasks.metric import find_metric, first_measured

FACTS = (
    "data", "images", "sentences", "languages", "recipe", "split", "metrics", "signature", "interval", "limits", "teacher", "weights",
)  # fmt: skip


class Measure(NamedTuple):
    """A metric as the card says it."""

    key: str  # "accuracy", as hubs index it
    title: str  # "Accuracy"
    value: float  # for the hub
    text: str  # "98.61 %"


def write_card(folder: Path, model: Model, facts: Mapping[str, Any], *, task: str) -> None:
    """README.md of the model in `folder`, anew when more is known."""
    write_whole(folder / README, card(model, facts, task=task))


def card(model: Model, facts: Mapping[str, Any] | None = None, *, task: str) -> str:
    """The whole page. Facts, each optional: `data` (a name), `images` (how many in each split), `recipe` (words or options),
    `split` and `metrics` (what was measured on it, the headline first), `interval` (of the headline metric, 95 %), `limits` (sentences); of text
    `teacher` (who it was), `weights` (what it began with), `sentences` (how many in each split), `languages` (source and target), `signature` (how BLEU was computed)."""
    known = dict(facts or {})
    for name in known:
        check_choice("fact of a model card", name, FACTS)
    metrics = [measure for measure in known.get("metrics", ()) if math.isfinite(measure.value)]
    own = registry.find(task).card(model, known)
    parts = [
        f"# {own.title.capitalize()} ({model.architecture})",
        *own.about,
        "## How to use it",
        *own.use,
        *describe_source(model.provenance),
        *_training(known),
        *_scores(known, metrics),
        *_limits(model, own.limits, known),
    ]
    return write_page(front_matter(model) | _indexed(model, known, metrics), parts)


def describe_measures(task: str, metrics: Mapping[str, float], interval: tuple[float, float] | None) -> dict[str, Any]:
    """Metrics, the headline first, and its interval, as a card says them."""
    known = registry.metrics_of(task)
    first = first_measured(known, metrics)
    order = ([] if first is None else [first.key]) + [key for key in metrics if first is None or key != first.key]
    measures = []
    for key in order:
        one, value = find_metric(known, key), metrics[key]
        measures.append(Measure(key, one.title, one.scaled(value) if one.unit == "hundred" else value, one.format(value)))
    if interval is None or first is None:
        return {"metrics": measures}
    return {"metrics": measures, "interval": (first.format(interval[0]), first.format(interval[1]))}


def _indexed(model: Model, facts: Mapping[str, Any], metrics: Sequence[Measure]) -> dict[str, Any]:
    """What hubs index of training: languages, and the scores as Hugging Face's model-index."""
    header: dict[str, Any] = {}
    if "languages" in facts:
        header["language"] = [plain(name) for name in facts["languages"]]
    if metrics and "data" in facts:
        dataset = {
            "name": last_name(facts["data"]),
            "type": last_name(facts["data"]),
            "split": plain(facts.get("split", "test")),
        }
        values = [{"type": plain(one.key), "value": round(one.value, 6), "name": plain(one.title)} for one in metrics]
        header["metrics"] = [plain(one.key) for one in metrics if one.key != "loss"]
        header["model-index"] = [
            {
                "name": f"{model.architecture} on {last_name(facts['data'])}",
                "results": [{"task": {"type": front_matter(model)["pipeline_tag"]}, "dataset": dataset, "metrics": values}],
            }
        ]
    return header


def _training(facts: Mapping[str, Any]) -> Iterable[str]:
    lines = []
    if "data" in facts:
        lines.append(f"- Data: {literal(last_name(facts['data']))}")
    for kind in ("images", "sentences"):
        if kind in facts:
            counts = ", ".join(f"{count:,} {plain(split)}" for split, count in facts[kind].items())
            lines.append(f"- {kind.capitalize()}: {counts}")
    recipe = facts.get("recipe")
    if isinstance(recipe, Mapping):
        lines.append(f"- Recipe: {literal(', '.join(f'{key} {last_name(value)}' for key, value in recipe.items()))}")
    elif recipe:
        lines.append(f"- Recipe: {literal(recipe)}")
    if "weights" in facts:
        lines.append(f"- Started from {plain(facts['weights'])}")
    if "teacher" in facts:
        lines.append(f"- Teacher: {plain(facts['teacher'])}")
    return ["## Training", "\n".join(lines)] if lines else []


def _scores(facts: Mapping[str, Any], metrics: Sequence[Measure]) -> Iterable[str]:
    if not metrics:
        return
    low, high = facts.get("interval", ("", ""))
    yield "## Scores"
    # The bootstrap of a score without a mistake has no width, which says nothing about other data.
    interval = f" (95 % interval {plain(low)} to {plain(high)}, by bootstrap)" if low != high else ""
    yield f"{plain(metrics[0].title)} on {plain(facts.get('split', 'test'))}: **{plain(metrics[0].text)}**{interval}."
    if "signature" in facts:
        yield f"By sacrebleu: {literal(facts['signature'])}."
    rows = [f"| {plain(one.title)} | {plain(one.text)} |" for one in metrics]
    yield "\n".join(["| measure | value |", "|---|---:|", *rows])


def _limits(model: Model, own: Sequence[str], facts: Mapping[str, Any]) -> Iterable[str]:
    yield "## Limits"
    general = f"Scores hold for {what_it_reads(model)} of the kind it was trained on; check it on yours before you rely on it."
    given = facts.get("limits", ())
    more = [plain(line) for line in ((given,) if isinstance(given, str) else given)]
    yield "\n".join(f"- {line}" for line in (*own, general, *more))
