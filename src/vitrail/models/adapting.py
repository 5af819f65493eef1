"""A classifier with the same weights for images of another size, other patches, other channels or other classes; every step is reported in one line."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.backbones import Pretrained, backbone_of
from vitrail.models.catalogue import build_model
from vitrail.models.channels import spread_mean
from vitrail.models.classifier import Classifier
from vitrail.models.detr import Detector
from vitrail.models.model import Model
from vitrail.models.segmenter import Segmenter
from vitrail.models.swin import SwinConfig, stage_grids
from vitrail.nn.functional.maps import resize_filters, resize_table
from vitrail.nn.functional.windows import fit_windows
from vitrail.nn.initialization import shapes_only
from vitrail.nn.positions.learned import Learned1d, Learned2d
from vitrail.nn.positions.relative_table import RelativeTable
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.preprocessing import Preprocessing
from vitrail.records import has_field


class Changed(NamedTuple):
    """A weight that is not what it was, and why."""

    name: str
    weight: Tensor
    note: str


def adapt(
    model: Model,
    *,
    num_classes: int | None = None,
    labels: Sequence[str] | None = None,
    what: str = "this model",
    **changes: Any,
) -> tuple[Any, tuple[str, ...]]:
    """A model with `changes` in its config (image_size, patch, in_channels, window), and lines that tell what became of its weights.

    Of a model that learned without labels it is the backbone that goes on. What does not change is shared with `model`, not copied.
    """
    notes: list[str] = []
    wanted = {name: value for name, value in changes.items() if value is not None}
    if (num_classes is not None or labels is not None or wanted) and isinstance(model, Pretrained | Segmenter | Detector):
        notes.append(f"what learns without labels is left out of this {model.architecture}: its backbone goes on")
    if num_classes is None and labels is None and not wanted:
        return model, ()
    backbone = backbone_of(model, what=what)
    again, steps = change(backbone, wanted, what=what)
    notes += steps
    count = again.num_classes if num_classes is None else num_classes
    if labels is not None and num_classes is None:
        count = len(labels)
    if labels is not None and len(labels) != count:
        raise VitrailError(f"{what}: {len(labels)} labels for {count} classes")
    if count != again.num_classes:
        notes.append(tell_head(again.num_classes, count))
        again.reset_classifier(count)
        again.multi_label = False
    if labels is not None:
        again.labels = tuple(labels)
    return again.train(model.training), tuple(notes)


def change(model: Classifier, changes: dict[str, Any], *, what: str) -> tuple[Any, list[str]]:
    """`adapt` but for the classes."""
    for name in changes:
        if not has_field(model.config, name):
            raise VitrailError(f"{what}: a model of the kind {model.architecture} has no {name} to change")
    with shapes_only():  # all of its weights are there already
        again = build_model(model.architecture, keep_windows(model.config, replace(model.config, **changes)))
    weights = dict(model.state_dict())
    if other := again.state_dict().keys() ^ weights.keys():
        raise VitrailError(f"{what}: a model with these changes has other weights, such as {min(other)}")
    found = list(changed_weights(model, again))
    weights |= {step.name: step.weight for step in found}
    for name, expected in again.state_dict().items():
        if weights[name].shape != expected.shape:
            have, want = tuple(weights[name].shape), tuple(expected.shape)
            raise VitrailError(f"{what}: {name} of shape {have} cannot be brought to {want}")
    again.load_state_dict(weights, assign=True)
    notes = list(dict.fromkeys(step.note for step in found))
    if again.image_size != model.image_size and not any("resized" in note or "resampled" in note for note in notes):
        notes.append(f"images of {by(again.image_size)} instead of {by(model.image_size)}: no weight depends on it")
    again.preprocessing = fit_preprocessing(model.preprocessing, again.image_size, again.config.in_channels)
    again.labels, again.multi_label = model.labels, model.multi_label
    return again, notes


def changed_weights(model: nn.Module, again: nn.Module) -> Iterator[Changed]:
    """What depends on the size of images, patches and windows, and on the channels, as `again` has it."""
    parts: dict[str, Any] = dict(model.named_modules())
    for path, new in again.named_modules():
        old = parts.get(path)  # dropping paths brings modules along that have no weights
        if old is None:
            continue
        if isinstance(new, Learned1d) and old.grid != new.grid:
            table = resize_table(old.table.detach(), old.grid, new.grid, antialias=new.antialias)
            way = "bicubic, antialiased" if new.antialias else "bicubic"
            yield Changed(f"{path}.table", table, f"positions: {by(old.grid)} rows resized to {by(new.grid)} ({way})")
        elif isinstance(new, Learned2d) and old.grid != new.grid:
            note = f"positions: rows of {by(old.grid)} cells resized to {by(new.grid)} (linear)"
            for axis, (before, after) in enumerate(zip(old.grid, new.grid, strict=True)):
                yield Changed(f"{path}.tables.{axis}", resize_table(old.tables[axis].detach(), (before,), (after,)), note)
        elif isinstance(new, RelativeTable) and old.spans != new.spans:
            table = resize_table(old.table.detach(), old.spans, new.spans, smoothness=new.smoothness)
            note = f"relative positions: tables of {by(old.spans)} offsets resized to {by(new.spans)} ({new.smoothness})"
            yield Changed(f"{path}.table", table, note)
        elif isinstance(new, PatchTokenizer):
            yield from changed_filters(f"{path}.project.weight", old, new)
        elif isinstance(new, nn.Conv2d) and old.in_channels != new.in_channels:
            yield spread_channels(f"{path}.weight", old.weight.detach(), old.in_channels, new.in_channels)


def changed_filters(name: str, old: PatchTokenizer, new: PatchTokenizer) -> Iterator[Changed]:
    """The projection of patches, whose columns are channels first, then pixels in raster order."""
    weight, channels = old.project.weight.detach(), new.in_channels
    if old.in_channels != channels:
        step = spread_channels(name, weight, old.in_channels, channels)
        weight = step.weight
        yield step
    if old.patch != new.patch:
        height, width = new.patch
        filters = resize_filters(weight.view(len(weight), channels, *old.patch), (height, width))
        note = f"patches of {by(old.patch)} resampled to {by(new.patch)} (pseudo-inverse of the resizing)"
        yield Changed(name, filters.flatten(1), note)


def spread_channels(name: str, weight: Tensor, old: int, new: int) -> Changed:
    """Every channel is read by the mean of the filters, times old / new: an image of equal channels gives what it gave before. One channel
    is read by their sum."""
    how = "their filters are added up" if new == 1 else f"each reads the mean of the filters, times {old}/{new}"
    note = f"{old} input channels became {new}: {how}" if old > 1 else f"1 input channel became {new}: {how}"
    return Changed(name, spread_mean(weight, old, new, axis=1) * (old / new), note)


def keep_windows(old: Any, new: Any) -> Any:
    """A continuous bias goes on about the windows it has learned with, where those of a new size are others  [Liu+ 2022, section 3.3]."""
    if not isinstance(new, SwinConfig) or new.position != "continuous_bias" or new.pretrained_windows is not None:
        return new
    before, after = windows_of(old), windows_of(new)
    # A bias knows one number a stage: of windows that are no squares the longer side.
    return new if before == after else replace(new, pretrained_windows=tuple(max(window) for window in before))


def windows_of(config: SwinConfig) -> list[tuple[int, int]]:
    """The windows of each stage, on the grids of its own images."""
    return [fit_windows(grid, config.window, (0, 0)).window for grid in stage_grids(config)]


def fit_preprocessing(old: Preprocessing, size: tuple[int, int], channels: int) -> Preprocessing:
    """For images of another size; new channels have the mean of the old ones' mean and deviation."""
    if channels == old.channels:
        return replace(old, size=size)
    mean, std = (sum(values) / len(values) for values in (old.mean, old.std))
    return replace(old, size=size, channels=channels, mean=(mean,) * channels, std=(std,) * channels)


def tell_head(old: int, new: int) -> str:
    if not new:
        return f"the head of {old} classes is left out: features"
    before = f"{old} classes became {new}" if old else f"there was none, now {new} classes"
    return f"the head is drawn anew ({before}) and has to be trained: vitrail train --weights"


def by(sides: Sequence[int]) -> str:
    return "x".join(map(str, sides))
