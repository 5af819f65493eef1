"""What another library's config.json may say: the type and the range of each number, looked at before anything is built.

A config.json comes from anywhere. One that asks for a width of 10**12 is answered in one line, and no memory is asked for.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS

MOST = 2**16  # of a width, a count of heads or registers, a side of an image; published models stay far below
MOST_CLASSES = 2**20

COUNTS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("hidden_size", "num_attention_heads", "num_channels", "embed_dim", "window_size"), MOST),
        **dict.fromkeys(("decoder_hidden_size", "decoder_num_attention_heads", "vocab_size"), MOST),
        **dict.fromkeys(("intermediate_size", "decoder_intermediate_size"), MOST_CLASSES),
        **dict.fromkeys(("num_hidden_layers", "decoder_num_hidden_layers"), MOST_BLOCKS),
    }
)
NUMBERS = ("layer_norm_eps", "mlp_ratio", "mask_ratio", "layerscale_value", "layer_scale_init_value")
SIZES = ("image_size", "patch_size")
WORDS = ("hidden_act", "pooler_act")
FLAGS = ("qkv_bias", "use_swiglu_ffn", "use_mean_pooling", "norm_pix_loss", "use_absolute_embeddings")
LISTS = ("depths", "num_heads")

# What transformers takes for a key that an older config.json does not have.
PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
    }
)
DINOV2 = {
    **{name: value for name, value in PLAIN.items() if name != "intermediate_size"},
    "mlp_ratio": 4,
    "layer_norm_eps": 1e-6,
    "patch_size": 14,
    "layerscale_value": 1.0,
}
SWIN = {
    "embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7, "mlp_ratio": 4.0, "patch_size": 4,
    "image_size": 224, "num_channels": 3,
}  # fmt: skip
DECODER = {
    "decoder_hidden_size": 512, "decoder_num_hidden_layers": 8, "decoder_num_attention_heads": 16,
    "decoder_intermediate_size": 2048, "mask_ratio": 0.75, "norm_pix_loss": False,
}  # fmt: skip
DEFAULTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "vit": PLAIN,
        "deit": PLAIN,
        "vit_mae": {**PLAIN, **DECODER},
        "beit": {**PLAIN, "layer_scale_init_value": 0.1, "vocab_size": 8192},
        "dinov2": DINOV2,
        "dinov2_with_registers": {**DINOV2, "patch_size": 16, "num_register_tokens": 4},
        "swin": SWIN,
        "swinv2": SWIN,
    }
)


def complete(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of transformers with its defaults filled in, every number of it within what a model may have."""
    whole = {**DEFAULTS[record["model_type"]], **record}
    for name, most in COUNTS.items():
        if name in whole:
            as_count(name, whole[name], most=most)
    for name in NUMBERS:
        if name in whole:
            as_number(name, whole[name])
    for name in SIZES:
        as_size(name, whole[name])
    for names, kind, called in ((WORDS, str, "a word"), (FLAGS, bool, "true or false")):
        for name in names:
            if not isinstance(whole.get(name, kind()), kind):
                raise VitrailError(f"config.json: {name} must be {called}, got {short(whole[name])}")
    for name in LISTS:
        if name in whole:
            value = whole[name]
            if not isinstance(value, list | tuple) or not 0 < len(value) <= 16:
                raise VitrailError(f"config.json: {name} must be a number for each stage, got {short(value)}")
            for one in value:
                as_count(name, one, most=MOST_BLOCKS)
    registers = whole.get("num_register_tokens", 0)
    if type(registers) is not int or not 0 <= registers <= MOST:
        raise VitrailError(f"config.json: num_register_tokens must be a whole number from 0 to {MOST}, got {short(registers)}")
    return whole


def as_count(name: str, value: object, *, most: int = MOST) -> int:
    if type(value) is not int or not 1 <= value <= most:
        raise VitrailError(f"config.json: {name} must be a whole number from 1 to {most}, got {short(value)}")
    return value


def as_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST or not math.isfinite(value):
        raise VitrailError(f"config.json: {name} must be a number from 0 to {MOST}, got {short(value)}")
    return float(value)


def as_size(name: str, value: object) -> tuple[int, int]:
    """One side or (height, width)."""
    sides = list(value) if isinstance(value, list | tuple) else [value]
    if len(sides) not in (1, 2):
        raise VitrailError(f"config.json: {name} must be one side or two, got {short(value)}")
    found = [as_count(name, side) for side in sides]
    return found[0], found[-1]


def short(value: object) -> str:
    """A value as an error tells it: whatever a file says, on one short line."""
    text = str(value) if isinstance(value, str | bool | float) or value is None else ""
    if isinstance(value, int) and not isinstance(value, bool):  # Python refuses to write down an int of thousands of digits
        text = str(value) if abs(value) < 10**30 else "a number of more than 30 digits"
    return (text or type(value).__name__)[:60]
