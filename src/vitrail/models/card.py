"""README.md of a model folder: a model card in Hugging Face's form  [Mitchell+ 2019], YAML for machines and a page for people.

Nothing in it tells when, where or on which machine it was written.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from vitrail.errors import check_choice
from vitrail.files import write_whole
from vitrail.models.catalogue import count_parameters
from vitrail.models.detection_card import TITLE as DETECTOR
from vitrail.models.detection_card import describe_detector, detector_limits, use_detector
from vitrail.models.markdown import block, last_name, literal, plain
from vitrail.models.pretraining_card import describe_pretrained, pretrained_limits, use_pretrained, use_vocabulary
from vitrail.models.purpose import PIPELINES, purpose_of
from vitrail.models.restoration_card import describe_restoration, restoration_limits, use_restoration
from vitrail.models.scan_card import TITLE, describe_reconstructor, scan_limits, use_reconstructor
from vitrail.models.segmentation_card import describe_segmenter, segmentation_limits, use_segmenter
from vitrail.models.source_card import describe_source
from vitrail.models.volume_card import describe_volumes, use_volumes, volume_limits
from vitrail.models.word_card import describe_use, describe_words, title_of, word_limits
from vitrail.preprocessing import Preprocessing

CARD = "README.md"
FACTS = (
    "data", "pictures", "sentences", "languages", "recipe", "split", "metrics", "signature", "interval", "limits", "teacher",
)  # fmt: skip
MOST_LABELS = 100
DETAILS = (  # those that a config has
    "width", "depth", "heads", "tokenizer", "patch", "position", "attention", "pool",
    "widths", "depths", "channel_attention", "spatial_attention",
)  # fmt: skip


class Measure(NamedTuple):
    """A metric as the card says it; what is measured by whom, the caller knows."""

    key: str  # "accuracy", as hubs index it
    title: str  # "Accuracy"
    value: float  # for the hub
    text: str  # "98.61 %"


def write_card(folder: str | Path, model: Any, facts: Mapping[str, Any] | None = None) -> None:
    """Write the card of the model in `folder`, or write it anew when more is known."""
    write_whole(Path(folder) / CARD, card(model, facts))


def card(model: Any, facts: Mapping[str, Any] | None = None) -> str:
    """The whole page. Facts, each optional: `data` (a name), `pictures` (how many in each split), `recipe` (words or options),
    `split` and `metrics` (what was measured on it, the headline first), `interval` (of the headline metric, 95 %), `limits` (sentences); of text
    `teacher` (who it was), `sentences` (how many in each split), `languages` (source and target), `signature` (how BLEU was computed)."""
    known = dict(facts or {})
    for name in known:
        check_choice("fact of a model card", name, FACTS)
    metrics = [measure for measure in known.get("metrics", ()) if math.isfinite(measure.value)]
    header = yaml.safe_dump(front_matter(model, known, metrics), sort_keys=False, allow_unicode=True, width=math.inf)
    parts = [
        f"# {_kind(model).capitalize()} ({model.architecture})",
        *_about(model, known),
        *describe_source(getattr(model, "provenance", None)),
        *_training(known),
        *_scores(known, metrics),
        *_limits(model, known),
    ]
    return f"---\n{header}---\n" + "\n\n".join(parts) + "\n"


def _about(model: Any, facts: Mapping[str, Any]) -> Iterable[str]:
    """What it is and how to use it, in the words of its kind."""
    if purpose_of(model) == "segment":
        return [*describe_segmenter(model), *_told(model), *use_segmenter()]
    if purpose_of(model) == "detect":
        return [*describe_detector(model), *_what(model), *_told(model), *use_detector()]
    if purpose_of(model) == "segment3d":
        return [*describe_volumes(model), *use_volumes()]
    if hasattr(model, "num_classes"):
        return [*_what(model), *_told(model), *_use(model)]
    if purpose_of(model) == "restore":
        return [*describe_restoration(model), *use_restoration()]
    if purpose_of(model) == "mri":
        return [*describe_reconstructor(model), *use_reconstructor()]
    if purpose_of(model) == "pretrain":
        return [*describe_pretrained(model), *(use_pretrained() if hasattr(model, "backbone") else use_vocabulary())]
    return [*describe_words(model, facts), *describe_use(model)]


def front_matter(model: Any, facts: Mapping[str, Any], metrics: Sequence[Measure]) -> dict[str, Any]:
    """What hubs index: library, task, tags, and the scores as Hugging Face's model-index."""
    task = PIPELINES[purpose_of(model)]
    multi_label = ["multi-label"] if model.multi_label else []
    header: dict[str, Any] = {
        "library_name": "vitrail",
        "pipeline_tag": task,
        "tags": ["vision" if _what_it_reads(model) != "text" else "text", model.architecture, *multi_label],
    }
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
                "results": [{"task": {"type": task}, "dataset": dataset, "metrics": values}],
            }
        ]
    return header


def _what_it_reads(model: Any) -> str:
    return "scans" if purpose_of(model) in ("mri", "segment3d") else "text" if model.preprocessing is None else "pictures"


