"""A packed sequence: images of different shapes side by side, each of which sees itself alone  [Dehghani+ 2023, NaViT, section 2].

n tokens of the sequence, d w widths, g images of one shape, t tokens of each

Norms, projections and feed-forward act on all tokens at once and without padding. Attention computes sum_i n_i^2 pairs for images of n_i
tokens: those of one shape are a batch with a Scope of its own, so a position scheme gives an image what it gives it alone.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.nn.attention.carry import with_carry
from vitrail.nn.attention.multi_head import MultiHeadAttention, merge_heads, split_heads
from vitrail.nn.attention.recording import current_recorder
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.residual import Layer, Residual
from vitrail.nn.blocks.stack import own_scope
from vitrail.nn.encoders.merging import MergingEncoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.positions.position import Position
from vitrail.scope import OPEN, Scope
from vitrail.tokens import Tokens


class Span(NamedTuple):
    """Images of one shape that stand side by side in the sequence, and what the attention among their own tokens needs."""

    start: int
    images: int
    tokens: int  # of each of them, prefix included
    scope: Scope  # as if they were a batch by themselves

    def of(self, x: Float[Tensor, "1 n w"]) -> Float[Tensor, "g t w"]:
        """Their part of the sequence, as that batch."""
        return x[0, self.start : self.start + self.images * self.tokens].view(self.images, self.tokens, -1)


def encode_packed(encoder: PlainEncoder, groups: Sequence[Tokens], *, position: Position | None = None) -> list[Tokens]:
    """What `encoder` makes of each group alone; `groups` are batches of images of one shape each."""
    if isinstance(encoder, MergingEncoder):
        encoder.refuse_sizes()
    spans = find_spans(groups, position, causal=encoder.causal)
    spans = [span._replace(scope=with_carry(span.scope, encoder.carries)) for span in spans]
    x = torch.cat([tokens.x.flatten(0, 1) for tokens in groups])[None]  # 1 n d
    segments = number_images(spans, x.device)
    for number, block in enumerate(encoder.blocks):
        assert isinstance(block, EncoderBlock)
        here = spans
        if position is not None:
            here = [span._replace(scope=position.at(span.scope, number)) for span in spans]
            if position.enters:
                x = join([position.enter(span.of(x), number, span.scope) for span in here])
        x = encoder.run(block, x, OPEN, PackedResidual(block.residual, here, segments))
    parts = encoder.norm(x)[0].split_with_sizes([tokens.x.shape[0] * tokens.x.shape[1] for tokens in groups])
    return [tokens._replace(x=part.view_as(tokens.x)) for tokens, part in zip(groups, parts, strict=True)]


def find_spans(groups: Sequence[Tokens], position: Position | None, *, causal: bool) -> list[Span]:
    """One for each group. Where no position acts inside the blocks, neighbors of as many tokens share one, whatever their shapes."""
    inside = position is not None and (position.attends or position.enters)
    spans, start = list[Span](), 0
    for tokens in groups:
        images, count = tokens.x.shape[:2]
        if not inside and spans and spans[-1].tokens == count:
            spans[-1] = spans[-1]._replace(images=spans[-1].images + images)
        else:
            scope = own_scope(tokens, position, causal=causal) if inside else Scope(causal=causal)
            spans.append(Span(start, images, count, scope))
        start += images * count
    return spans


def number_images(spans: Sequence[Span], device: torch.device) -> Int[Tensor, "1 n"]:
    """The number of the image that each token belongs to."""
    lengths = [span.tokens for span in spans for _ in range(span.images)]
    return torch.arange(len(lengths), device=device).repeat_interleave(torch.tensor(lengths, device=device))[None]


class PackedResidual:
    """A block's residual for a packed sequence: attention is within each image, and stochastic depth leaves out whole images."""

    def __init__(self, residual: Residual, spans: Sequence[Span], segments: Int[Tensor, "1 n"]) -> None:
        self.residual, self.spans, self.segments = residual, spans, segments

    def __call__(
        self, x: Float[Tensor, "1 n d"], norm: Layer, layer: Layer, branch: Layer, *context: Any
    ) -> Float[Tensor, "1 n d"]:
        if context:  # what needs a Scope is attention; each span has its own
            if not isinstance(layer, MultiHeadAttention):
                raise VitrailError(f"packed images need multi-head attention, and {type(layer).__name__} is another")
            layer = partial(attend_packed, layer, spans=self.spans)
        return self.residual(x, norm, layer, partial(branch, segments=self.segments))


def attend_packed(layer: MultiHeadAttention, x: Float[Tensor, "1 n w"], *, spans: Sequence[Span]) -> Float[Tensor, "1 n w"]:
    """Self-attention: projections of all tokens at once, then the kernel for each span's images by themselves."""
    if current_recorder() is not None:
        raise VitrailError("the attention of packed images cannot be recorded: give the model one image at a time")
    asking, asked = packed_sources(x, spans)
    projected = layer.query(asking), layer.key(asked), layer.value(x)  # 1 n w
    outputs: list[Float[Tensor, "g t w"]] = []
    for span in spans:
        q, k, v = (split_heads(span.of(y), layer.heads) for y in projected)  # g h t d
        if span.scope.position is not None:
            q, k = span.scope.position.rotate(q, k, span.scope)
        outputs.append(merge_heads(layer.attend(q, k, v, span.scope)[0]))
    return layer.output(join(outputs))


def packed_sources(x: Float[Tensor, "1 n w"], spans: Sequence[Span]) -> tuple[Float[Tensor, "1 n w"], Float[Tensor, "1 n w"]]:
    """What queries and keys are made from: most schemes leave that to the tokens alone."""
    parts = [(span.of(x), span.scope) for span in spans]
    found = [
        (part, part) if here.position is None else here.position.sources(part, part, here) for part, here in parts
    ]  # g t w each
    if all(asking is part and asked is part for (asking, asked), (part, _) in zip(found, parts, strict=True)):
        return x, x
    return join([asking for asking, _ in found]), join([asked for _, asked in found])


def join(parts: Sequence[Float[Tensor, "_ _ w"]]) -> Float[Tensor, "1 n w"]:
    """Batches of images as one sequence."""
    return torch.cat([part.flatten(0, 1) for part in parts])[None]
