"""Batches for language models: a running text in blocks.

b sequences, n tokens
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.data.text.batching import pad
from vitrail.data.text.buckets import choose_buckets, deal_all
from vitrail.data.text.masking import mask_words
from vitrail.errors import VitrailError
from vitrail.special_tokens import BEGIN, END, PAD


class LineBatch(NamedTuple):
    """Causal: inputs are BEGIN and all words but the last, targets the words. Masked: the words, some of them hidden, and at those
    places what they are. Targets are PAD where nothing is asked."""

    inputs: Int[Tensor, "b n"]
    targets: Int[Tensor, "b n"]
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Words that are asked for: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.targets != PAD).sum())


class LineBatches:
    """Passes over text, as `PairBatches` over pairs. A sequence is `longest` tokens of the lines joined, each with its END; the last
    one may be shorter. A batch has at most `tokens` tokens."""

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: BytePairs,
        *,
        masked: bool,
        tokens: int,
        shuffle: bool = False,
        seed: int = 0,
        longest: int = 128,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        longest = min(longest, tokens)
        self.masked, self.vocabulary, self.longest = masked, len(tokenizer), longest
        self.shuffle, self.seed, self.rank, self.world = shuffle, seed, rank, world
        self.bytes = sum(len(line.encode("utf-8", errors="replace")) + 1 for line in lines)  # with the line feeds
        stream = list(chain.from_iterable([*tokenizer.encode(line), END] for line in lines))
        self.rows = [stream[start : start + longest] for start in range(0, len(stream), longest)]
        if not self.rows:
            raise VitrailError("not one line of text")
        lengths = np.array([len(row) for row in self.rows])
        self.buckets = choose_buckets(
            lengths, np.arange(len(lengths)), tokens=tokens, sentences=None, shuffle=shuffle, world=world
        )

    def __len__(self) -> int:
        """Batches an epoch, whichever it is."""
        return sum(bucket.count for bucket in self.buckets)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[LineBatch]:
        for whole in deal_all(self.buckets, shuffle=self.shuffle, seed=self.seed, epoch=epoch)[start:]:
            share = whole[self.rank :: self.world]
            if len(share):
                yield self.read(share, epoch)

    def read(self, indices: Int[np.ndarray, "b"], epoch: int) -> LineBatch:
        """Some of the sequences, as an epoch has them; validation is asked for the same words every time."""
        rows = [self.rows[index] for index in indices.tolist()]
        numbers, targets = torch.from_numpy(indices.astype(np.int64)), pad(rows)
        if not self.masked:
            return LineBatch(pad([[BEGIN, *row[:-1]] for row in rows]), targets, numbers)
        inputs, asked = mask_words(targets.numpy(), vocabulary=self.vocabulary, seed=self.seed, epoch=epoch, indices=indices)
        return LineBatch(torch.from_numpy(inputs), torch.from_numpy(asked), numbers)
