"""Weights of transformers' ViTMAEForPreTraining as ours, and back. The encoder alone is read by `convert/vit.py`.

c cells, d width, e width of the decoder, n numbers in a patch
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert.renaming import (
    Style,
    check_fit,
    copies,
    find_style,
    move,
    refuse_left,
    shapes_of,
    split_projections,
)
from vitrail.models.convert.vit import from_transformers, from_vit, table_of, take, to_vit
from vitrail.models.convert.vit_configs import config_to_transformers, grid_of
from vitrail.models.convert.vit_names import inside, kind_of
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.models.parts import build_position
from vitrail.models.vit import ViTConfig
from vitrail.records import from_record, to_record

OUTSIDE = {
    "decoder.decoder_embed": "enter",
    "decoder.decoder_norm": "decoder.norm",
    "decoder.decoder_pred": "head",
}
TABLE = "decoder.decoder_pos_embed"
WRITTEN_WRONG = (
    "decoder.decoder_encoder.layer.",
    "decoder.decoder_layers.",
)  # so some versions of transformers name what they save


def from_vitmae(theirs: Mapping[str, Tensor], record: Mapping[str, Any]) -> tuple[MAEConfig, dict[str, Tensor]]:
    """Our config and weights, from theirs and what their config.json says.

    Their positions are fixed sines, of the column first and then of the row, as the paper's code has it, and a part of their weights: here
    they are learned tables, which begin with the same numbers.
    """
    encoder, _ = apart(theirs)
    config = config_from_vitmae(record, from_transformers(encoder, record)[0])
    return config, from_mae(theirs, config)


def from_mae(theirs: Mapping[str, Tensor], config: MAEConfig) -> dict[str, Tensor]:
    """Our weights for a model of this config, from transformers' or, under the same names around the blocks, from the authors'."""
    backbone, style = from_record(ViTConfig, config.backbone, what="backbone"), find_style(theirs)
    encoder, left = apart(theirs)
    weights = from_vit(encoder, backbone)
    names = list(pairs(config, style))
    ours = move(left, names)
    if style == "timm":
        for number in range(config.decoder_depth):
            for name, tensor in split_projections(left, f"decoder.decoder_layers.{number}.attn.").items():
                ours[f"decoder.blocks.{number}.attention.{name}"] = tensor
    table = take(left, TABLE)[0]
    if table[0].any():
        raise VitrailError(f"{TABLE} must be 0 in its first row, that of the class token")
    ours["decoder_position.table"], ours["mask_token"] = table[1:], take(left, "decoder.mask_token").flatten()
    for kind in ("weight", "bias"):
        if (name := f"head.{kind}") in ours:
            ours[name] = channels_first(ours[name], backbone.in_channels)
    refuse_left(left)
    ours |= {f"backbone.{name}": tensor for name, tensor in weights.items()}
    check_fit(ours, shapes_of(build_mae, config), names)
    return copies(ours)


def apart(theirs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The encoder's weights and the decoder's."""
    right = {name.replace(*WRITTEN_WRONG): tensor for name, tensor in theirs.items()}
    decoder = {name: right.pop(name) for name in list(right) if name.startswith("decoder.")}
    return right, decoder


def to_vitmae(ours: Mapping[str, Tensor], config: MAEConfig, *, style: Style) -> dict[str, Tensor]:
    """Their weights, of their modules or of their files. Refused where theirs does not compute what ours does."""
    backbone = from_record(ViTConfig, config.backbone, what="backbone")
    if style == "timm":
        raise VitrailError("timm has the encoder of an MAE only: export the backbone")
    if kind_of(backbone) != "vit":
        raise VitrailError(f"the encoder of ViTMAE is a plain ViT, got what is a {kind_of(backbone)} to transformers")
    if config.mask_tokens != "decoder":
        raise VitrailError(f'ViTMAE has mask tokens in its decoder: mask_tokens must be "decoder", got "{config.mask_tokens}"')
    check_fit(ours, shapes_of(build_mae, config))
    left = dict(ours)
    encoder = {name.removeprefix("backbone."): left.pop(name) for name in list(left) if name.startswith("backbone.")}
    theirs = {f"vit.{name}": tensor for name, tensor in to_vit(encoder, backbone, style=style).items()}
    position, grid = decoder_position(config, backbone), grid_of(backbone)
    rows = table_of(left, position, grid, config.decoder_width, before="decoder_position.")
    theirs[TABLE] = torch.cat([rows.new_zeros(1, config.decoder_width), rows])[None]
    theirs["decoder.mask_token"] = left.pop("mask_token")[None, None]
    for kind in ("weight", "bias"):
        left[f"head.{kind}"] = channels_last(left[f"head.{kind}"], backbone.in_channels)
    theirs |= move(left, ((name, their) for their, name in pairs(config, style)))
    refuse_left(left)
    return copies(theirs)


