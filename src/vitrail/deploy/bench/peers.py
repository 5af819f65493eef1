"""The same model of timm or transformers, with our weights in it: the eager forward pass that people compare with.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.catalogue import MODELS
from vitrail.models.classifier import Classifier
from vitrail.models.convert.renaming import Style
from vitrail.models.convert.swin import to_swin
from vitrail.models.convert.vit import to_vit
from vitrail.models.convert.vit_configs import config_to_transformers
from vitrail.models.vit import ViTConfig, resolve_config

PEERS = ("timm", "transformers")
KINDS = ("vit", "swin")  # whose weights have names in other libraries
OF_TRAINING = ("dropout", "attention_dropout", "drop_path", "token_keep")  # fields that evaluation does not see
OF_DATA = ("image_size", "in_channels", "num_classes")  # fields that every model can have otherwise


def check_installed(peer: str) -> None:
    if find_spec(peer) is None:
        raise VitrailError(f'--against {peer}: "{peer}" is not installed: pip install {peer}')


def make_peer(model: Classifier, peer: str) -> Callable[[Tensor], Tensor]:
    """Images to logits, or to features where the model has no classes; refused where the library has no such model."""
    check_installed(peer)
    if model.architecture not in KINDS:
        raise VitrailError(f"--against {peer} is for models of the kind {' or '.join(KINDS)}, got {model.architecture}")
    style: Style = "timm" if peer == "timm" else "transformers"
    weights = (to_vit if model.architecture == "vit" else to_swin)(model.state_dict(), model.config, style=style)
    build = build_timm if peer == "timm" else build_transformers
    theirs = build(import_module(peer), model.architecture, plain(model.config)).eval()
    fill(theirs, weights, peer)

    def forward(images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k"]:
        with torch.inference_mode():
            found = theirs(images)
        if isinstance(found, Tensor):
            return found
        answer: Tensor = found.logits if model.num_classes else found.last_hidden_state[:, 0]
        return answer

    return forward


def plain(config: Any, *, without: tuple[str, ...] = OF_TRAINING) -> Any:
    """The config with the default of every field in `without`."""
    return replace(config, **{field.name: field.default for field in fields(config) if field.name in without})


def build_timm(timm: ModuleType, architecture: str, config: Any) -> nn.Module:
    """Names of our presets are timm's; a ViT of other sizes is made of its class."""
    sizes = {"img_size": config.image_size, "in_chans": config.in_channels, "num_classes": config.num_classes}
    name = next((name for name in same_presets(architecture, config) if timm.is_model(name)), None)
    if name is not None:
        return timm.create_model(name, **sizes)
    if not isinstance(config, ViTConfig) or config.position == "relative_table" or config.activation != "gelu":
        raise VitrailError(f"--against timm: it has no {architecture} of these sizes by name")
    return timm.models.vision_transformer.VisionTransformer(
        **sizes,
        patch_size=config.patch,
        embed_dim=config.width,
        depth=config.depth,
        num_heads=config.heads,
        mlp_ratio=config.mlp_ratio,
        class_token=config.prefix > 0,
        reg_tokens=max(0, config.prefix - 1),
        no_embed_class=not config.prefix_rows,
        init_values=config.layer_scale,
        global_pool="avg" if config.pool == "mean" else "token",
        fc_norm=config.last_norm == "pooled",
        norm_layer=partial(nn.LayerNorm, eps=config.eps),
    )


def same_presets(architecture: str, config: Any) -> list[str]:
    """Names of our catalogue for this config, whatever its images and classes are."""
    seen = plain(config, without=OF_DATA)
    made: Callable[[Any], Any] = resolve_config if architecture == "vit" else lambda preset: preset
    return [
        name for name, (kind, preset) in MODELS.items() if kind == architecture and plain(made(preset), without=OF_DATA) == seen
    ]


def build_transformers(transformers: ModuleType, architecture: str, config: Any) -> nn.Module:
    if not isinstance(config, ViTConfig):
        raise VitrailError(f"--against transformers is for models of the kind vit, got {architecture}")
    record = config_to_transformers(config)
    theirs = transformers.AutoConfig.for_model(**record)
    if config.distilled and config.num_classes:
        return transformers.DeiTForImageClassificationWithTeacher(theirs)
    if config.num_classes:
        return transformers.AutoModelForImageClassification.from_config(theirs)
    pooling = {} if record["model_type"].startswith("dinov2") else {"add_pooling_layer": config.head_hidden is not None}
    return transformers.AutoModel.from_config(theirs, **pooling)


def fill(theirs: nn.Module, weights: Mapping[str, Tensor], peer: str) -> None:
    """Our weights in their model; what it holds beside them are tables that it computes itself."""
    found = theirs.load_state_dict(dict(weights), strict=False)
    learned = {name for name, _ in theirs.named_parameters()}
    wrong = [*sorted(learned.intersection(found.missing_keys)), *found.unexpected_keys]
    if wrong:
        raise VitrailError(f'--against {peer}: its model and ours differ, first in the weight "{wrong[0]}"')
