"""Batches for a language model: blocks of the running text.

b blocks, n tokens
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.data.loader import Loader, Samples
from vitrail.data.order import BucketOrder, bucket_by_length
from vitrail.data.text.masking import mask_words
from vitrail.data.text.padding import pad
from vitrail.data.text.plain import LineData
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.language.options import Options


class LineBatch(NamedTuple):
    """Causal: inputs are BEGIN and all tokens but the last, targets the tokens. Masked: the tokens, some of them masked, and at those
    places what they are. Targets are PAD where nothing is asked."""

    inputs: Int[Tensor, "b n"]
    targets: Int[Tensor, "b n"]
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Tokens that are asked for: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.targets != PAD).sum())


class LineSource(Samples[list[int], LineBatch]):
    """A block is `longest` tokens of the lines joined, each with its END; the last one may be shorter."""

    cheap = True

    def __init__(self, lines: Sequence[str], tokenizer: BytePairs, *, masked: bool, longest: int = 128, seed: int = 0) -> None:
        self.masked, self.vocabulary, self.longest, self.seed = masked, len(tokenizer), longest, seed
        self.bytes = sum(len(line.encode("utf-8", errors="replace")) + 1 for line in lines)  # with the line feeds
        stream = list(chain.from_iterable([*tokenizer.encode(line), END] for line in lines))
        self.rows = [stream[start : start + longest] for start in range(0, len(stream), longest)]
        if not self.rows:
            raise VitrailError("not one line of text")

    def sample(self, epoch: int, index: int) -> list[int]:
        return self.rows[index]

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[list[int]]) -> LineBatch:
        """Some of the blocks, as an epoch has them; validation is asked for the same tokens every time."""
        numbers, targets = np.array(indices, dtype=np.int64), pad(samples)
        if not self.masked:
            return LineBatch(pad([[BEGIN, *row[:-1]] for row in samples]), targets, torch.from_numpy(numbers))
        inputs, asked = mask_words(targets.numpy(), vocabulary=self.vocabulary, seed=self.seed, epoch=epoch, indices=numbers)
        return LineBatch(torch.from_numpy(inputs), torch.from_numpy(asked), torch.from_numpy(numbers))


def line_loader(
    lines: Sequence[str], tokenizer: BytePairs, *, masked: bool, tokens: int, shuffle: bool = False, seed: int = 0,
    longest: int = 128, rank: int = 0, world: int = 1,
) -> Loader[LineBatch]:  # fmt: skip
    """Each block once per epoch. A batch has at most `tokens` tokens, and so has a block."""
    source = LineSource(lines, tokenizer, masked=masked, longest=min(longest, tokens), seed=seed)
    lengths = np.array([len(row) for row in source.rows])
    buckets = bucket_by_length(lengths, np.arange(len(lengths)), tokens=tokens, shuffle=shuffle, world=world)
    return Loader(source, BucketOrder(buckets, shuffle=shuffle, seed=seed, rank=rank, world=world))


def block_length(options: Options) -> int:
    """Tokens of a block, in training, validation and test alike: what the model reads, if a batch can hold it."""
    assert options.max_length != "auto"
    assert options.batch_tokens != "auto"
    return min(options.max_length, options.batch_tokens)


def line_loaders(options: Options, data: LineData, tokenizer: Any, world: World) -> tuple[Loader[LineBatch], Loader[LineBatch]]:
    """Blocks of the training text, shuffled, and those of the validation text."""
    shared: dict[str, Any] = {
        "tokens": options.batch_tokens, "longest": block_length(options), "masked": options.masked, "seed": options.seed,
        "rank": world.rank, "world": world.size,
    }  # fmt: skip
    return (
        line_loader(data["train"], tokenizer, shuffle=True, **shared),
        line_loader(data["val"], tokenizer, **shared),
    )
