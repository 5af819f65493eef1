"""Weights of other libraries, or of our own, as a model of ours that is ready: adapted to what is asked for, with its preprocessing and labels,
and with where they come from."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError, VitrailWarning
from vitrail.models.adapting import adapt, by
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import build_model, model_config
from vitrail.models.convert.origins import Converted, convert
from vitrail.models.folder import CONFIG, WEIGHTS, fill, find_own, load_folder
from vitrail.models.markdown import last_name
from vitrail.models.model import Model
from vitrail.models.pretrained import resolve_source
from vitrail.models.reading.hub import is_hub_id
from vitrail.models.reading.source import Source, open_source
from vitrail.models.swin import SwinConfig, stage_heads
from vitrail.nn.initialization import shapes_only
from vitrail.records import has_field

OURS = ("encoder.blocks.0.attention_norm.weight", "tokenizer.project.weight")  # no other library names weights so
OF_NAME = ("image_size", "patch", "window")  # what a model's name says
OF_TRAINING = (
    "drop_path",
    "dropout",
    "attention_dropout",
    "token_keep",
    "merge",
)  # no weight and no answer depends on them, but for merge
# What answers depend on and weights do not: the source knows it.
OF_SOURCE = (
    "eps",
    "position_antialias",
    "position_resize",
    "pool",
    "activation",
    "in_channels",
    "num_classes",
    "pretrained_windows",
)


def import_model(
    source: str | Path,
    *,
    image_size: int | tuple[int, int] | None = None,
    patch: int | None = None,
    in_channels: int | None = None,
    num_classes: int | None = None,
    labels: Sequence[str] | None = None,
    heads: int | None = None,
    model: str | None = None,
    pickles: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """A model in evaluation mode, and a line on each thing that was supposed or changed.

    `source` is a file, a folder or a hub id ("owner/name", "owner/name@revision"), of another library or of ours; `heads` counts
    where no config.json says how many there are; `model` is a name of the catalogue that it must fit; `pickles` allows files of torch.save, of which weights are read and nothing else.
    """
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    wanted = {"image_size": size, "patch": patch, "in_channels": in_channels}
    given = {name: value for name, value in wanted.items() if value is not None}
    if model is not None:
        if heads is not None:
            raise VitrailError(f"heads={heads}: the model {model} says how many there are")
        overrides = given | ({} if num_classes is None else {"num_classes": num_classes})
        found, notes = as_named(model, source, overrides, pickles=pickles)
        found, more = adapt(found, labels=labels, what=str(source))
    else:
        found, notes = open_model(source, image_size=size, heads=heads, pickles=pickles)
        if heads not in (None, heads_of(found.config)):
            raise VitrailError(f"heads={heads}: {source} has {heads_of(found.config)}")
        found, more = _adapted(found, num_classes=num_classes, labels=labels, what=str(source), **given)
    return found.eval(), (*notes, *more)


def import_as(name: str, source: str | Path, overrides: Mapping[str, Any]) -> Any:
    """The model of this name with the weights of a source, to be trained further; every line about it is a warning."""
    model, notes = as_named(name, source, overrides)
    for note in notes:
        warnings.warn(note, VitrailWarning, stacklevel=3)
    return model.train()


def as_named(
    name: str, source: str | Path, overrides: Mapping[str, Any], *, pickles: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """The model of this name and overrides with the weights of a source. What a name does not say, the source does: classes, channels, eps.

    A source that is another model is refused.
    """
    architecture, config = model_config(name, **overrides)
    with shapes_only():
        config = build_model(architecture, config).config  # with its choices made
    found, notes = open_model(source, image_size=config.image_size, heads=heads_of(config), pickles=pickles)
    if found.architecture != architecture:
        found = backbone_of(found, what=str(source))
    if found.architecture != architecture:
        raise VitrailError(f"{source} is a {found.architecture}, {name} a {architecture}")
    asked = set(OF_SOURCE) & overrides.keys()
    taken = {field for field in (*OF_NAME, *OF_TRAINING, *asked) if has_field(config, field)}
    other = [field for field in unlike(found.config, config) if field not in taken | set(OF_SOURCE)]
    if other:
        theirs, ours = ([f"{field} {spelled(getattr(one, field))}" for field in other[:4]] for one in (found.config, config))
        raise VitrailError(f"{source} has {', '.join(theirs)}, {name} {', '.join(ours)}: they are different models")
    changes = {field: getattr(config, field) for field in taken if getattr(config, field) != getattr(found.config, field)}
    model, more = _adapted(found, num_classes=changes.pop("num_classes", None), what=str(source), **changes)
    return model, (*notes, *more)


def heads_of(config: Any) -> int | None:
    found = getattr(config, "heads", None)
    return found if isinstance(found, int) and not isinstance(config, SwinConfig) else None


def unlike(one: Any, other: Any) -> list[str]:
    """The fields in which two configs differ; a first value of layer scale does not count, nor how heads are spelled."""
    found = [field.name for field in fields(one) if getattr(one, field.name) != getattr(other, field.name)]
    if isinstance(one, SwinConfig) and stage_heads(one) == stage_heads(other):
        found = [name for name in found if name != "heads"]
    if getattr(one, "layer_scale", None) is not None and other.layer_scale is not None:
        found = [name for name in found if name != "layer_scale"]
    return found


def spelled(value: Any) -> str:
    return by(value) if isinstance(value, tuple) else str(value)


def open_model(
    source: str | Path, *, image_size: tuple[int, int] | None = None, heads: int | None = None, pickles: bool = False
) -> tuple[Any, tuple[str, ...]]:
    """The model of a source as it is there. `image_size` and `heads` are for weights that do not say it themselves."""
    source = resolve_source(source) if isinstance(source, str) else source
    if (folder := find_own(source)) is not None:
        return load_folder(folder), ()
    opened = open_source(source, pickles=pickles)
    if opened.record is None and any(name in opened.tensors for name in OURS):
        raise VitrailError(f"{source}: weights alone do not say which model they are for; expected {CONFIG} beside {WEIGHTS}")
    return build_converted(opened, given=source, image_size=image_size, heads=heads)


def build_converted(
    opened: Source, *, given: str | Path, image_size: tuple[int, int] | None, heads: int | None
) -> tuple[Any, tuple[str, ...]]:
    """From another library's tensors to a model in evaluation mode."""
    try:
        found = converted(opened, image_size=image_size, heads=heads)
        with shapes_only():
            model = build_model(found.architecture, found.config)
        fill(model, found.weights, what=str(given))
    except VitrailError as error:
        words = str(error)
        raise error if words.startswith(str(given)) else VitrailError(f"{given}: {words}") from None
    if found.preprocessing is not None:
        model.preprocessing = found.preprocessing
    if found.labels is not None:
        model.labels = found.labels
    model.provenance = {
        "given": str(given) if is_hub_id(str(given)) else last_name(given),  # where a user keeps files is nobody's business
        "origin": str(found.origin),
        "revision": opened.revision,
        "sha256": dict(opened.sha256),
        "adapted": [],
    }
    return model.eval(), (*opened.notes, *found.notes)


