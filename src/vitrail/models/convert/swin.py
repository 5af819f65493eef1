"""Weights of transformers' Swin and Swinv2 and of timm's as ours, and back.

d width, h heads, ch channels, r offsets
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.swin import SwinConfig, second, stage_grids

Style = Literal["transformers", "transformers_files", "timm"]  # of names: as its modules have them; as its files have; timm's

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
PROJECTIONS = ("query", "key", "value")  # one after the other in timm's attn.qkv
COMPUTED = (
    "relative_position_index",
    "relative_coords_table",
    "attn_mask",
    "k_bias",
)  # not learned; in some files all the same


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


def find_style(names: Mapping[str, Any]) -> Style:
    """Whose names these are."""
    if any(".attn.qkv." in name for name in names):
        return "timm"
    return "transformers" if any(".attention.q_proj." in name for name in names) else "transformers_files"


def from_swin(theirs: Mapping[str, Tensor], config: SwinConfig) -> dict[str, Tensor]:
    """Our weights for a model of this config, whatever library they come from. What has no place in it is refused by name."""
    style = find_style(theirs)
    left = {_bare(name, style): tensor for name, tensor in theirs.items() if not name.endswith(COMPUTED)}
    ours: dict[str, Tensor] = {}
    for their, name in pairs(config, style):
        for kind in ("weight", "bias", ""):  # of a layer its two, or the name is that of a weight itself
            if (full := f"{their}.{kind}" if kind else their) in left:
                ours[f"{name}.{kind}" if kind else name] = left.pop(full)
    if style == "timm":
        for their, name in attentions(config, style):
            for kind, tensor in split_projections(left, f"{their}attn.").items():
                ours[f"{name}attention.attention.{kind}"] = tensor
    if left:
        raise VitrailError(f"{len(left)} weights have no place in this model, such as {next(iter(left))}")
    return {name: _copy(_in(name, tensor, config)) for name, tensor in ours.items()}


def to_swin(ours: Mapping[str, Tensor], config: SwinConfig, *, style: Style) -> dict[str, Tensor]:
    """Their weights. `transformers` are the names of its modules in memory, `transformers_files` those of its files, which for
    the second version are the same."""
    theirs: dict[str, Tensor] = {}
    first = "" if style == "timm" or not config.num_classes else "swinv2." if config.attention == "cosine" else "swin."
    style = "transformers_files" if config.attention == "cosine" and style == "transformers" else style
    for their, name in pairs(config, style):
        for kind in ("weight", "bias", ""):
            full = f"{name}.{kind}" if kind else name
            if full in ours:
                before = "" if their == "classifier" else first
                theirs[before + (f"{their}.{kind}" if kind else their)] = _out(full, ours[full], config, style)
    if style == "timm":
        for their, name in attentions(config, style):
            parts = {kind: ours.get(f"{name}attention.attention.{kind}") for kind in _kinds()}
            theirs |= {f"{their}attn.{kind}": tensor for kind, tensor in join_projections(parts).items()}
    return {name: _copy(tensor) for name, tensor in theirs.items()}


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


def split_projections(left: dict[str, Tensor], before: str) -> dict[str, Tensor]:
    """timm's joined query, key and value, taken out of `left`; the second version's biases are apart, and keys have none."""
    found = {f"{name}.weight": part for name, part in zip(PROJECTIONS, left.pop(before + "qkv.weight").chunk(3), strict=True)}
    if before + "qkv.bias" in left:
        biases = left.pop(before + "qkv.bias").chunk(3)
        found |= {f"{name}.bias": part for name, part in zip(PROJECTIONS, biases, strict=True)}
    for name in ("query", "value"):
        if (full := f"{before}{name[0]}_bias") in left:
            found[f"{name}.bias"] = left.pop(full)
    return found


def join_projections(parts: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """The inverse of `split_projections`."""
    there = {kind: tensor for kind, tensor in parts.items() if tensor is not None}
    joined = {"qkv.weight": torch.cat([there[f"{name}.weight"] for name in PROJECTIONS])}
    if "key.bias" in there:
        return joined | {"qkv.bias": torch.cat([there[f"{name}.bias"] for name in PROJECTIONS])}
    return joined | {"q_bias": there["query.bias"], "v_bias": there["value.bias"]}


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
        return tensor.view(len(tensor), config.in_channels, config.patch, config.patch)
    if name.endswith("log_scale"):
        return tensor.view(-1, 1, 1)
    if name.endswith("position.table") and style == "timm":
        return fit_table(tensor, config.window, table_window(name, config))
    return tensor


def _bare(name: str, style: Style) -> str:
    """Without what a model with a classifier has before its encoder's names."""
    return name if style == "timm" else name.removeprefix("swin.").removeprefix("swinv2.")


def _kinds() -> list[str]:
    return [f"{name}.{kind}" for name in PROJECTIONS for kind in ("weight", "bias")]


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)
