"""The parts of a detector behind its backbone, each made from a config with the fields of `DetectorConfig`.

m tokens
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.transformer import decoder_block, encoder_block
from vitrail.nn.decoders.anchors import AnchorDecoder
from vitrail.nn.decoders.queries import QueryDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.heads.boxes import BoxHead
from vitrail.nn.heads.proposals import Proposals
from vitrail.nn.initialization import initialize_by_width
from vitrail.tokens import Places

RARE = 0.01  # how likely a class is said to be at first, where each has a sigmoid of its own [Lin+ 2017, section 4.1]
SIDE, LARGEST = 0.1, 0.9  # of the box that a token of the first level guesses at first; each level doubles it


def build_encoder(config: Any) -> PlainEncoder:
    """Post-norm blocks end on a norm of their own; without blocks there is none."""
    norm = nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" and config.depth else None
    encoder = PlainEncoder([encoder_block(config) for _ in range(config.depth)], norm=norm)
    return encoder.apply(initialize_by_width)


def build_decoder(config: Any) -> QueryDecoder | AnchorDecoder:
    blocks = [decoder_block(config) for _ in range(config.decoder_depth)]
    norm, box_head = nn.LayerNorm(config.width, eps=config.eps), BoxHead(config.width)
    if config.query_kind == "learned":
        rows = QueryDecoder(blocks, norm=norm, queries=config.queries, width=config.width, box_head=box_head)
        return rows.apply(initialize_by_width)
    decoder = AnchorDecoder(
        blocks,
        norm=norm,
        queries=config.queries,
        width=config.width,
        box_head=box_head,
        base=config.position_base,
        anchors=config.query_kind == "anchor",
    )
    decoder.apply(initialize_by_width)
    begin_at_anchors(box_head)
    return decoder


def build_proposals(config: Any) -> Proposals:
    proposals = Proposals(
        config.width, class_head=new_class_head(config), queries=config.queries, nothing=not config.focal, eps=config.eps
    )
    for part in (proposals.project, proposals.box_head):
        part.apply(initialize_by_width)
    begin_at_anchors(proposals.box_head)
    return proposals


def begin_at_anchors(head: BoxHead) -> None:
    """A new head leaves every box where it is."""
    nn.init.zeros_(head.output.weight)
    nn.init.zeros_(head.output.bias)


def new_class_head(config: Any) -> nn.Linear:
    head = nn.Linear(config.width, config.num_classes + (not config.focal))
    initialize_by_width(head)
    if config.focal:
        nn.init.constant_(head.bias, -math.log((1 - RARE) / RARE))
    return head


def new_class_rows(config: Any) -> nn.Parameter | None:
    """What the query of a noised object is told of its class."""
    return nn.Parameter(torch.randn(config.num_classes, config.width) * 0.02) if config.denoising else None


def boxes_around(places: Places, level: int, device: torch.device) -> Float[Tensor, "1 m 4"]:
    """A box of the level's side, in shares of the picture's, around each cell; before the sigmoid."""
    sizes = torch.tensor(places.grid, dtype=torch.float32, device=device)
    centers = ((places.coordinates(device) + 0.5) / sizes).flip(-1)  # x y
    return torch.cat([centers, torch.full_like(centers, min(SIDE * 2**level, LARGEST))], dim=-1).logit()
