"""Weights of plain Vision Transformers of transformers (ViT, DeiT, ViTMAE's encoder, BEiT, DINOv2 with and without registers) and of
timm as ours, and back.

c cells, p prefix tokens, d width
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert.renaming import (
    Style,
    as_filters,
    check_fit,
    copies,
    find_style,
    join_projections,
    learned,
    move,
    refuse_left,
    shapes_of,
    split_projections,
)
from vitrail.models.convert.vit_configs import config_from_transformers, grid_of, refuse_unlike
from vitrail.models.convert.vit_names import (
    MASK_TOKEN,
    MODELS,
    POSITION,
    blocks,
    kind_of,
    library,
    pairs,
    prefix_names,
    prefix_rows,
    tables,
)
from vitrail.models.parts import position_of
from vitrail.models.vit import ViTConfig, build_vit, resolve_config
from vitrail.nn.functional.offsets import PREFIX_ROWS
from vitrail.nn.positions.learned import Learned1d
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.sinusoidal import Sinusoidal1d, Sinusoidal2d
from vitrail.nn.tokenizers.resnet_stem import stem_stride
from vitrail.tokens import Grid, Places

CLASSIFIERS = ("classifier", "cls_classifier", "distillation_classifier")  # these stand beside their model, not inside


def from_transformers(theirs: Mapping[str, Tensor], record: Mapping[str, Any]) -> tuple[ViTConfig, dict[str, Tensor]]:
    """Our config and weights, from theirs and what their config.json says. Of an MAE, the encoder; a mask token is left out."""
    bare = learned(theirs, *MODELS)
    if record.get("model_type") == "vit_mae":
        bare = {name: tensor for name, tensor in bare.items() if not name.startswith("decoder.")}
    config = config_from_transformers(record, bare)
    return config, from_vit(bare, config)


def from_vit(theirs: Mapping[str, Tensor], config: ViTConfig) -> dict[str, Tensor]:
    """Our weights for a model of this config, whatever library they come from. What has no place in it, or lacks, is named.

    A mask token has no place in a classifier and is left out. Queries and values of BEiT have a bias, keys none: theirs is 0 here.
    """
    config, style = resolve_config(config), find_style(theirs)
    left = learned(theirs, *MODELS)
    left.pop(MASK_TOKEN, None)
    names = list(pairs(config, style))
    ours = move(left, names)
    if (filters := ours.get("tokenizer.project.weight")) is not None:
        ours["tokenizer.project.weight"] = filters.flatten(1)
    ours |= take_stem(left, config, style)
    for before, inner in blocks(config, style):
        ours |= {f"{inner}{name}": tensor for name, tensor in take_block(left, before, config, style).items()}
    for their, before in tables(config, style):
        table = take(left, their)
        ours[f"{before}table"], ours[f"{before}prefix_table"] = table[:-PREFIX_ROWS], table[-PREFIX_ROWS:]
    if style != "timm" and kind_of(config) == "beit":
        ours |= {
            f"{inner}attention.key.bias": torch.zeros_like(ours[f"{inner}attention.query.bias"])
            for _, inner in blocks(config, style)
            if f"{inner}attention.query.bias" in ours
        }
    refuse_left(left)
    check_fit(ours, shapes_of(build_vit, config), names)
    return copies(ours)


def to_vit(ours: Mapping[str, Tensor], config: ViTConfig, *, style: Style) -> dict[str, Tensor]:
    """Their weights, for the model that `kind_of` names. `transformers` are the names of its modules in memory, `transformers_files` those
    of its files.

    Refused where theirs do not compute what ours does. A bias of keys adds the same to all of a query's scores and softmax
    does not see it: for BEiT it is left out. Where DINOv2 wants a mask token, it is `ours["mask_token"]` or zero.
    """
    config = resolve_config(config)
    refuse_unlike(config, style)
    kind, left = kind_of(config, style), dict(ours)
    mask = left.pop("mask_token", None)
    check_fit(left, shapes_of(build_vit, config))
    theirs = give_stem(left, config, style)
    for before, inner in blocks(config, style):
        theirs |= {before + name: tensor for name, tensor in give_block(left, inner, config, style).items()}
    for their, before in tables(config, style):
        table = left.pop(f"{before}table")
        rows = left.pop(f"{before}prefix_table", table.new_zeros(PREFIX_ROWS, table.shape[1]))
        theirs[their] = torch.cat([table, rows])
    if config.tokenizer == "resnet":
        side = int(config.patch) // stem_stride(config.tokenizer_depths)
        filters = as_filters(left["tokenizer.project.weight"], left["tokenizer.project.weight"].shape[1] // side**2, side)
    else:
        filters = as_filters(left["tokenizer.project.weight"], config.in_channels, int(config.patch))
    left["tokenizer.project.weight"] = filters
    theirs |= move(left, ((name, their) for their, name in pairs(config, style)))
    refuse_left(left)
    if style != "timm":
        if kind.startswith("dinov2"):
            theirs[MASK_TOKEN] = torch.zeros(1, config.width) if mask is None else mask[None]
        first = f"{kind}." if config.num_classes else ""
        theirs = {name if name.startswith(CLASSIFIERS) else first + name: tensor for name, tensor in theirs.items()}
    return copies(theirs)


def take_stem(left: dict[str, Tensor], config: ViTConfig, style: Style) -> dict[str, Tensor]:
    """Prefix tokens and positions. A token and its row are added, so what owns no row here has it inside the token."""
    names = prefix_names(config, style)
    if not names:
        tokens = torch.zeros(0, config.width)
    else:
        tokens = torch.cat([token.reshape(-1, token.shape[-1]) for token in (take(left, name) for name in names)])
    ours = {}
    if config.position == "learned_1d":
        name, cells = POSITION[library(style)], math.prod(grid_of(config))
        table = take(left, name)[0]
        owned = len(table) - cells
        if not 0 <= owned <= len(tokens):
            rows = cells + prefix_rows(config, style)
            raise VitrailError(f"{name} must have {rows} rows for images of {config.image_size}, got {len(table)}")
        ours["position.table"] = table[owned:]
        rest = table.new_zeros(len(tokens) - owned, table.shape[1])
        if config.prefix and config.prefix_rows:
            ours["position.prefix_table"] = torch.cat([table[:owned], rest])
        elif owned:
            tokens = tokens + torch.cat([table[:owned], rest])
    return ours | ({"prefix.tokens": tokens} if config.prefix else {})


def give_stem(left: dict[str, Tensor], config: ViTConfig, style: Style) -> dict[str, Tensor]:
    """The inverse of `take_stem`: ours, taken out of `left`; positions that are not learned are written down as a table."""
    tokens = left.pop("prefix.tokens", torch.zeros(0, config.width))
    theirs = {}
    if config.position != "relative_table":
        grid = grid_of(config)
        rows = table_of(left, position_of(config, grid=grid), grid, config.width)
        own = left.pop("position.prefix_table", torch.zeros_like(tokens))
        owned = prefix_rows(config, style)
        tokens = torch.cat([tokens[:owned], tokens[owned:] + own[owned:]])
        if not (kind_of(config, style) == "beit" and config.position == "none"):
            theirs[POSITION[library(style)]] = torch.cat([own[:owned], rows])[None]
    counts = prefix_names(config, style)
    parts = tokens.split_with_sizes(list(counts.values())) if counts else ()
    return theirs | {name: part[None] for name, part in zip(counts, parts, strict=True)}


def table_of(
    left: dict[str, Tensor], position: Position, grid: Grid, width: int, *, before: str = "position."
) -> Float[Tensor, "c d"]:
    """The row that is added to each cell, taken out of `left` or, where none is learned, computed."""
    if isinstance(position, Learned1d):
        return left.pop(f"{before}table")
    if isinstance(position, Sinusoidal1d | Sinusoidal2d):
        return position.rows(Places(grid), torch.device("cpu"))[0]
    if type(position) is not Position:
        raise VitrailError(f"other libraries have no position like {type(position).__name__}")
    return torch.zeros(math.prod(grid), width)


def take_block(left: dict[str, Tensor], before: str, config: ViTConfig, style: Style) -> dict[str, Tensor]:
    """What is in one piece in one library and in several in the other: of a block, our names inside it."""
    if style == "timm":
        parts = split_projections(left, f"{before}attn.")
        if "query.bias" in parts and "key.bias" not in parts:
            parts["key.bias"] = torch.zeros_like(parts["query.bias"])
        return {f"attention.{name}": tensor for name, tensor in parts.items()}
    if style == "transformers" and config.activation == "swiglu":
        return {
            f"mlp.expand.{kind}": torch.cat([take(left, f"{before}mlp.{half}_proj.{kind}") for half in ("gate", "up")])
            for kind in ("weight", "bias")
        }
    return {}


def give_block(left: dict[str, Tensor], inner: str, config: ViTConfig, style: Style) -> dict[str, Tensor]:
    """The inverse of `take_block`, and what theirs have beside ours: their names inside a block."""
    theirs: dict[str, Tensor] = {}
    if kind_of(config, style) == "beit":
        left.pop(f"{inner}attention.key.bias")
    if style != "timm" and kind_of(config).startswith("dinov2") and config.layer_scale is None:
        theirs |= {f"layer_scale{number}.lambda1": torch.ones(config.width) for number in (1, 2)}
    if style == "timm":
        theirs |= {f"attn.{name}": tensor for name, tensor in join_projections(left, f"{inner}attention.").items()}
    if style == "transformers" and config.activation == "swiglu":
        for kind in ("weight", "bias"):
            halves = left.pop(f"{inner}mlp.expand.{kind}").chunk(2)
            theirs |= {f"mlp.{name}_proj.{kind}": half for name, half in zip(("gate", "up"), halves, strict=True)}
    return theirs


def take(left: dict[str, Tensor], name: str) -> Tensor:
    if name not in left:
        raise VitrailError(f"a weight of this model is missing: {name}")
    return left.pop(name)
