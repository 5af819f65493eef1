"""The heads of segmenters by name, made for the encoder and the classes that a config has."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import nn

from vitrail.models.backbones import NETWORKS
from vitrail.models.segmentation_maps import coarsest_stride, map_widths
from vitrail.nn.heads.segmentation.fully_convolutional import FullyConvolutionalHead
from vitrail.nn.heads.segmentation.linear import LinearHead
from vitrail.nn.heads.segmentation.setr import AggregatingHead, NaiveHead, ProgressiveHead
from vitrail.nn.initialization import initialize
from vitrail.records import from_record

AUXILIARY_WIDTH = 256  # [Zhao+ 2017's code]; never more than the head's own


class HeadKind(NamedTuple):
    """How a head is made, and its channels where a config names none; 0: the encoder's."""

    build: Callable[["Setting"], nn.Module]
    width: int


class Setting(NamedTuple):
    """What a head is built for."""

    config: Any
    widths: list[int]  # channels of the maps it reads
    hidden: int
    stride: int  # pixels from one cell of the encoder's coarsest map to the next
    eps: float


HEADS: Mapping[str, HeadKind] = MappingProxyType(
    {
        "setr_naive": HeadKind(lambda s: NaiveHead(s.widths[-1], hidden=s.hidden, **shared(s)), 256),
        "setr_pup": HeadKind(lambda s: ProgressiveHead(s.widths[-1], hidden=s.hidden, stride=s.stride, **shared(s)), 256),
        "setr_mla": HeadKind(lambda s: AggregatingHead(s.widths, hidden=s.hidden, **shared(s)), 256),
        "linear": HeadKind(lambda s: LinearHead(s.widths[-1], classes=s.config.num_classes), 0),
    }
)


def shared(setting: Setting) -> dict[str, Any]:
    return {"classes": setting.config.num_classes, "norm": setting.config.norm}


def setting_of(config: Any) -> Setting:
    encoder = from_record(NETWORKS[config.network].config, config.backbone, what="backbone")
    widths = map_widths(config.network, encoder)
    hidden = config.head_width or HEADS[config.head].width or widths[-1]
    stride = coarsest_stride(encoder, head=config.head)
    return Setting(config, [widths[number] for number in config.layers], hidden, stride, getattr(encoder, "eps", 1e-6))


def build_head(config: Any) -> nn.Module:
    """The head that a config names, drawn anew."""
    return HEADS[config.head].build(setting_of(config)).apply(initialize)


def build_auxiliary(config: Any) -> nn.ModuleList:
    """One head for each layer of `config.auxiliary`."""
    encoder = from_record(NETWORKS[config.network].config, config.backbone, what="backbone")
    widths, hidden = map_widths(config.network, encoder), min(AUXILIARY_WIDTH, config.head_width or AUXILIARY_WIDTH)
    return nn.ModuleList(
        FullyConvolutionalHead(widths[number], classes=config.num_classes, hidden=hidden, norm=config.norm)
        for number in config.auxiliary
    )


def build_feature_norms(backbone: Any, config: Any) -> nn.ModuleDict:
    """A layer norm for every map that its encoder leaves without one: those of Swin's stages but the last  [Liu+ 2021's code for UPerNet]; of a
    plain encoder whose last norm is the classifier's, all, except for UPerNet, whose own first layers norm them  [Bao+ 2022's code]."""
    encoder = backbone.config
    widths, numbers = map_widths(config.network, encoder), sorted({*config.layers, *config.auxiliary})
    if config.network == "swin":
        bare = [number for number in numbers if number < len(widths) - 1]
    else:
        raw = config.network == "vit" and encoder.norm == "pre" and isinstance(backbone.encoder.norm, nn.Identity)
        bare = numbers if raw and config.head != "upernet" else []
    return nn.ModuleDict({str(number): nn.LayerNorm(widths[number], eps=encoder.eps) for number in bare})