def config_from_vitmae(record: Mapping[str, Any], backbone: ViTConfig) -> MAEConfig:
    width = record["decoder_hidden_size"]
    for option, usual in (("decoder_intermediate_size", 4 * width), ("hidden_act", "gelu")):
        if record[option] != usual:
            raise VitrailError(f"{option} must be {usual}, got {record[option]}")
    return MAEConfig(
        backbone=to_record(backbone),
        decoder_width=width,
        decoder_depth=record["decoder_num_hidden_layers"],
        decoder_heads=record["decoder_num_attention_heads"],
        decoder_position="learned_1d",
        hide=float(record["mask_ratio"]),
        normalize=record["norm_pix_loss"],
        eps=record["layer_norm_eps"],
    )


def decoder_from_shapes(theirs: Mapping[str, Tensor], backbone: ViTConfig) -> tuple[MAEConfig, list[str]]:
    """The config of a decoder from the shapes of its weights, and what was supposed: published ones have 16 heads."""
    width = len(take(dict(theirs), "decoder.decoder_embed.weight"))
    numbers = [int(name.split(".")[2]) for name in apart(theirs)[1] if name.startswith("decoder.decoder_layers.")]
    heads = 16 if width % 16 == 0 else 1
    config = MAEConfig(
        backbone=to_record(backbone),
        decoder_width=width,
        decoder_depth=1 + max(numbers, default=0),
        decoder_heads=heads,
        decoder_position="learned_1d",
        eps=backbone.eps,
    )
    said = f"{heads} heads in the decoder: published ones have 16; patches are taken to be normalized, {config.hide:.0%} of them hidden"
    return config, [said]


def config_to_vitmae(config: MAEConfig) -> dict[str, Any]:
    """What their config is made from."""
    width = config.decoder_width
    return config_to_transformers(from_record(ViTConfig, config.backbone, what="backbone")) | {
        "model_type": "vit_mae",
        "decoder_hidden_size": width,
        "decoder_num_hidden_layers": config.decoder_depth,
        "decoder_num_attention_heads": config.decoder_heads,
        "decoder_intermediate_size": 4 * width,
        "mask_ratio": config.hide,
        "norm_pix_loss": config.normalize,
        "layer_norm_eps": config.eps,
    }


def pairs(config: MAEConfig, style: Style) -> Iterator[tuple[str, str]]:
    """Names of the decoder's layers: theirs and ours."""
    yield from OUTSIDE.items()
    names = inside(replace(from_record(ViTConfig, config.backbone, what="backbone"), activation="gelu"), style)
    for number in range(config.decoder_depth):
        for their, name in names.items():
            yield f"decoder.decoder_layers.{number}.{their}", f"decoder.blocks.{number}.{name}"


def decoder_position(config: MAEConfig, backbone: ViTConfig) -> Any:
    return build_position(
        config.decoder_position,
        width=config.decoder_width,
        heads=config.decoder_heads,
        depth=config.decoder_depth,
        grid=grid_of(backbone),
    )


def channels_first(rows: Float[Tensor, "n *e"], channels: int) -> Float[Tensor, "n *e"]:
    """From their order of a patch's numbers, pixel by pixel, to ours, channel by channel."""
    return rows.reshape(-1, channels, *rows.shape[1:]).transpose(0, 1).flatten(0, 1)


def channels_last(rows: Float[Tensor, "n *e"], channels: int) -> Float[Tensor, "n *e"]:
    """The inverse of `channels_first`."""
    return rows.reshape(channels, -1, *rows.shape[1:]).transpose(0, 1).flatten(0, 1)