def _kind(model: Any) -> str:
    if purpose_of(model) == "restore":
        return "restoration of pictures"
    if purpose_of(model) == "mri":
        return TITLE
    if purpose_of(model) == "segment3d":
        return "segmentation of volumes"
    if purpose_of(model) == "pretrain":
        return "features learned without labels"
    if purpose_of(model) == "segment":
        return "segmentation of pictures"
    if purpose_of(model) == "detect":
        return DETECTOR
    if not hasattr(model, "num_classes"):
        return title_of(model)
    if not model.num_classes:
        return "image features"
    return "multi-label image classifier" if model.multi_label else "image classifier"


def _what(model: Any) -> Iterable[str]:
    height, width = model.image_size
    details = ", ".join(f"{name} {getattr(model.config, name)}" for name in DETAILS if hasattr(model.config, name))
    classes = f"{model.num_classes} classes" if model.num_classes else "features instead of classes"
    yield (
        f"A model of the Vitrail library: {count_parameters(model):,} parameters, pictures of {height}x{width} with "
        f"{model.config.in_channels} channel(s), {classes}."
    )
    yield f"Architecture {literal(model.architecture)}: {details}."


def _told(model: Any) -> Iterable[str]:
    """How a picture goes in, and what the numbers mean that come out."""
    yield f"Preprocessing, which the library applies by itself: {describe_preprocessing(model.preprocessing)}."
    if model.labels is not None:
        lines = [f"{number:>3}  {plain(label)}" for number, label in enumerate(model.labels[:MOST_LABELS])]
        more = len(model.labels) - MOST_LABELS
        yield "## Labels"
        yield block([*lines, f"     and {more:,} more: config.json has them all"] if more > 0 else lines, "text")


def describe_preprocessing(preprocessing: Preprocessing) -> str:
    """How a picture becomes a model's input, in words."""
    height, width = preprocessing.size
    size = f"{height}x{width} (height x width)"
    fit = {
        "crop": f"resized until it just covers {size}, of which the middle is cut out",
        "squash": f"resized to {size}, whatever its shape",
        "aspect": f"resized with its aspect kept to at most the area of {size}, whole patches a side",
    }[preprocessing.fit]
    channels = {1: "gray", 3: "RGB"}.get(preprocessing.channels, f"{preprocessing.channels} channels")
    mean, std = (", ".join(f"{value:.4g}" for value in values) for values in (preprocessing.mean, preprocessing.std))
    return (
        f"turned upright and to {channels}, {fit} ({preprocessing.interpolation}), scaled to [0, 1], "
        f"then (x - mean) / std with mean {mean} and std {std}"
    )


def _use(model: Any) -> Iterable[str]:
    yield "## How to use it"
    if not model.num_classes:
        yield block(
            ["import vitrail as vt", "", 'model = vt.load("path/to/this/folder")', "features = model(images)"], "python"
        )
        return
    call = 'classify = vt.pipeline("image-classification", "path/to/this/folder")'
    yield block(["import vitrail as vt", "", call, 'classify("picture.png")  # [{"label": ..., "score": ...}, ...]'], "python")
    yield block(["vitrail predict path/to/this/folder picture.png"], "bash")


def _training(facts: Mapping[str, Any]) -> Iterable[str]:
    lines = []
    if "data" in facts:
        lines.append(f"- Data: {literal(last_name(facts['data']))}")
    for kind in ("pictures", "sentences"):
        if kind in facts:
            counts = ", ".join(f"{count:,} {plain(split)}" for split, count in facts[kind].items())
            lines.append(f"- {kind.capitalize()}: {counts}")
    recipe = facts.get("recipe")
    if isinstance(recipe, Mapping):
        lines.append(f"- Recipe: {literal(', '.join(f'{key} {last_name(value)}' for key, value in recipe.items()))}")
    elif recipe:
        lines.append(f"- Recipe: {literal(recipe)}")
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


def _limits(model: Any, facts: Mapping[str, Any]) -> Iterable[str]:
    yield "## Limits"
    lines = []
    if purpose_of(model) == "restore":
        lines += restoration_limits(model)
    elif purpose_of(model) == "mri":
        lines += scan_limits()
    elif purpose_of(model) == "segment3d":
        lines += volume_limits()
    elif purpose_of(model) == "pretrain":
        lines += pretrained_limits()
    elif purpose_of(model) == "segment":
        lines += segmentation_limits(model)
    elif purpose_of(model) == "detect":
        lines += detector_limits(model)
    elif not hasattr(model, "num_classes"):
        lines += word_limits(model)
    elif model.num_classes and model.multi_label:
        lines.append(f"It knows {model.num_classes} labels and nothing else; each has a score of its own, from 0 to 1.")
    elif model.num_classes:
        lines.append(f"It answers with one of its {model.num_classes} classes even for a picture of something else.")
    what = _what_it_reads(model)
    lines.append(f"Scores hold for {what} of the kind it was trained on; check it on yours before you rely on it.")
    given = facts.get("limits", ())
    lines += [plain(line) for line in ((given,) if isinstance(given, str) else given)]
    yield "\n".join(f"- {line}" for line in lines)
