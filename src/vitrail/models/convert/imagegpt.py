"""Weights of transformers' ImageGPTForCausalImageModeling as ours, and back.

d width, k colors, ch channels
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.convert.renaming import PROJECTIONS, copies
from vitrail.models.igpt import IGPTConfig

# theirs to ours; a block's are behind "transformer.h.N." and "encoder.blocks.N."
OUTSIDE = {
    "transformer.wte.weight": "colors.weight",
    "transformer.wpe.weight": "position.table",
    "transformer.ln_f.weight": "encoder.norm.weight",
    "lm_head.weight": "head.output.weight",
}
INSIDE = {
    "ln_1.weight": "attention_norm.weight",
    "attn.c_proj.weight": "attention.output.weight",
    "attn.c_proj.bias": "attention.output.bias",
    "ln_2.weight": "mlp_norm.weight",
    "mlp.c_fc.weight": "mlp.expand.weight",
    "mlp.c_fc.bias": "mlp.expand.bias",
    "mlp.c_proj.weight": "mlp.contract.weight",
    "mlp.c_proj.bias": "mlp.contract.bias",
}
TURNED = frozenset({"attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"})  # they keep a matrix as in × out
ACTIVATIONS = {"quick_gelu": "quick_gelu", "gelu": "gelu", "relu": "relu"}


def config_from_imagegpt(record: Mapping[str, Any]) -> IGPTConfig:
    """Our config from what their config.json says; refused where they compute what we have no option for."""
    side = math.isqrt(record["n_positions"])
    if side * side != record["n_positions"]:
        raise VitrailError(f"n_positions must be the pixels of a square image, got {record['n_positions']}")
    for option, usual in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
    ):
        if record.get(option, usual) is not usual:
            raise VitrailError(f"{option} must be {usual}, got {record[option]}")
    return IGPTConfig(
        width=record["n_embd"],
        depth=record["n_layer"],
        heads=record["n_head"],
        hidden=record.get("n_inner"),
        colors=record["vocab_size"] - 1,
        image_size=(side, side),
        activation=check_choice("activation_function", record["activation_function"], ACTIVATIONS),  # type: ignore[arg-type]
        eps=record["layer_norm_epsilon"],
    )


def from_imagegpt(theirs: Mapping[str, Tensor], clusters: Float[Tensor, "k ch"] | None = None) -> dict[str, Tensor]:
    """Our weights. `clusters` are their image processor's colors, in [-1, 1]; without them the palette is not among the weights."""
    ours = {name: theirs[their] for their, name in OUTSIDE.items()}
    for number in range(count_blocks(theirs, "transformer.h.")):
        before, after = f"transformer.h.{number}.", f"encoder.blocks.{number}."
        ours |= {after + name: turn(their, theirs[before + their]) for their, name in INSIDE.items()}
        weights = theirs[before + "attn.c_attn.weight"].T.chunk(3)
        biases = theirs[before + "attn.c_attn.bias"].chunk(3)
        for name, weight, bias in zip(PROJECTIONS, weights, biases, strict=True):
            ours[f"{after}attention.{name}.weight"], ours[f"{after}attention.{name}.bias"] = weight, bias
    if clusters is not None:
        ours["palette"] = clusters_to_bytes(clusters)
    return copies(ours)


def to_imagegpt(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Their weights; the palette, which they keep beside the model, is left out."""
    theirs = {their: ours[name] for their, name in OUTSIDE.items()}
    for number in range(count_blocks(ours, "encoder.blocks.")):
        before, after = f"encoder.blocks.{number}.", f"transformer.h.{number}."
        theirs |= {after + their: turn(their, ours[before + name]) for their, name in INSIDE.items()}
        for kind in ("weight", "bias"):
            joined = torch.cat([ours[f"{before}attention.{name}.{kind}"] for name in PROJECTIONS])
            theirs[f"{after}attn.c_attn.{kind}"] = joined.T if kind == "weight" else joined
    return copies(theirs)


def turn(their: str, tensor: Tensor) -> Tensor:
    """Some of their layers have inputs in rows, where ours have outputs."""
    return tensor.T if their in TURNED else tensor


def clusters_to_bytes(clusters: Float[Tensor, "k ch"]) -> UInt8[Tensor, "k ch"]:
    return (127.5 * (clusters + 1.0)).round().clamp(0, 255).to(torch.uint8)


def count_blocks(weights: Mapping[str, Tensor], before: str) -> int:
    return len({name.removeprefix(before).split(".")[0] for name in weights if name.startswith(before)})
