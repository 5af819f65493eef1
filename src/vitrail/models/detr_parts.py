"""The parts of a detector behind its backbone, each made from a config with the fields of `DetectorConfig`.

m tokens
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, check_counts
from vitrail.models.protocols import FeatureInfo
from vitrail.models.transformer import decoder_block, encoder_block
from vitrail.nn.attention.build import check_options
from vitrail.nn.attention.kernel import Feature
from vitrail.nn.decoders.queries import AnchorDecoder, QueryDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.heads.boxes import BoxHead, Proposals
from vitrail.nn.initialization import initialize_by_width
from vitrail.tokens import Places

MOST_QUERIES = 10_000
MOST_MATCHES = 100
RARE = 0.01  # how likely a class is said to be at first, where each has a sigmoid of its own [Lin+ 2017, section 4.1]
SIDE, LARGEST = 0.1, 0.9  # of the box that a token of the first level predicts at first; each level doubles it


def check_detector(config: Any) -> None:
    """The rules of a detector's own fields."""
    check_counts(config, ("num_classes", "width", "decoder_depth", "heads", "hidden", "queries"))
    check_options(config.attention, config.attention_options)
    if config.depth < 0 or config.depth + config.decoder_depth > MOST_BLOCKS:
        raise VitrailError(
            f"depth must be 0 to {MOST_BLOCKS}, with decoder_depth, got {config.depth} and {config.decoder_depth}"
        )
    if config.queries > MOST_QUERIES:
        raise VitrailError(f"queries must be at most {MOST_QUERIES}, got {config.queries}")
    if config.denoising and config.query_kind == "learned":
        raise VitrailError('denoising goes with query_kind "anchor" or "selected": a learned row says nothing of a box')
    if not 1 <= config.guesses <= MOST_MATCHES or (config.guesses > 1 and config.query_kind != "selected"):
        raise VitrailError(
            f'guesses must be 1 to {MOST_MATCHES}, and 1 unless query_kind is "selected", got {config.guesses} with "{config.query_kind}"'
        )
    if not 0 <= config.denoising <= MOST_QUERIES:
        raise VitrailError(f"denoising must be 0 to {MOST_QUERIES}, got {config.denoising}")
    if config.width % config.heads or config.width % 4:
        raise VitrailError(f"width must be a multiple of heads and of 4: got width {config.width}, heads {config.heads}")
    if not (0.0 <= config.dropout < 1.0 and 0.0 <= config.attention_dropout < 1.0):
        raise VitrailError(f"dropout must be at least 0 and below 1, got {config.dropout} and {config.attention_dropout}")
    if not (config.position_base > 1.0 and math.isfinite(config.position_base) and math.isfinite(config.position_shift)):
        raise VitrailError(f"position_base must be above 1, got {config.position_base}")


def level_widths(info: Sequence[FeatureInfo], levels: Sequence[int]) -> list[int]:
    """Channels of the maps with these numbers; negative ones count from the last."""
    for level in levels:
        if not -len(info) <= level < len(info):
            raise VitrailError(
                f"levels: {level} does not exist: the backbone has {len(info)} maps to give, 0 to {len(info) - 1}"
            )
    if len({level % len(info) for level in levels}) != len(levels) or not levels:
        raise VitrailError(f"levels must name at least one map and each once, got {list(levels)}")
    return [info[level].channels for level in levels]


def build_encoder(config: Any) -> PlainEncoder:
    """Post-norm blocks end on a norm of their own; without blocks there is none."""
    norm = nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" and config.depth else None
    encoder = PlainEncoder([encoder_block(config, layer=layer) for layer in range(config.depth)], norm=norm)
    return encoder.apply(initialize_by_width)


def build_decoder(config: Any) -> QueryDecoder | AnchorDecoder:
    needs: set[Feature] = {"mask"} if config.denoising else set()  # noised queries and the others do not see each other
    joined = (
        0 if config.query_kind == "learned" else config.width // config.heads
    )  # an anchor's place, beside what is looked for
    blocks = [decoder_block(config, layer=layer, needs=needs, joined_width=joined) for layer in range(config.decoder_depth)]
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
    """What the query of a noised object knows about its class."""
    return nn.Parameter(torch.randn(config.num_classes, config.width) * 0.02) if config.denoising else None


def boxes_around(places: Places, level: int, device: torch.device) -> Float[Tensor, "1 m 4"]:
    """A box of the level's side, in shares of the image's, around each cell; before the sigmoid."""
    sizes = torch.tensor(places.grid, dtype=torch.float32, device=device)
    centers = ((places.coordinates(device) + 0.5) / sizes).flip(-1)  # x y
    return torch.cat([centers, torch.full_like(centers, min(SIDE * 2**level, LARGEST))], dim=-1).logit()
