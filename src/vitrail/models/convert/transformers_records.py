"""What transformers reads beside the weights: config.json of any of our models that it has too, and preprocessor_config.json."""

from collections.abc import Sequence
from typing import Any

from vitrail.errors import VitrailError
from vitrail.models.convert.vit_configs import config_to_transformers
from vitrail.models.swin import SwinConfig, stage_heads
from vitrail.preprocessing import Preprocessing

CLASSES = {  # its model types to its classes: with classes, and features
    "vit": ("ViTForImageClassification", "ViTModel"),
    "deit": ("DeiTForImageClassification", "DeiTModel"),
    "beit": ("BeitForImageClassification", "BeitModel"),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Model"),
    "dinov2_with_registers": ("Dinov2WithRegistersForImageClassification", "Dinov2WithRegistersModel"),
    "swin": ("SwinForImageClassification", "SwinModel"),
    "swinv2": ("Swinv2ForImageClassification", "Swinv2Model"),
}
RESAMPLING = {"nearest": 0, "bilinear": 2, "bicubic": 3}  # Pillow's numbers


def model_record(config: Any, labels: Sequence[str] | None) -> dict[str, Any]:
    """Their config.json."""
    record = swin_record(config) if isinstance(config, SwinConfig) else config_to_transformers(config)
    count = record.pop("num_labels", config.num_classes)
    name = CLASSES[record["model_type"]][0 if config.num_classes else 1]
    if getattr(config, "distilled", False) and config.num_classes:
        name += "WithTeacher"
    words = [f"LABEL_{number}" for number in range(count)] if labels is None else list(labels)
    return {
        "architectures": [name],
        **record,
        "id2label": {str(number): word for number, word in enumerate(words)},
        "label2id": {word: number for number, word in enumerate(words)},
    }


def swin_record(config: SwinConfig) -> dict[str, Any]:
    """The inverse of `convert.swin.config_from_transformers`."""
    second, size = config.attention == "cosine", config.image_size
    expected = ("cosine", "continuous_bias", "res-post", False) if second else ("softmax", "relative_table", "pre", True)
    if (config.attention, config.position, config.norm, config.key_bias) != expected:
        raise VitrailError(
            "other libraries have Swin as published, the first version or the second: attention, position, norm and key_bias must be those"
        )
    for rule, broken in (
        (f"a square window, got {config.window}", config.window[0] != config.window[1]),
        (f"norms with an eps of 1e-5, got {config.eps}", config.eps != 1e-5),
    ):
        if broken:
            raise VitrailError(f"transformers' Swin has {rule}")
    record = {
        "model_type": "swinv2" if second else "swin",
        "embed_dim": config.width,
        "depths": list(config.depths),
        "num_heads": stage_heads(config),
        "window_size": config.window[0],
        "mlp_ratio": config.mlp_ratio,
        "patch_size": config.patch,
        "image_size": size[0] if size[0] == size[1] else list(size),
        "num_channels": config.in_channels,
        "num_labels": config.num_classes,
        "layer_norm_eps": config.eps,
        "hidden_act": "gelu",
        "qkv_bias": True,
    }
    return record | (
        {"pretrained_window_sizes": list(config.pretrained_windows or (0,) * len(config.depths))} if second else {}
    )


def preprocessor_record(preprocessing: Preprocessing) -> dict[str, Any]:
    """Their preprocessor_config.json: `BitImageProcessor` cuts the middle out, `ViTImageProcessor` squashes."""
    height, width = preprocessing.size
    record: dict[str, Any] = {
        "do_resize": True,
        "resample": RESAMPLING[preprocessing.interpolation],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
        "do_convert_rgb": preprocessing.channels == 3,
    }
    if preprocessing.fit == "crop" and height == width:  # theirs has one side to say, the shorter
        crop = {"size": {"shortest_edge": height}, "do_center_crop": True, "crop_size": {"height": height, "width": width}}
        return {"image_processor_type": "BitImageProcessor", **record, **crop}
    return {"image_processor_type": "ViTImageProcessor", **record, "size": {"height": height, "width": width}}
