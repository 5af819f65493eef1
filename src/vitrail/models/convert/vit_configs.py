"""What transformers' config.json says of a plain Vision Transformer, as our config, and back."""

import math
from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.convert.renaming import Style
from vitrail.models.convert.vit_names import MODELS, kind_of
from vitrail.models.vit import ViTConfig
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.tokens import Grid

ACTIVATIONS = ("gelu", "relu", "quick_gelu")  # named alike; theirs may have others


def config_from_transformers(record: Mapping[str, Any], theirs: Mapping[str, Tensor]) -> ViTConfig:
    """Our config, from their config.json and the weights of a model without its name before them, which say whether it has a classifier.

    Refused where they compute what we have no option for. Rates of dropout are a matter of training and not read.
    """
    kind = check_choice("model_type", record["model_type"], (*MODELS, "vit_mae"))
    if not record.get("qkv_bias", True):
        raise VitrailError("qkv_bias must be True, got False")
    sides = pair_of(record["patch_size"])
    if sides[0] != sides[1]:
        raise VitrailError(f"patch_size must be that of a square, got {sides}")
    options: dict[str, Any] = {
        "width": record["hidden_size"],
        "depth": record["num_hidden_layers"],
        "heads": record["num_attention_heads"],
        "patch": sides[0],
        "image_size": pair_of(record["image_size"]),
        "in_channels": record["num_channels"],
        "eps": record["layer_norm_eps"],
        "activation": cast(Activation, check_choice("hidden_act", record["hidden_act"], ACTIVATIONS)),
    }
    if kind == "beit":
        options |= beit_options(record)
    if kind == "deit":
        options |= {"prefix": 2, "distilled": "distillation_classifier.weight" in theirs}
    if kind.startswith("dinov2"):
        options |= dinov2_options(record)
    else:
        options["mlp_ratio"] = ratio_of(record["intermediate_size"], record["hidden_size"])
    return ViTConfig(**options, **head_options(kind, record, theirs))


def head_options(kind: str, record: Mapping[str, Any], theirs: Mapping[str, Tensor]) -> dict[str, Any]:
    """The classifier that the weights have, or the pooler of a model without one: tanh(W x), the hidden layer of our head."""
    found = next((theirs[name] for name in ("classifier.weight", "cls_classifier.weight") if name in theirs), None)
    if found is not None and kind.startswith("dinov2"):
        raise VitrailError(
            f"a {kind} with a classifier reads the class token and the mean side by side: load its {kind}. weights alone"
        )
    if (pooler := theirs.get("pooler.dense.weight")) is None:
        return {"num_classes": 0 if found is None else len(found)}
    if record.get("pooler_act", "tanh") != "tanh":
        raise VitrailError(f"pooler_act must be tanh, got {record['pooler_act']}")
    return {"num_classes": 0, "head_hidden": len(pooler)}


def beit_options(record: Mapping[str, Any]) -> dict[str, Any]:
    names = ("use_absolute_position_embeddings", "use_relative_position_bias", "use_shared_relative_position_bias")
    chosen = [name for name in names if record.get(name)]
    if len(chosen) > 1:
        raise VitrailError(f"one of {', '.join(names)} may be True, got {len(chosen)}")
    position = "none" if not chosen else "learned_1d" if chosen[0] == names[0] else "relative_table"
    pooled = record.get("use_mean_pooling", True)
    return {
        "position": position,
        "position_where": "layers" if chosen == [names[2]] else "auto",
        "layer_scale": record["layer_scale_init_value"] or None,
        "pool": "mean" if pooled else "class",
        "last_norm": "pooled" if pooled else "tokens",
    }


def dinov2_options(record: Mapping[str, Any]) -> dict[str, Any]:
    width = record["hidden_size"]
    hidden = int(width * record["mlp_ratio"])
    gated = {"activation": "swiglu"} if record.get("use_swiglu_ffn") else {}
    if gated:
        hidden = (int(hidden * 2 / 3) + 7) // 8 * 8
    return gated | {
        "mlp_ratio": ratio_of(hidden, width),
        "layer_scale": float(record["layerscale_value"]),
        "prefix": 1 + record.get("num_register_tokens", 0),
    }


def refuse_unlike(config: ViTConfig, style: Style) -> None:
    """Neither library has a model for everything that ours can be."""
    for name, usual in (("tokenizer", "patch"), ("norm", "pre"), ("attention", "softmax")):
        if (value := getattr(config, name)) != usual:
            raise VitrailError(f"{name} must be {usual} for other libraries, got {value}")
    if config.position != "relative_table" and config.position_where != "stem":
        raise VitrailError(f"other libraries have no position {config.position} in {config.position_where}")
    if style == "timm":
        if config.pool == "attention" or config.head_hidden is not None:
            raise VitrailError("timm's head is linear and reads the class token or the mean")
        return
    kind = kind_of(config)
    if not config.prefix:
        raise VitrailError("transformers' models have a class token: prefix must be at least 1, got 0")
    if kind.startswith("dinov2"):
        if config.num_classes:
            raise VitrailError(
                f"transformers' {kind} with classes reads class token and mean: export it without, num_classes=0"
            )
        return
    if config.num_classes and config.head_hidden is not None:
        raise VitrailError(f"transformers' classifiers are linear: head_hidden must be None, got {config.head_hidden}")
    pool = "mean" if config.last_norm == "pooled" else "class"
    if config.num_classes and config.pool != pool:
        raise VitrailError(f'transformers\' {kind} with last_norm="{config.last_norm}" has pool="{pool}", got "{config.pool}"')


def grid_of(config: ViTConfig) -> Grid:
    return tuple(side // int(config.patch) for side in config.image_size)


def pair_of(size: int | list[int] | tuple[int, ...]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def ratio_of(hidden: int, width: int) -> float:
    """The mlp_ratio whose product with the width, rounded down, is `hidden`."""
    ratio = hidden / width
    return ratio if int(width * ratio) == hidden else math.nextafter(ratio, math.inf)