def converted(opened: Source, *, image_size: tuple[int, int] | None, heads: int | None) -> Converted:
    """Their tensors under our names. What is given from outside counts where no config.json does, and heads where they would be guessed."""
    record = with_preprocessor(opened)
    if opened.record is not None:
        return convert(opened.tensors, record)
    try:
        found = convert(opened.tensors, record, image_size=image_size)
    except VitrailError:
        if heads is None:
            raise
        return convert(opened.tensors, record, image_size=image_size, heads=heads)
    guessed = [note for note in found.notes if note.startswith(f"{getattr(found.config, 'heads', None)} heads: ")]
    if guessed and isinstance(heads, int) and found.config.width % heads == 0:
        return convert(opened.tensors, record, image_size=image_size, heads=heads)
    return found


def with_preprocessor(opened: Source) -> dict[str, Any] | None:
    """What their config.json says, and under `preprocessor` what transformers keeps beside it."""
    return opened.record if opened.preprocessor is None else (opened.record or {}) | {"preprocessor": opened.preprocessor}


def _adapted(model: Model, **changes: Any) -> tuple[Any, tuple[str, ...]]:
    """`adapt`, and what it did is added to where the model comes from."""
    again, notes = adapt(model, **changes)
    if model.provenance is not None:
        again.provenance = {**model.provenance, "adapted": [*model.provenance["adapted"], *notes]}
    return again, notes
