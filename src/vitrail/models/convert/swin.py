"""Weights of transformers' Swin and Swinv2 and of timm's as ours, and back.

d width, h heads, ch channels, r offsets
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.convert.renaming import (
    Style,
    as_filters,
    copies,
    find_style,
    join_projections,
    learned,
    move,
    refuse_left,
    split_projections,
)
from vitrail.models.swin import SwinConfig, second, stage_grids

# Theirs to ours. "S" is a stage, "N" a block of it; what is merged behind a stage in one library stands before the next in the other.
OUTSIDE: Mapping[Style, Mapping[str, str]] = {
    "transformers": {
        "embeddings.patch_embeddings.projection": "tokenizer.project",
        "embeddings.norm": "stem_norm",
        "layernorm": "encoder.norm",
        "classifier": "head.output",
    },
    "timm": {
        "patch_embed.proj": "tokenizer.project",
        "patch_embed.norm": "stem_norm",
        "norm": "encoder.norm",
        "head.fc": "head.output",
    },
}
BLOCKS: Mapping[Style, Mapping[str, str]] = {
    "transformers": {
        "layernorm_before": "attention_norm",
        "attention.q_proj": "attention.attention.query",
        "attention.k_proj": "attention.attention.key",
        "attention.v_proj": "attention.attention.value",
        "attention.o_proj": "attention.attention.output",
        "attention.relative_position_bias.relative_position_bias_table": "attention.position.table",
        "layernorm_after": "mlp_norm",
        "mlp.fc1": "mlp.expand",
        "mlp.fc2": "mlp.contract",
    },
    "transformers_files": {
        "layernorm_before": "attention_norm",
        "attention.self.query": "attention.attention.query",
        "attention.self.key": "attention.attention.key",
        "attention.self.value": "attention.attention.value",
        "attention.output.dense": "attention.attention.output",
        "attention.self.relative_position_bias_table": "attention.position.table",
        "attention.self.logit_scale": "attention.attention.kernel.log_scale",
        "attention.self.continuous_position_bias_mlp": "attention.position.mlp",
        "layernorm_after": "mlp_norm",
        "intermediate.dense": "mlp.expand",
        "output.dense": "mlp.contract",
    },
    "timm": {
        "norm1": "attention_norm",
        "attn.proj": "attention.attention.output",
        "attn.relative_position_bias_table": "attention.position.table",
        "attn.logit_scale": "attention.attention.kernel.log_scale",
        "attn.cpb_mlp": "attention.position.mlp",
        "norm2": "mlp_norm",
        "mlp.fc1": "mlp.expand",
        "mlp.fc2": "mlp.contract",
    },
}


def config_from_transformers(record: Mapping[str, Any]) -> SwinConfig:
    """Our config from what their config.json says; refused where they compute what we have no option for."""
    kind = check_choice("model_type", record["model_type"], ("swin", "swinv2"))
    for option, usual in (
        ("use_absolute_embeddings", False),
        ("qkv_bias", True),
        ("hidden_act", "gelu"),
        ("layer_norm_eps", 1e-5),  # their norms of patches and mergings have no other
    ):
        if record.get(option, usual) != usual:
            raise VitrailError(f"{option} must be {usual}, got {record[option]}")
    size, window = record["image_size"], record["window_size"]
    height, width = (size, size) if isinstance(size, int) else size
    config = SwinConfig(
        width=record["embed_dim"],
        depths=tuple(record["depths"]),
        heads=tuple(record["num_heads"]),
        window=(window, window),
        mlp_ratio=float(record["mlp_ratio"]),
        patch=record["patch_size"],
        image_size=(height, width),
        in_channels=record["num_channels"],
        num_classes=len(record["id2label"]),
    )
    if kind == "swin":
        return config
    learned = tuple(record.get("pretrained_window_sizes") or ())
    return second(config, window, (height, width), learned if any(learned) else None)


def from_swin(theirs: Mapping[str, Tensor], config: SwinConfig) -> dict[str, Tensor]:
    """Our weights for a model of this config, whatever library they come from. What has no place in it is refused by name."""
    style = find_style(theirs)
    left = learned(theirs, "swin", "swinv2")
    ours = move(left, pairs(config, style))
    if style == "timm":
        for their, name in attentions(config, style):
            for kind, tensor in split_projections(left, f"{their}attn.").items():
                ours[f"{name}attention.attention.{kind}"] = tensor
    refuse_left(left)
    return copies({name: _in(name, tensor, config) for name, tensor in ours.items()})


def to_swin(ours: Mapping[str, Tensor], config: SwinConfig, *, style: Style) -> dict[str, Tensor]:
    """Their weights. `transformers` are the names of its modules in memory, `transformers_files` those of its files, which for
    the second version are the same."""
    first = "" if style == "timm" or not config.num_classes else "swinv2." if config.attention == "cosine" else "swin."
    style = "transformers_files" if config.attention == "cosine" and style == "transformers" else style
    left = {name: _out(name, tensor, config, style) for name, tensor in ours.items()}
    places = [(name, their if their == "classifier" else first + their) for their, name in pairs(config, style)]
    theirs = move(left, places)
    if style == "timm":
        for their, name in attentions(config, style):
            joined = join_projections(left, f"{name}attention.attention.")
            theirs |= {f"{their}attn.{kind}": tensor for kind, tensor in joined.items()}
    return copies(theirs)


def attentions(config: SwinConfig, style: Style) -> Iterator[tuple[str, str]]:
    """What stands before the names inside each block: theirs and ours."""
    layers = "layers." if style == "timm" else "encoder.layers."
    number = 0
    for stage, depth in enumerate(config.depths):
        for block in range(depth):
            yield f"{layers}{stage}.blocks.{block}.", f"encoder.blocks.{number}."
            number += 1


def pairs(config: SwinConfig, style: Style) -> Iterator[tuple[str, str]]:
    """Names of layers, or of single weights: theirs and ours."""
    yield from OUTSIDE["timm" if style == "timm" else "transformers"].items()
    for before, ours in attentions(config, style):
        for their, name in BLOCKS[style].items():
            if name == "attention.position.mlp":
                yield from ((f"{before}{their}.{layer}", f"{ours}{name}.{layer}") for layer in (0, 2))
            else:
                yield before + their, ours + name
    layers, number = "layers." if style == "timm" else "encoder.layers.", 0
    for stage, depth in enumerate(config.depths[:-1]):
        number += depth
        at = stage + 1 if style == "timm" else stage
        for part in ("reduction", "norm"):
            yield f"{layers}{at}.downsample.{part}", f"encoder.mergings.{number}.{part}"


def fit_table(table: Float[Tensor, "r h"], old: tuple[int, int], new: tuple[int, int]) -> Float[Tensor, "r2 h"]:
    """A table of the offsets within a window `old` as one for a window `new`: its middle, or with zeros around it."""
    grown = table.view(2 * old[0] - 1, 2 * old[1] - 1, -1)
    down, right = new[0] - old[0], new[1] - old[1]
    return F.pad(grown, (0, 0, right, right, down, down)).flatten(0, 1)


def table_window(name: str, config: SwinConfig) -> tuple[int, int]:
    """The window of timm's table: on a grid that is smaller than the window, the grid."""
    number, stage = int(name.split(".")[2]), 0
    while number >= sum(config.depths[: stage + 1]):
        stage += 1
    rows, columns = stage_grids(config)[stage]
    return min(rows, config.window[0]), min(columns, config.window[1])


def _in(name: str, tensor: Tensor, config: SwinConfig) -> Tensor:
    if name == "tokenizer.project.weight":
        return tensor.flatten(1)  # a convolution's filters: channel first, then raster, as patches are cut
    if name.endswith("log_scale"):
        return tensor.flatten()
    if name.endswith("position.table") and len(tensor) != (2 * config.window[0] - 1) * (2 * config.window[1] - 1):
        return fit_table(tensor, table_window(name, config), config.window)
    return tensor


def _out(name: str, tensor: Tensor, config: SwinConfig, style: Style) -> Tensor:
    if name == "tokenizer.project.weight":
        return as_filters(tensor, config.in_channels, config.patch)
    if name.endswith("log_scale"):
        return tensor.view(-1, 1, 1)
    if name.endswith("position.table") and style == "timm":
        return fit_table(tensor, config.window, table_window(name, config))
    return tensor
