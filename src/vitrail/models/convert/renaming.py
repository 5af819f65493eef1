"""What all conversions of weights share: other names, projections that are kept as one, and a check of what came out."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.initialization import shapes_only

Style = Literal["transformers", "transformers_files", "timm"]  # of names: as its modules have them; as its files have; timm's
Weights = Mapping[str, Tensor]

PROJECTIONS = ("query", "key", "value")  # one after the other where they are kept as one matrix
COMPUTED = (
    "relative_position_index",
    "relative_coords_table",
    "attn_mask",
    "k_bias",
)  # not learned; in some files all the same


def find_style(names: Iterable[str]) -> Style:
    """Whose names these are."""
    names = list(names)
    if any(".attn.qkv." in name for name in names):
        return "timm"
    return "transformers" if any(".attention.q_proj." in name for name in names) else "transformers_files"


def learned(theirs: Weights, *models: str) -> dict[str, Tensor]:
    """Without what is computed, and without the name of a model, such as `vit`, that stands before those of its parts."""
    return {
        next((name.removeprefix(f"{model}.") for model in models if name.startswith(f"{model}.")), name): tensor
        for name, tensor in theirs.items()
        if not name.endswith(COMPUTED)
    }


def move(left: dict[str, Tensor], pairs: Iterable[tuple[str, str]]) -> dict[str, Tensor]:
    """What `left` has of the first names, under the second ones, and taken out of it. A name is that of a layer, whose weight and bias are
    meant, or of a single weight."""
    moved: dict[str, Tensor] = {}
    for old, new in pairs:
        for kind in (".weight", ".bias", ""):
            if old + kind in left:
                moved[new + kind] = left.pop(old + kind)
    return moved


def split_projections(left: dict[str, Tensor], before: str) -> dict[str, Tensor]:
    """timm's joined query, key and value, taken out of `left`; where their biases are apart, keys have none."""
    if before + "qkv.weight" not in left:
        return {}  # `check_fit` says so
    found = {f"{name}.weight": part for name, part in zip(PROJECTIONS, left.pop(before + "qkv.weight").chunk(3), strict=True)}
    if before + "qkv.bias" in left:
        biases = left.pop(before + "qkv.bias").chunk(3)
        found |= {f"{name}.bias": part for name, part in zip(PROJECTIONS, biases, strict=True)}
    for name in ("query", "value"):
        if (full := f"{before}{name[0]}_bias") in left:
            found[f"{name}.bias"] = left.pop(full)
    return found


def join_projections(left: dict[str, Tensor], before: str) -> dict[str, Tensor]:
    """The inverse of `split_projections`: ours, taken out of `left`."""
    parts = move(left, [(before + name, name) for name in PROJECTIONS])
    joined = {"qkv.weight": torch.cat([parts[f"{name}.weight"] for name in PROJECTIONS])}
    if "key.bias" in parts:
        return joined | {"qkv.bias": torch.cat([parts[f"{name}.bias"] for name in PROJECTIONS])}
    return joined | {f"{name[0]}_bias": parts[f"{name}.bias"] for name in ("query", "value") if f"{name}.bias" in parts}


def as_filters(matrix: Tensor, channels: int, patch: int) -> Tensor:
    """The tokenizer's matrix as a convolution's filters: channel first, then raster, as patches are cut."""
    return matrix.view(len(matrix), channels, patch, patch)


def refuse_left(left: Weights) -> None:
    if left:
        raise VitrailError(f"{len(left)} weights have no place in this model, such as {next(iter(left))}")


def check_fit(found: Weights, expected: Weights, pairs: Iterable[tuple[str, str]] = ()) -> None:
    """Every weight that a model has is there, and has its shape. Of what is missing, `pairs` (theirs, ours) say the foreign name."""
    missing = [name for name in expected if name not in found]
    if missing:
        first = missing[0]
        called = next((their + first.removeprefix(name) for their, name in pairs if first.startswith(f"{name}.")), first)
        raise VitrailError(f"{len(missing)} weights of this model are missing, such as {called}")
    refuse_left({name: tensor for name, tensor in found.items() if name not in expected})
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            raise VitrailError(f"{name} must have the shape {tuple(expected[name].shape)}, got {tuple(tensor.shape)}")


def shapes_of(build: Callable[[Any], nn.Module], config: Any) -> dict[str, Tensor]:
    """The names and shapes of our weights, without the weights."""
    with shapes_only():
        return build(config).state_dict()


def stage_depths(names: Iterable[str], block: re.Pattern[str], *, stages: int = 0) -> tuple[int, ...]:
    """Blocks of each stage, of which there are at least so many, by the two numbers that `block` finds in a name: the stage's and its own.
    What lacks is named by `check_fit`."""
    depths: dict[int, int] = {}
    for name in names:
        if match := block.match(name):
            stage, number = int(match.group(1)), int(match.group(2))
            depths[stage] = max(depths.get(stage, 0), number + 1)
    return tuple(depths.get(stage, 1) for stage in range(max(stages, 1 + max(depths, default=-1))))


def copies(weights: Weights) -> dict[str, Tensor]:
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in weights.items()}
