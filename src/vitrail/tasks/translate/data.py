"""Batches of pairs of sentences: each of so many tokens."""

from typing import Any

from vitrail.data.text.batching import PairBatches
from vitrail.data.text.parallel import ParallelData
from vitrail.learn.training.world import World
from vitrail.tasks.translate.options import Options


def pair_loaders(options: Options, data: ParallelData, tokenizer: Any, world: World) -> tuple[PairBatches, PairBatches]:
    """Training pairs, shuffled, and validation pairs; one pair fits into every batch of the latter."""
    tokens, length, dropout = options.batch_tokens, options.max_length, options.merge_dropout
    assert tokens != "auto"
    assert length != "auto"
    assert dropout != "auto"
    shared: dict[str, Any] = {"longest": length, "seed": options.seed, "rank": world.rank, "world": world.size}
    return (
        PairBatches(data["train"], tokenizer, tokens=tokens, shuffle=True, dropout=dropout, **shared),
        PairBatches(data["val"], tokenizer, tokens=max(tokens, length), **shared),
    )
