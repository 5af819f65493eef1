"""Batches for a language model: blocks of the running text."""

from typing import Any

from vitrail.data.text.line_batches import LineBatches
from vitrail.data.text.plain import LineData
from vitrail.learn.training.world import World
from vitrail.tasks.language.options import Options


def block_length(options: Options) -> int:
    """Tokens of a block, in training, validation and test alike: what the model reads, if a batch can hold it."""
    assert options.max_length != "auto"
    assert options.batch_tokens != "auto"
    return min(options.max_length, options.batch_tokens)


def line_loaders(options: Options, data: LineData, tokenizer: Any, world: World) -> tuple[LineBatches, LineBatches]:
    """Blocks of the training text, shuffled, and those of the validation text."""
    shared: dict[str, Any] = {
        "tokens": options.batch_tokens, "longest": block_length(options), "masked": options.masked, "seed": options.seed,
        "rank": world.rank, "world": world.size,
    }  # fmt: skip
    return (
        LineBatches(data["train"], tokenizer, shuffle=True, **shared),
        LineBatches(data["val"], tokenizer, **shared),
    )
