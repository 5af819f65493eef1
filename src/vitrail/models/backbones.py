"""What models that learn without labels share: a backbone inside, which is a classifier of the catalogue without its classes.

b batch, ch channels, h w image, c cells, d width
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models import gcnn, gsa, resnet, swin, vit, vit_presets
from vitrail.models.classifier import Classifier
from vitrail.models.model import ImageModel, Model
from vitrail.models.network import Network
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.heads.classification import MapHead, pool_mean
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record, to_record
from vitrail.tokens import Tokens

NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "vit": Network(vit.ViTConfig, vit.build_vit, vit_presets.PRESETS, vit.resolve_config),
        "swin": Network(swin.SwinConfig, swin.build_swin, swin.PRESETS, swin.check),
        "resnet": Network(resnet.ResNetConfig, resnet.build_resnet, resnet.PRESETS, resnet.check, convolutional=True),
        "gsa": Network(gsa.GSAConfig, gsa.build_gsa, gsa.PRESETS, gsa.check, needs_square=gsa.needs_square),
        "gcnn": Network(
            gcnn.GCNNConfig, gcnn.build_gcnn, gcnn.PRESETS, gcnn.check, convolutional=True, needs_square=gcnn.needs_square
        ),
    }
)  # a backbone is a row here: classifier of the catalogue, and encoder of every model that has one inside


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainedConfig:
    """What the configs of such models begin with; each resolves and checks its backbone itself."""

    backbone: dict = field(hash=False)  # type: ignore[type-arg]  # its own config, as a record

    @property
    def in_channels(self) -> int:
        return int(self.backbone["in_channels"])


class Pretrained(ImageModel):
    """A model around a `backbone`, to learn its features; what is trained later, explained or compared is the backbone alone.

    Its config has the backbone's as a record, and `in_channels`.
    """

    backbone: Any

    def __init__(self, backbone: Any, config: Any) -> None:
        super().__init__()
        self.backbone, self.config = backbone, config

    @property
    def preprocessing(self) -> Preprocessing:
        found: Preprocessing = self.backbone.preprocessing
        return found

    @preprocessing.setter
    def preprocessing(self, value: Preprocessing) -> None:
        self.backbone.preprocessing = value

    @property
    def image_size(self) -> tuple[int, int]:
        size: tuple[int, int] = self.backbone.image_size
        return size


def resolve_backbone(network: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The whole record of a backbone, without classes; checked, whatever a file says."""
    check_choice("network of a backbone", network, NETWORKS)
    return to_record(replace(from_record(NETWORKS[network].config, settings, what="backbone"), num_classes=0))


def resolve_patches(settings: Mapping[str, Any], hide: float, *, who: str) -> dict[str, Any]:
    """The record of a Vision Transformer of which a share of the patches can be hidden."""
    resolved = resolve_backbone("vit", settings)
    if resolved["tokenizer"] != "patch":
        raise VitrailError(
            f"{who} hides patches: the tokenizer must be patch, got {resolved['tokenizer']}, which sees beyond them"
        )
    if resolved["merge"]:
        raise VitrailError(f"{who} draws or names every patch: its tokens cannot be merged, got merge={resolved['merge']}")
    if not 0.0 < hide < 1.0:
        raise VitrailError(f"the share of patches to hide must be above 0 and below 1, got {hide}")
    return resolved


def build_backbone(network: str, settings: Mapping[str, Any]) -> Any:
    kind = NETWORKS[network]
    return kind.build(from_record(kind.config, settings, what="backbone"))


def backbone_info(network: str, settings: Mapping[str, Any]) -> tuple[FeatureInfo, ...]:
    """The maps that a backbone of this record can give; nothing is built."""
    row = NETWORKS[network]
    info: tuple[FeatureInfo, ...] = row.resolve(from_record(row.config, settings, what="backbone")).feature_info
    return info


def backbone_of(model: Model, *, what: str) -> Classifier:
    """The classifier, with or without classes, that a model is or has inside; `what` names it in the error."""
    found = model if isinstance(model, Classifier) else getattr(model, "backbone", None)
    if not isinstance(found, Classifier):
        raise VitrailError(f"{what}: a model of the kind {model.architecture} has no features of images to go on with")
    return found


def embed_hidden(
    backbone: Any, images: Float[Tensor, "b ch *size"], hidden: Bool[Tensor, "b c"], token: Float[Tensor, "d"]
) -> Tokens:
    """As `VisionTransformer.embed`, with `token` in the place of every hidden patch; its position stays."""
    tokens = backbone.tokenizer(images)
    tokens = tokens._replace(x=torch.where(hidden[..., None], token.to(tokens.x.dtype), tokens.x))
    return backbone.position.embed(tokens if backbone.prefix is None else backbone.prefix(tokens))


def mean_features(backbone: Any, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b d"]:
    """What neighbors and linear readers compare: the class token where the head reads one, else the mean over the cells. An attention pool
    that has not learned yet is passed over."""
    found = backbone.forward_features(images)
    if isinstance(backbone.head, MapHead):
        return backbone.forward_head(found, pre_logits=True)
    pool = getattr(backbone.config, "pool", "mean")
    return found.x[:, 0] if pool == "class" else pool_mean(found)
