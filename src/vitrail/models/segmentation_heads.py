"""The heads of segmenters by name, made for the encoder and the classes that a config has."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import nn

from vitrail.errors import VitrailError
from vitrail.models.parts import build_position
from vitrail.models.segmentation_maps import coarsest_stride, fine_width, map_widths
from vitrail.nn.attention.build import build_attention
from vitrail.nn.attention.spec import AttentionSpec, Role
from vitrail.nn.blocks.decoder_block import DecoderBlock
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.heads.segmentation.class_queries import ClassQueryHead
from vitrail.nn.heads.segmentation.mask import LinearHead, MaskHead
from vitrail.nn.heads.segmentation.normed_convolution import FullyConvolutionalHead
from vitrail.nn.heads.segmentation.setr import AggregatingHead, NaiveHead, ProgressiveHead
from vitrail.nn.heads.segmentation.upernet import LEVELS, Rescaling, UPerNetHead
from vitrail.nn.initialization import initialize

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
    backbone: Any

    @property
    def encoder(self) -> Any:
        return self.backbone.config

    @property
    def stride(self) -> int:
        """Pixels from one cell of the encoder's coarsest map to the next."""
        return coarsest_stride(self.encoder, head=self.config.head)

    @property
    def eps(self) -> float:
        return float(getattr(self.encoder, "eps", 1e-6))


HEADS: Mapping[str, HeadKind] = MappingProxyType(
    {
        "setr_naive": HeadKind(lambda s: NaiveHead(s.widths[-1], hidden=s.hidden, **shared(s)), 256),
        "setr_pup": HeadKind(lambda s: ProgressiveHead(s.widths[-1], hidden=s.hidden, stride=s.stride, **shared(s)), 256),
        "setr_mla": HeadKind(lambda s: AggregatingHead(s.widths, hidden=s.hidden, **shared(s)), 256),
        "linear": HeadKind(lambda s: LinearHead(s.widths[-1], classes=s.config.num_classes), 0),
        "mask": HeadKind(lambda s: build_mask(s), 0),
        "upernet": HeadKind(lambda s: build_upernet(s), 512),
        "trans2seg": HeadKind(lambda s: build_class_queries(s), 64),
    }
)


def shared(setting: Setting) -> dict[str, Any]:
    return {"classes": setting.config.num_classes, "norm": setting.config.norm}


def build_head(config: Any, backbone: Any) -> nn.Module:
    """The head that a config names, drawn anew for this encoder."""
    widths, kind = map_widths(config.network, backbone.config), HEADS[config.head]
    read = [widths[number] for number in config.layers]
    return kind.build(Setting(config, read, config.head_width or kind.width or read[-1], backbone)).apply(initialize)


def build_mask(setting: Setting) -> MaskHead:
    width, hidden = setting.widths[-1], setting.hidden
    blocks = build_blocks(setting, hidden, heads=heads_for(setting, hidden))
    return MaskHead(width, classes=setting.config.num_classes, hidden=hidden, blocks=blocks)


def build_upernet(setting: Setting) -> UPerNetHead:
    rescaling = None
    if setting.config.network == "vit":
        if len(setting.widths) != LEVELS:
            raise VitrailError(f"UPerNet on a plain encoder reads {LEVELS} layers, got {setting.config.layers}")
        rescaling = Rescaling(setting.widths[0], norm=setting.config.norm)
    return UPerNetHead(setting.widths, hidden=setting.hidden, rescaling=rescaling, **shared(setting))


def build_class_queries(setting: Setting) -> ClassQueryHead:
    """A convolutional net gets as many encoder blocks as the decoder has: a transformer's own are enough."""
    config, width, eps = setting.config, setting.widths[-1], setting.eps
    heads, encoder, position = heads_for(setting, width), None, None
    if config.network == "resnet":
        height, across = setting.encoder.image_size
        encoder = build_blocks(setting, width, heads=heads)
        grid = (height // setting.stride, across // setting.stride)
        position = build_position("learned_1d", width=width, heads=heads, depth=config.head_depth, grid=grid)
    blocks = [
        DecoderBlock(
            width,
            attention=build_layer(setting, width, heads=heads, layer=layer),
            cross_attention=build_layer(setting, width, heads=heads, layer=layer, role="cross"),
            mlp=FeedForward(width, hidden=4 * width),
            eps=eps,
        )
        for layer in range(config.head_depth - 1)
    ]
    decoder = PlainDecoder(blocks, norm=nn.LayerNorm(width, eps=eps), causal=False)
    return ClassQueryHead(
        width, fine_width=fine_width(setting.backbone), hidden=setting.hidden, heads=heads, decoder=decoder,
        encoder=encoder, position=position, **shared(setting),
    )  # fmt: skip


def build_blocks(setting: Setting, width: int, *, heads: int) -> PlainEncoder:
    blocks = [
        EncoderBlock(
            width,
            attention=build_layer(setting, width, heads=heads, layer=layer),
            mlp=FeedForward(width, hidden=4 * width),
            eps=setting.eps,
        )
        for layer in range(setting.config.head_depth)
    ]
    return PlainEncoder(blocks, norm=nn.LayerNorm(width, eps=setting.eps))


def build_layer(setting: Setting, width: int, *, heads: int, layer: int, role: Role = "self") -> nn.Module:
    """The attention that the config names for its head."""
    config = setting.config
    spec = AttentionSpec(
        width=width, heads=heads, layer=layer, depth=config.head_depth, role=role, options=config.head_attention_options
    )
    return build_attention(config.head_attention, spec)


def heads_for(setting: Setting, width: int) -> int:
    """The encoder's own where it is plain and as wide  [Strudel+ 2021, section 4.2]; else as many as have eight numbers at least, up to 8."""
    if setting.config.network == "vit" and setting.encoder.width == width:
        return int(setting.encoder.heads)
    return next(heads for heads in (8, 4, 2, 1) if heads == 1 or (width % heads == 0 and width >= 8 * heads))


def build_auxiliary(config: Any, backbone: Any) -> nn.ModuleList:
    """One head for each layer of `config.auxiliary`."""
    widths, hidden = map_widths(config.network, backbone.config), min(AUXILIARY_WIDTH, config.head_width or AUXILIARY_WIDTH)
    return nn.ModuleList(
        FullyConvolutionalHead(widths[number], classes=config.num_classes, hidden=hidden, norm=config.norm)
        for number in config.auxiliary
    )


def build_feature_norms(config: Any, backbone: Any) -> nn.ModuleDict:
    """A layer norm for every map that its encoder leaves without one: those of Swin's stages but the last  [Liu+ 2021's code for UPerNet]; of a
    plain encoder whose last norm is the classifier's, all, except for UPerNet, whose own first layers norm them  [Bao+ 2022's code]."""
    encoder = backbone.config
    widths, numbers = map_widths(config.network, encoder), sorted({*config.layers, *config.auxiliary})
    if config.network == "swin":
        numbers = sorted({0, *numbers}) if config.head == "trans2seg" else numbers  # its fine map is the first stage's
        bare = [number for number in numbers if number < len(widths) - 1]
    else:
        raw = config.network == "vit" and encoder.norm == "pre" and isinstance(backbone.encoder.norm, nn.Identity)
        bare = numbers if raw and config.head != "upernet" else []
    return nn.ModuleDict({str(number): nn.LayerNorm(widths[number], eps=encoder.eps) for number in bare})
