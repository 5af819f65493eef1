"""How timm names the ResNet that stands before the patches of a hybrid: its layers, and ours."""

import re
from collections.abc import Iterator, Mapping

from torch import Tensor

from vitrail.models.convert.renaming import stage_depths
from vitrail.models.vit import ViTConfig

STEM = "patch_embed.backbone."
BLOCK = re.compile(re.escape(STEM) + r"stages\.(\d+)\.blocks\.(\d+)\.")
INSIDE = {
    "conv1": "reduce",
    "norm1": "reduce_norm",
    "conv2": "spatial",
    "norm2": "spatial_norm",
    "conv3": "expand",
    "norm3": "expand_norm",
    "downsample.conv": "shortcut",
    "downsample.norm": "shortcut_norm",
}


def stem_depths(theirs: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Blocks of each stage; none where the root stands alone."""
    return stage_depths(theirs, BLOCK)


def stem_pairs(config: ViTConfig) -> Iterator[tuple[str, str]]:
    """Names of layers: theirs and ours. A root alone is not called one there."""
    root = f"{STEM}stem." if config.tokenizer_depths else STEM
    yield from ((f"{root}conv", "tokenizer.root"), (f"{root}norm", "tokenizer.root_norm"))
    for stage, depth in enumerate(config.tokenizer_depths):
        for block in range(depth):
            for their, name in INSIDE.items():
                yield f"{STEM}stages.{stage}.blocks.{block}.{their}", f"tokenizer.stages.{stage}.{block}.{name}"
