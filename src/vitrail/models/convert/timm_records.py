"""What timm reads beside the weights: config.json of its hub layout, which names one of its models and what is different in ours."""

from collections.abc import Sequence
from typing import Any

from vitrail.errors import VitrailError
from vitrail.models.convert.transformers_records import swin_record
from vitrail.models.convert.vit_configs import ratio_of
from vitrail.models.convert.vit_names import kind_of
from vitrail.models.swin import SwinConfig, stage_heads
from vitrail.models.vit import ViTConfig, resolve_config
from vitrail.models.vit_presets import SIZES
from vitrail.preprocessing import Preprocessing

EPS = {"vit": 1e-6, "swin": 1e-5}  # its norms have no other
POOLS = {"class": "token", "mean": "avg"}


def timm_record(config: Any, labels: Sequence[str] | None, preprocessing: Preprocessing) -> dict[str, Any]:
    """Its config.json. Every option is said, so that the name decides nothing but the class."""
    name, options = swin_options(config) if isinstance(config, SwinConfig) else vit_options(resolve_config(config))
    height, width = config.image_size
    common = {
        "img_size": [height, width],
        "patch_size": config.patch,
        "in_chans": config.in_channels,
        "num_classes": config.num_classes,
        "embed_dim": config.width,
    }
    classifier = ["head", "head_dist"] if getattr(config, "distilled", False) else options.pop("classifier", "head")
    return {
        "architecture": name,
        "num_classes": config.num_classes,
        "num_features": config.width << (len(config.depths) - 1) if isinstance(config, SwinConfig) else config.width,
        "global_pool": options["global_pool"],
        **({} if labels is None else {"label_names": list(labels)}),
        "model_args": common | options,
        "pretrained_cfg": {
            "input_size": [config.in_channels, height, width],
            "fixed_input_size": True,
            "interpolation": preprocessing.interpolation,
            "crop_pct": 1.0,
            "crop_mode": "center" if preprocessing.fit == "crop" else "squash",
            "mean": list(preprocessing.mean),
            "std": list(preprocessing.std),
            "num_classes": config.num_classes,
            "pool_size": None,
            "first_conv": "patch_embed.proj",
            "classifier": classifier,
        },
    }


def vit_options(config: ViTConfig) -> tuple[str, dict[str, Any]]:
    """The name of a model of timm's that has these parts, and its arguments."""
    hidden, pooled = int(config.width * config.mlp_ratio), config.last_norm == "pooled"
    gated = config.activation == "swiglu"
    options: dict[str, Any] = {
        "depth": config.depth,
        "num_heads": config.heads,
        "mlp_ratio": ratio_of(2 * hidden if gated else hidden, config.width),
        "init_values": config.layer_scale,
        "global_pool": POOLS[config.pool],
    }
    if kind_of(config, "timm") == "beit":
        if pooled != (config.pool == "mean"):
            raise VitrailError(f'timm\'s BEiT norms what it pooled where pool="mean", got last_norm="{config.last_norm}"')
        if config.activation != "gelu":
            raise VitrailError(f"timm's BEiT has the activation gelu, got {config.activation}")
        shared = config.position_where == "layers"
        tables = {"use_rel_pos_bias": not shared, "use_shared_rel_pos_bias": shared, "use_abs_pos_emb": False}
        return "beit_base_patch16_224", options | tables
    options["fc_norm"] = pooled
    if not gated:
        options["act_layer"] = config.activation
    if config.distilled:
        return "deit_base_distilled_patch16_224", options
    options |= {
        "class_token": config.prefix > 0,
        "reg_tokens": max(0, config.prefix - 1),
        "no_embed_class": not config.prefix_rows,
    }
    if gated:
        return "vit_giant_patch14_dinov2", options
    sides = (config.width, config.depth, config.heads, config.patch)
    names = {
        f"vit_{name}_patch16_224": (size.width, size.depth, size.heads, 16) for name, size in SIZES.items() if name != "huge"
    }
    return next((name for name, found in names.items() if found == sides), "vit_base_patch16_224"), options


def swin_options(config: SwinConfig) -> tuple[str, dict[str, Any]]:
    swin_record(config)  # which refuses what is no Swin as published
    options: dict[str, Any] = {
        "depths": list(config.depths),
        "num_heads": stage_heads(config),
        "window_size": list(config.window),
        "mlp_ratio": config.mlp_ratio,
        "global_pool": "avg",
        "classifier": "head.fc",
    }
    if config.attention != "cosine":
        return "swin_tiny_patch4_window7_224", options
    learned = list(config.pretrained_windows or (0,) * len(config.depths))
    return "swinv2_tiny_window8_256", options | {"pretrained_window_sizes": learned}
