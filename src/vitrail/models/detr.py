"""DETR: a backbone, a transformer and queries, each of which answers with one object or with nothing.

b batch, ch channels, h w image, m tokens of all levels together, d width, l blocks of the decoder, q queries, k classes, n found objects
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.models.backbones import backbone_info, build_backbone, resolve_backbone
from vitrail.models.detections import Detected, Noised, Targets
from vitrail.models.detr_parts import (
    boxes_around,
    build_decoder,
    build_encoder,
    build_proposals,
    check_detector,
    level_widths,
    new_class_head,
    new_class_rows,
)
from vitrail.models.model import ImageModel
from vitrail.models.noising import noise_targets
from vitrail.nn.blocks.encoder_block import NormOrder
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.nn.decoders.queries import AnchorDecoder, QueryDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.boxes import to_corners
from vitrail.nn.heads.boxes import Proposals
from vitrail.nn.initialization import initialize_by_width
from vitrail.nn.positions.added import GivenQK
from vitrail.nn.positions.sinusoidal import NormalizedSinusoidal
from vitrail.records import OMITTED, Settings, to_record
from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens

QueryKind = Literal["learned", "anchor", "selected"]


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
    query_kind: QueryKind = "learned"  # a learned row; a learned box; or a box where the image's own tokens guess one
    denoising: int = 0  # how many queries per image has in training that are made of its objects, with noise
    negatives: bool = False  # whether half of them are so far off that nothing is the answer
    guesses: int = 1  # how many of the places that queries begin at may stand for each object while they learn
    focal: bool = False  # whether each class has a sigmoid of its own; else a softmax, in which nothing is the last class
    norm: NormOrder = "post"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: Activation = "relu"
    attention: str = "softmax"  # of encoder and decoder; the backbone has its own
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    position_base: float = 10_000.0
    position_shift: float = 1.0
    eps: float = 1e-5

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("image_size", "in_channels") if getattr(self, name) is not None}
        resolved = resolve_backbone(self.network, {**self.backbone, **given})
        resolved |= (
            {"pool": "mean", "head_hidden": None, "distilled": False} if self.network == "vit" else {}
        )  # nothing is pooled
        object.__setattr__(self, "backbone", resolved)
        object.__setattr__(self, "image_size", tuple(resolved["image_size"]))
        object.__setattr__(self, "in_channels", resolved["in_channels"])
        level_widths(backbone_info(self.network, resolved), self.levels)
        check_detector(self)


class Memory(NamedTuple):
    """What the queries read, and where it stands."""

    x: Float[Tensor, "b m d"]
    rows: Float[Tensor, "#b m d"]  # its positions
    places: Places  # a grid, or a line of several of them
    boxes: Float[Tensor, "1 m 4"]  # around each token, before the sigmoid


class Detector(ImageModel):
    """boxes, classes = heads(decoder(queries, encoder(projections of the backbone's maps)))  [Carion+ 2020, figure 2].

    Handed its parts; `build_detector` makes them from a config. Maps of several levels are one sequence, in which a learned row of its
    level is added to each token's position.
    """

    architecture = "detr"
    pipeline_tag = "object-detection"

    def __init__(
        self,
        *,
        backbone: Any,
        projections: Sequence[nn.Module],
        position: NormalizedSinusoidal,
        encoder: PlainEncoder,
        decoder: QueryDecoder | AnchorDecoder,
        class_head: nn.Linear,
        proposals: Proposals | None = None,
        config: DetectorConfig,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.config, self.labels = backbone, config, labels
        self.preprocessing = replace(backbone.preprocessing, fit="squash")  # of a box nothing may be cut off
        self.projections = nn.ModuleList(projections)
        self.level_rows = nn.Parameter(torch.zeros(len(projections), config.width)) if len(projections) > 1 else None
        self.position, self.placing = position, GivenQK()
        self.encoder, self.decoder, self.class_head, self.proposals = encoder, decoder, class_head, proposals
        self.class_rows = new_class_rows(config)  # what a noised object's query knows about its class

    @property
    def num_classes(self) -> int:
        return self.config.num_classes

    @property
    def size_multiple(self) -> int:
        return int(self.backbone.size_multiple)

    def encode(self, images: Float[Tensor, "b ch h w"]) -> Memory:
        maps = self.backbone.forward_intermediates(images, self.config.levels)
        x = torch.cat([project(tokens.cells) for project, tokens in zip(self.projections, maps, strict=True)], dim=1)
        rows = [self.position.rows(Places(tokens.grid), images.device).to(x.dtype) for tokens in maps]
        if self.level_rows is not None:
            rows = [ours + level for ours, level in zip(rows, self.level_rows, strict=True)]
        placed = torch.cat(rows, dim=1)
        places = Places(maps[0].grid if len(maps) == 1 else (x.shape[1],))
        scope = Scope(queries=places, keys=places, position=self.placing, prepared=(placed, placed))
        boxes = [boxes_around(Places(tokens.grid), level, images.device) for level, tokens in enumerate(maps)]
        return Memory(
            self.encoder.walk(Tokens(x, grid=places.grid), scope=scope)[0].x,
            placed,
            places,
            torch.cat(boxes, dim=1).to(x.dtype),
        )

    def forward(
        self,
        images: Float[Tensor, "b ch h w"],
        targets: Sequence[Targets] | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Detected:
        """`targets` are for training: where the config says so, the decoder learns from their noised copies too.

        Where places of the image are chosen, what was said of them is the first of the answers.
        """
        memory = self.encode(images)
        if isinstance(self.decoder, QueryDecoder):
            states, boxes = self.decoder(memory.x, memory.rows, memory.places)
            return Detected(self.class_head(states), boxes)
        first: list[tuple[Tensor, Tensor]] = []
        if self.proposals is not None:
            guessed, anchors = self.proposals(memory.x, memory.boxes)
            first, anchors = [(guessed, anchors.sigmoid())], anchors.detach()
        else:
            assert self.decoder.anchors is not None
            anchors = self.decoder.anchors.expand(images.shape[0], -1, -1)
        x, noised, mask = self.decoder.table.expand(images.shape[0], -1, -1), None, None
        if targets is not None and self.class_rows is not None:
            most, negatives = self.config.denoising, self.config.negatives
            noised = noise_targets(targets, most=most, num_classes=self.num_classes, negatives=negatives, generator=generator)
            if noised is not None:
                x = torch.cat([self.class_rows[noised.classes], x], dim=1)
                anchors = torch.cat([noised.boxes.logit(eps=1e-3).to(anchors.dtype), anchors], dim=1)
                mask = noised.mask(self.config.queries)
        states, boxes = self.decoder(memory.x, memory.rows, memory.places, x, anchors, mask)
        logits = self.class_head(states)
        many = 0 if noised is None else len(noised.group)
        answers = [*first, *zip(logits[:, :, many:], boxes[:, :, many:], strict=True)]
        return Detected(
            torch.stack([said for said, _ in answers]),
            torch.stack([placed for _, placed in answers]),
            None
            if noised is None
            else Noised(logits[:, :, :many], boxes[:, :, :many], noised.which, noised.real, noised.positive),
        )

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None:
        """A new, untrained last layer for other classes."""
        self.config = replace(self.config, num_classes=num_classes)
        device = next(self.parameters()).device
        self.class_head, self.class_rows = new_class_head(self.config).to(device), new_class_rows(self.config)
        if self.proposals is not None:
            self.proposals.class_head = new_class_head(self.config).to(device)
        self.to(device)
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
    """All that stands behind a backbone, new; that is left as it is."""
    widths = level_widths(backbone.feature_info, config.levels)
    projections = [nn.Linear(width, config.width) for width in widths]
    for project in projections:
        initialize_by_width(project)
    return Detector(
        backbone=backbone,
        projections=projections,
        position=NormalizedSinusoidal(config.width, base=config.position_base, shift=config.position_shift),
        encoder=build_encoder(config),
        decoder=build_decoder(config),
        class_head=new_class_head(config),
        proposals=build_proposals(config) if config.query_kind == "selected" else None,
        config=config,
    )


class Picked(NamedTuple):
    """Of each image the answers that count, the surest first, and the queries that gave them."""

    scores: Float[Tensor, "b n"]
    classes: Int[Tensor, "b n"]
    queries: Int[Tensor, "b n"]


def pick_boxes(detected: Detected, *, config: DetectorConfig, top: int = 100) -> Picked:
    """With a softmax each query answers with its likeliest class [Carion+ 2020]; with sigmoids the `top` pairs of query and class count
    [Zhu+ 2021, published code]. No overlap is suppressed: that is what the queries learn among themselves."""
    logits = detected.logits[-1].float()
    if config.focal:
        scores, picked = logits.sigmoid().flatten(1).topk(min(top, logits[0].numel()), dim=1)
        return Picked(scores, picked % logits.shape[2], picked // logits.shape[2])
    best, kinds = logits.softmax(-1)[..., :-1].max(-1)
    scores, queries = best.topk(min(top, best.shape[1]), dim=1)
    return Picked(scores, kinds.gather(1, queries), queries)


def decode_boxes(
    detected: Detected, sizes: Int[Tensor, "b 2"], *, config: DetectorConfig, top: int = 100
) -> list[tuple[Float[Tensor, "n"], Int[Tensor, "n"], Float[Tensor, "n 4"]]]:
    """Of each image the scores, classes and boxes x0 y0 x1 y1 in pixels of its size (h, w), inside it, the surest first; see `pick_boxes`."""
    scores, classes, queries = pick_boxes(detected, config=config, top=top)
    corners = to_corners(detected.boxes[-1].float())
    scale = sizes.to(corners).flip(1).repeat(1, 2)[:, None]  # b 1 4: w h w h
    boxes = corners.gather(1, queries[..., None].expand(-1, -1, 4)).clamp(0, 1) * scale
    return list(zip(scores, classes, boxes, strict=True))


def usual_threshold(config: DetectorConfig) -> float:
    """The score from which on a box is shown. Of classes that each have a sigmoid few scores are high: most queries say no."""
    return 0.3 if config.focal else 0.5
