"""The config of a Swin Transformer, first or second version, from the names and shapes of its weights alone.

Tables have a row for each offset within a window and a column for each head. In the second version a small network stands
for the table, and the window is known only from what some files keep beside the weights, or from the model's name. No
version's weights tell the size of the images.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert.grids import grid_from_offsets
from vitrail.models.convert.hints import Hints
from vitrail.models.convert.renaming import Style, stage_depths
from vitrail.models.convert.vit_names import TABLE, library
from vitrail.models.convert.vit_shapes import PATCHES, expect
from vitrail.models.swin import PRESETS, SwinConfig, second, stage_heads

BLOCK = re.compile(r"(?:encoder\.)?layers\.(\d+)\.blocks\.(\d+)\.")
INDEX, SCALE, MASK = "relative_position_index", "logit_scale", "attn_mask"
EXPAND = ("mlp.fc1.weight", "intermediate.dense.weight")


def is_swin(names: Mapping[str, Tensor]) -> bool:
    return any(BLOCK.search(name) for name in names)


def new_names(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Files of the authors and of timm's early versions, as timm has them now: a merging belongs to the stage behind it."""
    if not any(name.startswith("layers.0.downsample.") for name in theirs):
        return dict(theirs)
    renamed = {}
    for name, tensor in theirs.items():
        name = re.sub(r"^layers\.(\d+)\.downsample\.", lambda match: f"layers.{int(match.group(1)) + 1}.downsample.", name)
        renamed[re.sub(r"^head\.(weight|bias)$", r"head.fc.\1", name)] = tensor
    return renamed


def swin_from_shapes(theirs: Mapping[str, Tensor], style: Style, *, hints: Hints) -> tuple[SwinConfig, list[str]]:
    """Our config, and what was supposed. `theirs` are the weights of a model without its name before them, computed ones among them."""
    filters = expect(theirs, (PATCHES[library(style)],), dims=4)
    width, channels, patch, _ = filters.shape
    depths = depths_of(theirs)
    before = next(match.group() for name in theirs if (match := BLOCK.match(name))).split("layers.")[0] + "layers.0.blocks.0."
    head = next((theirs[name] for name in ("head.fc.weight", "classifier.weight") if name in theirs), None)
    config = SwinConfig(
        width=width,
        depths=depths,
        mlp_ratio=len(expect(theirs, [before + name for name in EXPAND], dims=2)) / width,
        patch=patch,
        in_channels=channels,
        num_classes=0 if head is None else len(head),
    )
    newer = any(name.endswith(SCALE) for name in theirs)
    heads = tuple(heads_of(theirs, stage, newer=newer) for stage in range(len(depths)))
    config = replace(config, heads=heads)
    window, notes = window_of(theirs, config, newer=newer, hints=hints)
    if newer:
        config = second(config, window, config.image_size, pretrained_of(config, hints))
    else:
        config = replace(config, window=(window, window))
    size, why = size_of(theirs, config, hints)
    return replace(config, image_size=size), [*notes, *why]


def depths_of(theirs: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Blocks of each stage."""
    return stage_depths(theirs, BLOCK, stages=1)


def heads_of(theirs: Mapping[str, Tensor], stage: int, *, newer: bool) -> int:
    """A column of the table each; in the second version a scale each."""
    ending = SCALE if newer else TABLE
    for name, tensor in theirs.items():
        if name.endswith(ending) and (match := BLOCK.match(name)) and int(match.group(1)) == stage:
            return len(tensor) if newer else tensor.shape[-1]
    raise VitrailError(f"a weight of this model is missing: that of stage {stage} that ends with {ending}")


def window_of(theirs: Mapping[str, Tensor], config: SwinConfig, *, newer: bool, hints: Hints) -> tuple[int, list[str]]:
    """The side of a window: from the first stage's table; in the second version from the index of its offsets or the model's name."""
    for name, tensor in theirs.items():
        match = BLOCK.match(name)
        if match is None or int(match.group(1)):
            continue
        if name.endswith(TABLE):
            return grid_from_offsets(len(tensor), None, what=name)[0][0], []
        if newer and name.endswith(INDEX):
            return math.isqrt(len(tensor)), []
    if (preset := PRESETS.get(hints.name or "")) is not None:
        return preset.window[0], []
    fitting = alike(config, newer=newer)
    windows = {PRESETS[name].window for name in fitting}
    if len(windows) != 1:
        raise VitrailError(
            "the weights of a Swin of the second version do not tell its window: a config.json or timm's name of the model must"
        )
    return windows.pop()[0], [f"windows of {PRESETS[fitting[0]].window[0]}: the preset {fitting[0]} has these shapes"]


def size_of(theirs: Mapping[str, Tensor], config: SwinConfig, hints: Hints) -> tuple[tuple[int, int], list[str]]:
    """What was given, or what the masks of shifted windows tell, one for each window; else a preset's, else one window in the last stage."""
    if hints.image_size is not None:
        return hints.image_size, []
    masks = next((tensor for name, tensor in theirs.items() if name.endswith(f"layers.0.blocks.1.{MASK}")), None)
    if masks is not None and math.isqrt(len(masks)) ** 2 == len(masks):
        side = math.isqrt(len(masks)) * config.window[0] * config.patch
        return (side, side), []
    newer = config.attention == "cosine"
    fitting = [name for name in alike(config, newer=newer) if PRESETS[name].window == config.window]
    if fitting:
        size = PRESETS[fitting[0]].image_size
        return size, [f"images of {size[0]}x{size[1]}: the preset {fitting[0]} has these shapes"]
    side = config.window[0] * config.patch << (len(config.depths) - 1)
    return (side, side), [f"images of {side}x{side}: then the last stage is one window; a Swin reads other sizes too"]


def pretrained_of(config: SwinConfig, hints: Hints) -> tuple[int, ...] | None:
    preset = PRESETS.get(hints.name or "")
    return None if preset is None else preset.pretrained_windows


def alike(config: SwinConfig, *, newer: bool) -> list[str]:
    """Presets whose blocks have these shapes."""

    def facts(one: SwinConfig) -> tuple[object, ...]:
        return one.width, one.depths, one.mlp_ratio, one.patch, stage_heads(one)

    return [
        name
        for name, preset in PRESETS.items()
        if facts(preset) == facts(config) and (preset.attention == "cosine") == newer and preset.pretrained_windows is None
    ]
