"""The plain encoder with token merging: in every block, between attention and feed-forward, tokens that are alike become one.

b batch, n tokens, m tokens that are left, h heads, d width, e key width
"""

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.carry import with_carry
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.residual import Layer, Residual
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.merging import match, merge, unmerge
from vitrail.nn.positions.position import Position
from vitrail.scope import Scope
from vitrail.tokens import Tokens


class MergingEncoder(PlainEncoder):
    """Each block has `count` tokens fewer than the one before, or half of those behind the prefix if that is less  [Bolya+ 2023, section 3].

    A token that is the mean of s tokens has log s added to every query's logit of it [eq. 1]: it weighs as its tokens would. No parameters:
    the weights are those of a plain encoder. Its tokens are others in each block, so kernels carry nothing from layer to layer.
    """

    def __init__(self, blocks: Sequence[nn.Module], *, count: int, norm: nn.Module | None = None, causal: bool = False) -> None:
        if count < 1:
            raise VitrailError(f"a block merges at least 1 token away, got {count}")
        super().__init__(blocks, norm=norm, causal=causal)
        self.count = count

    def walk(
        self,
        tokens: Tokens,
        *,
        keep: Collection[int] = (),
        position: Position | None = None,
        segments: Int[Tensor, "b n"] | None = None,
        **refused: object,
    ) -> tuple[Tokens, list[Tokens]]:
        """The last tokens are those that are left; of the kept ones each stands in its cell again. A cache or a Scope is refused."""
        if tokens.mask is not None or segments is not None:
            self.refuse_sizes()
        if (
            self.causal
            or any(one is not None for one in refused.values())
            or (position and (position.attends or position.enters))
        ):
            raise VitrailError(
                "token merging needs attention without order, cache and positions of its own: have merge=0 there"
            )
        kept = []
        for number, block in enumerate(self.blocks):
            assert isinstance(block, EncoderBlock)
            mask = None if tokens.sizes is None else tokens.sizes.log()[:, None, None]  # b 1 1 n
            merging = MergingResidual(block.residual, self.count, tokens)
            scope = with_carry(Scope(queries=tokens.places, keys=tokens.places, mask=mask), self.carries)
            x = self.run(block, tokens.x, scope, merging)
            tokens = merging.tokens._replace(x=x)
            if number in keep:
                kept.append(unmerge(tokens._replace(x=self.norm(x))))
        return tokens._replace(x=self.norm(tokens.x)), kept

    def refuse_sizes(self) -> NoReturn:
        """What is merged would no longer fit to the mask of padded images, or to the places of packed ones."""
        raise VitrailError("token merging needs images of one size: packed and padded ones have merge=0 only")


class MergingResidual:
    """A block's residual that merges behind attention; `tokens` are then those that are left, without what the block made of them."""

    def __init__(self, residual: Residual, count: int, tokens: Tokens) -> None:
        self.residual, self.count, self.before, self.tokens = residual, count, tokens, tokens

    def __call__(
        self, x: Float[Tensor, "b n d"], norm: Layer, layer: Layer, branch: Layer, *context: Any
    ) -> Float[Tensor, "b m d"]:
        if not context:  # what needs a Scope is attention; this is feed-forward
            return self.residual(x, norm, layer, branch)
        if not isinstance(layer, MultiHeadAttention):
            raise VitrailError(f"token merging needs the keys of multi-head attention, and {type(layer).__name__} is another")
        keys: list[Float[Tensor, "b h n e"]] = []

        def read(y: Tensor, scope: Scope) -> Tensor:
            out, k = layer.with_keys(y, scope)
            keys.append(k)
            return out

        x, before = self.residual(x, norm, read, branch, *context), self.before
        step = match(keys[0], min(self.count, (x.shape[1] - before.prefix) // 2), prefix=before.prefix)
        sizes = x.new_ones(x.shape[:2]) if before.sizes is None else before.sizes
        x, sizes = merge(x, sizes, step, prefix=before.prefix)
        self.tokens = before._replace(sizes=sizes, merges=(*before.merges, step))
        return x
