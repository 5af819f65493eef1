"""DETR: a backbone, a transformer and queries, each of which answers with one object or with nothing.

b batch, ch channels, h w picture, m tokens of all levels together, d width, l blocks of the decoder, q queries, k classes, n found objects
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.models.backbones import build_backbone, settle_backbone
from vitrail.models.classifier import MOST_BLOCKS
from vitrail.models.detections import Detected, Targets
from vitrail.models.levels import level_widths
from vitrail.models.parts import KERNELS
from vitrail.models.transformer import decoder_block, encoder_block
from vitrail.models.twins import check_widths
from vitrail.nn.blocks.encoder_block import NormOrder
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.nn.decoders.queries import QueryDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.boxes import to_corners
from vitrail.nn.heads.boxes import BoxHead
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.absolute_qk import GivenQK
from vitrail.nn.positions.normalized import NormalizedSinusoidal
from vitrail.preprocessing import Preprocessing
from vitrail.records import to_record
from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens

MOST_QUERIES = 10_000
RARE = 0.01  # how likely a class is said to be at first, where each has a sigmoid of its own [Lin+ 2017, section 4.1]


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectorConfig:
    """Everything that tells one detector from another. The defaults are the published DETR's."""

    network: str = "vit"  # what kind the backbone is
    backbone: dict = field(hash=False)  # type: ignore[type-arg]  # its own config, as a record
    image_size: tuple[int, int] | None = None  # None: the backbone's, as its record has it
    in_channels: int | None = None
    num_classes: int = 91
    levels: tuple[int, ...] = (-1,)  # which of the backbone's maps are read, side by side
    width: int = 256
    depth: int = 6  # of the encoder; 0: the decoder reads the backbone's maps as they are
    decoder_depth: int = 6
    heads: int = 8
    hidden: int = 2048
    queries: int = 100
    focal: bool = False  # whether each class has a sigmoid of its own; else a softmax, in which nothing is the last class
    norm: NormOrder = "post"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: Activation = "relu"
    attention: str = "softmax"
    position_base: float = 10_000.0
    position_shift: float = 1.0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("image_size", "in_channels") if getattr(self, name) is not None}
        settled = settle_backbone(self.network, {**self.backbone, **given})
        settled |= (
            {"pool": "mean", "head_hidden": None, "distilled": False} if self.network == "vit" else {}
        )  # nothing is pooled
        object.__setattr__(self, "backbone", settled)
        object.__setattr__(self, "image_size", tuple(settled["image_size"]))
        object.__setattr__(self, "in_channels", settled["in_channels"])
        level_widths(self.network, settled, self.levels)
        check_widths(self, ("num_classes", "width", "decoder_depth", "heads", "hidden", "queries"))
        check_choice("attention", self.attention, KERNELS)
        if self.depth < 0 or self.depth + self.decoder_depth > MOST_BLOCKS:
            raise VitrailError(
                f"depth must be 0 to {MOST_BLOCKS}, with decoder_depth, got {self.depth} and {self.decoder_depth}"
            )
        if self.queries > MOST_QUERIES:
            raise VitrailError(f"queries must be at most {MOST_QUERIES}, got {self.queries}")
        if self.width % self.heads or self.width % 4:
            raise VitrailError(f"width must be a multiple of heads and of 4: got width {self.width}, heads {self.heads}")
        if not (0.0 <= self.dropout < 1.0 and 0.0 <= self.attention_dropout < 1.0):
            raise VitrailError(f"dropout must be at least 0 and below 1, got {self.dropout} and {self.attention_dropout}")
        if not (self.position_base > 1.0 and math.isfinite(self.position_base) and math.isfinite(self.position_shift)):
            raise VitrailError(f"position_base must be above 1, got {self.position_base}")


