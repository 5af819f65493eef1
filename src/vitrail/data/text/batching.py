"""Batches of sentence pairs in an order that depends on (seed, epoch) only, from any point on.

b pairs, m tokens of the longest source, t tokens of the longest target
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.data.text.buckets import choose_buckets, deal_all
from vitrail.data.text.dropout import Dropout
from vitrail.data.text.parallel import Pairs
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError
from vitrail.special_tokens import BEGIN, END, PAD


class PairBatch(NamedTuple):
    """What a task that translates reads; `indices` are the pairs' numbers in their split."""

    source: Int[Tensor, "b m"]  # words END
    target: Int[Tensor, "b t"]  # BEGIN words END
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Words to be predicted: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.target[:, 1:] != PAD).sum())


class PairBatches:
    """Passes over sentence pairs. A batch has at most `tokens` tokens on either side, padding included; or, for `sentences`
    instead, the same shape every time: so many pairs, padded to the longest of all.

    Training (`shuffle`) skips a pair of which a side has more than `longest` tokens, its END counted; elsewhere it is cut there,
    for a test that leaves out what is difficult is none. Either is counted. With `dropout` merges are left out at random
    [Provilkov+ 2020]; batches are then made by the lengths without, and are some longer than `tokens`: at a rate of 0.1 by 30 %.

    Of every batch process `rank` of `world` takes its share, so that all together take the same steps as one would.
    """

    def __init__(
        self,
        pairs: Pairs,
        tokenizer: BytePairs,
        *,
        tokens: int | None = None,
        sentences: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        longest: int = 256,
        dropout: float = 0.0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not 0 <= rank < world:
            raise VitrailError(f"rank must be from 0 to world - 1, got rank {rank} of {world}")
        if shuffle and tokens is not None:
            longest = min(longest, tokens)
        self.pairs, self.tokenizer, self.longest = pairs, tokenizer, longest
        self.shuffle, self.seed, self.rank, self.world = shuffle, seed, rank, world
        self.skipped = Skipped()
        self.sources = [[*tokenizer.encode(text), END] for text in pairs.sources]
        self.targets = [[*tokenizer.encode(text), END] for text in pairs.targets]
        lengths = np.array([[len(s), len(t)] for s, t in zip(self.sources, self.targets, strict=True)]).reshape(-1, 2)
        over = (lengths > longest).any(axis=1)
        self.skipped.add(f"longer than {longest} tokens" if shuffle else f"cut at {longest} tokens", int(over.sum()))
        if not shuffle:
            for number in np.flatnonzero(over).tolist():
                self.sources[number], self.targets[number] = (
                    cut(ids, longest) for ids in (self.sources[number], self.targets[number])
                )
            lengths, over = lengths.clip(max=longest), np.zeros_like(over)
        kept = np.flatnonzero(~over)
        if not len(kept):
            raise VitrailError(f"not one of {len(pairs)} pairs has at most {longest} tokens on each side")
        self.size = int(lengths[kept].max()) if sentences is not None else None  # of each row, where all are alike
        self.buckets = choose_buckets(
            lengths.max(axis=1), kept, tokens=tokens, sentences=sentences, shuffle=shuffle, world=world
        )
        self.dropout = Dropout(tokenizer, dropout, seed=seed) if dropout else None
        self.words = [
            [tokenizer.normalize(text).split() for text in texts] for texts in (pairs.sources, pairs.targets) if self.dropout
        ]

    def __len__(self) -> int:
        """Batches an epoch, whichever it is."""
        return sum(bucket.count for bucket in self.buckets)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[PairBatch]:
        for whole in deal_all(self.buckets, shuffle=self.shuffle, seed=self.seed, epoch=epoch)[start:]:
            share = whole[self.rank :: self.world]
            if len(share):
                yield self.read(share, epoch)

    def read(self, indices: Int[np.ndarray, "b"], epoch: int) -> PairBatch:
        """Some of the pairs, as an epoch has them."""
        sources, targets = [self.sources[i] for i in indices.tolist()], [self.targets[i] for i in indices.tolist()]
        if self.dropout is not None:
            sources, targets = (self.varied(side, plain, indices, epoch) for side, plain in enumerate((sources, targets)))
        size = self.size
        return PairBatch(
            pad(sources, size),
            pad([[BEGIN, *ids] for ids in targets], size and size + 1),
            torch.from_numpy(indices.astype(np.int64)),
        )

    def varied(self, side: int, plain: list[list[int]], indices: Int[np.ndarray, "b"], epoch: int) -> list[list[int]]:
        """One side's sentences with some merges left out; as they are where that would make them too long."""
        assert self.dropout is not None
        words = [self.words[side][i] for i in indices.tolist()]
        found = self.dropout.encode(words, epoch=epoch, indices=2 * indices + side)
        limit = self.size or self.longest
        return [[*ids, END] if len(ids) < limit else usual for ids, usual in zip(found, plain, strict=True)]


def cut(ids: list[int], longest: int) -> list[int]:
    """At most `longest` tokens, of which the last is END."""
    return ids if len(ids) <= longest else [*ids[: longest - 1], END]


def pad(rows: Sequence[Sequence[int]], size: int | None = None) -> Int[Tensor, "b m"]:
    """Rows of one length, `size` or that of the longest, with PAD at the end."""
    padded = np.full((len(rows), size or max(map(len, rows))), PAD, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
