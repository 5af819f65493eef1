"""Chains through all layers: whether a model's attention layers follow each other token by token."""

from torch import nn

from vitrail.errors import VitrailError
from vitrail.explain.record import check_weights
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.encoders.group import GroupEncoder
from vitrail.nn.encoders.merging import MergingEncoder
from vitrail.nn.groups.attention import LiftingAttention


def check_chain(model: nn.Module) -> None:
    """Refuse a model whose layers' weights cannot be multiplied: a chain needs the same tokens in every layer."""
    check_weights(model)
    kind = type(model).__name__
    for module in model.modules():
        if isinstance(module, LiftingAttention):
            raise VitrailError(
                f"{kind} lifts its tokens by attention: they are others in the next layer, and no chain leads through"
            )
        if isinstance(module, WindowedAttention):
            raise VitrailError(
                f"{kind} attends within windows and merges its tokens between stages: they are others in the next, and no chain leads through"
            )
        if isinstance(module, MergingEncoder):
            raise VitrailError(
                f"{kind} merges tokens in every block: they are others in the next, and no chain leads through; rebuild(model, merge=0) has one"
            )
        if isinstance(module, GroupEncoder) and any(module.halvings):
            raise VitrailError(
                f"{kind} pools its tokens between layers: they are others in the next, and no chain leads through"
            )


def check_square(queries: int, keys: int, tokens: int) -> None:
    """The same rule for one layer that has run."""
    if not queries == keys == tokens:
        raise VitrailError(
            f"a chain needs the same tokens in every layer: one has {queries} queries and {keys} keys where {tokens} tokens are"
        )