class Detector(nn.Module):
    """boxes, classes = heads(decoder(queries, encoder(projections of the backbone's maps)))  [Carion+ 2020, figure 2].

    Handed its parts; `build_detector` makes them from a config. Maps of several levels are one sequence, in which a learned row of its
    level is added to each token's position.
    """

    architecture = "detr"
    multi_label = False
    tokenizer = None

    def __init__(
        self,
        *,
        backbone: Any,
        projections: Sequence[nn.Module],
        position: NormalizedSinusoidal,
        encoder: PlainEncoder,
        decoder: nn.Module,
        class_head: nn.Linear,
        config: DetectorConfig,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.config, self.labels = backbone, config, labels
        self.preprocessing: Preprocessing = replace(backbone.preprocessing, fit="squash")  # of a box nothing may be cut off
        self.provenance: dict[str, Any] | None = None
        self.projections = nn.ModuleList(projections)
        self.level_rows = nn.Parameter(torch.zeros(len(projections), config.width)) if len(projections) > 1 else None
        self.position, self.placing = position, GivenQK()
        self.encoder, self.decoder, self.class_head = encoder, decoder, class_head

    @property
    def image_size(self) -> tuple[int, int]:
        assert self.config.image_size is not None
        return self.config.image_size

    @property
    def num_classes(self) -> int:
        return self.config.num_classes

    @property
    def size_multiple(self) -> int:
        return int(self.backbone.size_multiple)

    def encode(self, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b m d"], Float[Tensor, "#b m d"], Places]:
        """The memory that the queries read, its positions, and where it stands: on a grid, or a line of several of them."""
        maps = self.backbone.forward_intermediates(images, self.config.levels)
        x = torch.cat([project(tokens.cells) for project, tokens in zip(self.projections, maps, strict=True)], dim=1)
        rows = [self.position.rows(Places(tokens.grid), images.device).to(x.dtype) for tokens in maps]
        if self.level_rows is not None:
            rows = [ours + level for ours, level in zip(rows, self.level_rows, strict=True)]
        placed = torch.cat(rows, dim=1)
        places = Places(maps[0].grid if len(maps) == 1 else (x.shape[1],))
        scope = Scope(queries=places, keys=places, position=self.placing, prepared=(placed, placed))
        return self.encoder.walk(Tokens(x, grid=places.grid), scope=scope)[0].x, placed, places

    def forward(
        self,
        images: Float[Tensor, "b ch h w"],
        targets: Sequence[Targets] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Detected:
        """`targets` are for training, where the decoder learns from their noised copies too if the config says so."""
        memory, rows, places = self.encode(images)
        states, boxes = self.decoder(memory, rows, places)
        return Detected(self.class_head(states), boxes)

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None:
        """A new, untrained last layer for other classes."""
        self.config = replace(self.config, num_classes=num_classes)
        self.class_head = new_class_head(self.config).to(next(self.parameters()).device)
        self.labels = None if labels is None else tuple(labels)


def build_detector(config: DetectorConfig) -> Detector:
    """The parts that a config names, put together."""
    return assemble(build_backbone(config.network, config.backbone), config)


def detector_on(backbone: Any, *, num_classes: int, **settings: Any) -> Detector:
    """A detector on a model that is there already, with the weights it has; `settings` are fields of `DetectorConfig`."""
    backbone.reset_classifier(0)
    config = DetectorConfig(
        network=backbone.architecture, backbone=to_record(backbone.config), num_classes=num_classes, **settings
    )
    ours = build_backbone(config.network, config.backbone)
    held = ours.state_dict().keys()
    ours.load_state_dict({name: tensor for name, tensor in backbone.state_dict().items() if name in held})  # less a pooling's
    ours.preprocessing = backbone.preprocessing
    return assemble(ours, config)


def assemble(backbone: Any, config: DetectorConfig) -> Detector:
    widths = level_widths(config.network, config.backbone, config.levels)
    projections = [nn.Linear(width, config.width) for width in widths]
    encoder_norm = nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" and config.depth else None
    encoder = PlainEncoder([encoder_block(config) for _ in range(config.depth)], norm=encoder_norm)
    decoder = QueryDecoder(
        [decoder_block(config) for _ in range(config.decoder_depth)],
        norm=nn.LayerNorm(config.width, eps=config.eps),
        queries=config.queries,
        width=config.width,
        box_head=BoxHead(config.width),
    )
    for part in (*projections, encoder, decoder):  # not the backbone, whose initialization is its own
        part.apply(initialize_by_width)
    return Detector(
        backbone=backbone,
        projections=projections,
        position=NormalizedSinusoidal(config.width, base=config.position_base, shift=config.position_shift),
        encoder=encoder,
        decoder=decoder,
        class_head=new_class_head(config),
        config=config,
    )


def new_class_head(config: DetectorConfig) -> nn.Linear:
    head = nn.Linear(config.width, config.num_classes + (not config.focal))
    initialize_by_width(head)
    if config.focal:
        nn.init.constant_(head.bias, -math.log((1 - RARE) / RARE))
    return head


def decode_boxes(
    detected: Detected, sizes: Int[Tensor, "b 2"], *, config: DetectorConfig, top: int = 100
) -> list[tuple[Float[Tensor, "n"], Int[Tensor, "n"], Float[Tensor, "n 4"]]]:
    """Of each picture the scores, classes and boxes x0 y0 x1 y1 in pixels of its size (h, w), inside it, the surest first.

    With a softmax each query answers with its likeliest class [Carion+ 2020]; with sigmoids the `top` pairs of query and class count
    [Zhu+ 2021, published code]. No overlap is suppressed: that is what the queries learn among themselves.
    """
    logits, corners = detected.logits[-1].float(), to_corners(detected.boxes[-1].float())
    if config.focal:
        scores, picked = logits.sigmoid().flatten(1).topk(min(top, logits[0].numel()), dim=1)
        queries, classes = picked // logits.shape[2], picked % logits.shape[2]
    else:
        best, kinds = logits.softmax(-1)[..., :-1].max(-1)
        scores, queries = best.topk(min(top, best.shape[1]), dim=1)
        classes = kinds.gather(1, queries)
    scale = sizes.to(corners).flip(1).repeat(1, 2)[:, None]  # b 1 4: w h w h
    boxes = corners.gather(1, queries[..., None].expand(-1, -1, 4)).clamp(0, 1) * scale
    return list(zip(scores, classes, boxes, strict=True))
