"""README.md of a model folder: what a model is by its config alone, and how to load it. Who knows what it is for writes a longer one.

Nothing in it tells when, where or on which machine it was written.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import yaml

from vitrail.models.catalogue import ARCHITECTURES, count_parameters
from vitrail.models.markdown import block, literal, plain
from vitrail.models.model import ImageModel, Model
from vitrail.models.protocols import HasClasses
from vitrail.preprocessing import Preprocessing
from vitrail.records import has_field

README = "README.md"
MOST_LABELS = 100
SHORT = 8  # entries of a tuple that is shown
DETAILS = (  # those that a config of a classifier has
    "width", "depth", "heads", "tokenizer", "patch", "position", "attention", "pool",
    "widths", "depths", "channel_attention", "spatial_attention",
)  # fmt: skip


def readme(model: Model) -> str:
    """Front matter for hubs, then size, architecture, preprocessing, labels, origin, how to load it."""
    title = f"# {model.architecture}: a model of the Vitrail library"
    lines = ["import vitrail as vt", "", 'model = vt.load("path/to/this/folder")']
    use = ["## How to use it", block(lines, "python")]
    own = [field.name for field in fields(model.config) if is_short(getattr(model.config, field.name))]
    about = [describe_size(model), describe_config(model, own), *describe_inputs(model)]
    return write_page(front_matter(model), [title, *about, *use, *describe_source(model.provenance)])


def is_short(value: Any) -> bool:
    """Whether a value of a config fits into a line of them: no palette, no nested config."""
    if isinstance(value, tuple):
        return len(value) <= SHORT and all(isinstance(one, int | float) for one in value)
    return isinstance(value, str | int | float)


def write_page(header: Mapping[str, Any], parts: Iterable[str]) -> str:
    """YAML for machines, Markdown for people."""
    matter = yaml.safe_dump(dict(header), sort_keys=False, allow_unicode=True, width=math.inf)
    return f"---\n{matter}---\n" + "\n\n".join(parts) + "\n"


def front_matter(model: Model) -> dict[str, Any]:
    """What hubs index: library, task, tags."""
    multi_label = ["multi-label"] if model.multi_label else []
    return {
        "library_name": "vitrail",
        "pipeline_tag": model.pipeline_tag,
        "tags": ["text" if what_it_reads(model) == "text" else "vision", model.architecture, *multi_label],
    }


def what_it_reads(model: Model) -> str:
    scans = ARCHITECTURES[model.architecture].takes in ("k-space", "volumes")
    return "scans" if scans else "text" if model.preprocessing is None else "images"


def describe_size(model: Model) -> str:
    """Parameters, and of a model of images their size and how many classes it knows."""
    size = f"A model of the Vitrail library: {count_parameters(model):,} parameters"
    if not isinstance(model, ImageModel) or not isinstance(model, HasClasses):
        return f"{size}."
    height, width = model.image_size
    classes = f"{model.num_classes} classes" if model.num_classes else "features instead of classes"
    return f"{size}, images of {height}x{width} with {model.config.in_channels} channel(s), {classes}."


def describe_config(model: Model, names: Iterable[str] = DETAILS) -> str:
    details = ", ".join(f"{name} {plain(getattr(model.config, name))}" for name in names if has_field(model.config, name))
    return f"Architecture {literal(model.architecture)}: {details}."


def describe_inputs(model: Model) -> Iterable[str]:
    """How an image goes in, and what the numbers mean that come out."""
    if model.preprocessing is not None:
        yield f"Preprocessing, which the library applies by itself: {describe_preprocessing(model.preprocessing)}."
    if model.labels is not None:
        lines = [f"{number:>3}  {plain(label)}" for number, label in enumerate(model.labels[:MOST_LABELS])]
        more = len(model.labels) - MOST_LABELS
        yield "## Labels"
        yield block([*lines, f"     and {more:,} more: config.json has them all"] if more > 0 else lines, "text")


def describe_preprocessing(preprocessing: Preprocessing) -> str:
    """How an image becomes a model's input, in words."""
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


def describe_source(provenance: Mapping[str, Any] | None) -> Iterable[str]:
    """The name that was given, whose weights they are, which files they were, and what was changed."""
    if not provenance:
        return
    yield "## Where its weights come from"
    revision = provenance.get("revision")
    lines = [f"- {literal(provenance.get('given', ''))}, read as {plain(provenance.get('origin', 'unknown'))}"]
    if revision:
        lines.append(f"- Revision {literal(revision)}")
    files = provenance.get("sha256")
    if isinstance(files, Mapping):
        lines += [f"- SHA-256 of {literal(name)}: {literal(digest)}" for name, digest in files.items()]
    changes = provenance.get("adapted")
    if isinstance(changes, list):
        lines += [f"- Adapted: {plain(line)}" for line in changes]
    yield "\n".join(lines)
