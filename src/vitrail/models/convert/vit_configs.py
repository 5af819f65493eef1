"""What transformers' config.json says of a plain Vision Transformer, as our config, and back."""

import math
from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.convert.renaming import Style
from vitrail.models.convert.vit_names import MODELS, kind_of
from vitrail.models.vit import ViTConfig, resolve_config
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
    return resolve_config(ViTConfig(**options, **head_options(kind, record, theirs)))


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
        "position_resize": "bilinear" if position == "relative_table" else "bicubic",
        "layer_scale": record["layer_scale_init_value"] or None,
        "pool": "mean" if pooled else "class",
        "last_norm": "pooled" if pooled else "tokens",
    }


def dinov2_options(record: Mapping[str, Any]) -> dict[str, Any]:
    width, gated = record["hidden_size"], bool(record.get("use_swiglu_ffn"))
    hidden = dinov2_hidden(width, record["mlp_ratio"], gated=gated)
    return ({"activation": "swiglu"} if gated else {}) | {
        "mlp_ratio": ratio_of(hidden, width),
        "layer_scale": float(record["layerscale_value"]),
        "prefix": 1 + record.get("num_register_tokens", 0),
        "position_antialias": record["model_type"] == "dinov2_with_registers",
    }


def dinov2_hidden(width: int, ratio: float | int, *, gated: bool) -> int:
    """The hidden width of the MLP: with a gate two thirds of it, in multiples of 8."""
    hidden = int(width * ratio)
    return (int(hidden * 2 / 3) + 7) // 8 * 8 if gated else hidden


def config_to_transformers(config: ViTConfig) -> dict[str, Any]:
    """What their config is made from, of the model that `kind_of` names: the inverse of `config_from_transformers`."""
    config = resolve_config(config)
    refuse_unlike(config, "transformers")
    kind, hidden = kind_of(config), int(config.width * config.mlp_ratio)
    record: dict[str, Any] = {
        "model_type": kind,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "patch_size": config.patch,
        "image_size": list(config.image_size),
        "num_channels": config.in_channels,
        "num_labels": config.num_classes,
        "layer_norm_eps": config.eps,
        "hidden_act": "gelu" if config.activation == "swiglu" else config.activation,
    }
    if not kind.startswith("dinov2"):
        record["intermediate_size"] = hidden
    if kind == "beit":
        relative, shared = config.position == "relative_table", config.position_where == "layers"
        record |= {
            "use_relative_position_bias": relative and not shared,
            "use_shared_relative_position_bias": relative and shared,
            "use_absolute_position_embeddings": not relative and config.position != "none",
            "layer_scale_init_value": config.layer_scale or 0.0,
            "use_mean_pooling": config.last_norm == "pooled",
        }
    if kind.startswith("dinov2"):
        gated = config.activation == "swiglu"
        fitting = [ratio for ratio in range(1, 17) if dinov2_hidden(config.width, ratio, gated=gated) == hidden]
        if not fitting:
            raise VitrailError(f"transformers' {kind} has a whole mlp_ratio, got {config.mlp_ratio}")
        record |= {"mlp_ratio": fitting[0], "use_swiglu_ffn": gated}
        record["layerscale_value"] = 1.0 if config.layer_scale is None else config.layer_scale
    if kind == "dinov2_with_registers":
        record["num_register_tokens"] = config.prefix - 1
    return record


def refuse_unlike(config: ViTConfig, style: Style) -> None:
    """Neither library has a model for everything that ours can be."""
    for name, usual in (("tokenizer", "patch"), ("norm", "pre"), ("attention", "softmax")):
        if (value := getattr(config, name)) != usual and not (style == "timm" and value == "resnet"):
            raise VitrailError(f"{name} must be {usual} for other libraries, got {value}")
    if config.position != "relative_table" and config.position_where != "stem":
        raise VitrailError(f"other libraries have no position {config.position} in {config.position_where}")
    kind = kind_of(config, style)
    most = {"beit": 1, "deit": 2}.get(kind, config.prefix)
    if config.prefix > most or (kind == "beit" and config.distilled):
        raise VitrailError(f"a {kind} of other libraries has {most} prefix tokens, got {config.prefix}")
    if config.activation == "swiglu" and kind in ("beit", "deit"):
        raise VitrailError(f"a {kind} of other libraries has no gate in its MLP: activation cannot be swiglu")
    if style == "timm":
        if config.pool == "attention" or config.head_hidden is not None:
            raise VitrailError("timm's head is linear and reads the class token or the mean")
        return
    if not config.prefix:
        raise VitrailError("transformers' models have a class token: prefix must be at least 1, got 0")
    if kind.startswith("dinov2") and config.num_classes:
        raise VitrailError(f"transformers' {kind} with classes reads class token and mean: export it without, num_classes=0")
    if config.head_hidden is not None and (config.num_classes or kind not in ("vit", "deit")):
        raise VitrailError(f"the head of transformers' {kind} is linear: head_hidden must be None, got {config.head_hidden}")
    pool = "mean" if config.last_norm == "pooled" else "class"
    if config.pool != pool and (config.num_classes or kind == "beit"):
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
