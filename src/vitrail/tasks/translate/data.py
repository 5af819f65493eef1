"""Batches of pairs of sentences: each of so many tokens.

b pairs, m tokens of the longest source, t tokens of the longest target
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.byte_pairs import BytePairs
from vitrail.data.loader import Loader, Read, Samples
from vitrail.data.order import Bucket, BucketOrder, bucket_by_length, check_buckets, fixed_bucket
from vitrail.data.text.dropout import Dropout
from vitrail.data.text.padding import cut, pad
from vitrail.data.text.parallel import Pairs, ParallelData
from vitrail.data.text.skipped import Skipped
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.translate.options import Options

Pair = tuple[list[int], list[int]]  # token ids of source and target, each with its END


class PairBatch(NamedTuple):
    """What a task that translates reads; `indices` are the pairs' numbers in their split."""

    source: Int[Tensor, "b m"]  # tokens END
    target: Int[Tensor, "b t"]  # BEGIN tokens END
    indices: Int[Tensor, "b"]

    @property
    def weight(self) -> int:
        """Tokens to be predicted: what a loss is the mean over, and a part of a batch counts by."""
        return int((self.target[:, 1:] != PAD).sum())


class PairSource(Samples[Pair, PairBatch]):
    """Sentence pairs. To train with (`skip`), those of which a side has more than `longest` tokens, its END counted, are not among the
    `members`; elsewhere they are cut there, for a test that leaves out what is difficult is none. Either is counted.

    With `dropout` merges are left out at random  [Provilkov+ 2020], but `lengths` are those without. With `alike` every batch is padded
    to the longest of all.
    """

    cheap = True

    def __init__(
        self,
        pairs: Pairs,
        tokenizer: BytePairs,
        *,
        longest: int = 256,
        skip: bool = False,
        alike: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.pairs, self.longest, self.skipped = pairs, longest, Skipped()
        self.sources = [[*tokenizer.encode(text), END] for text in pairs.sources]
        self.targets = [[*tokenizer.encode(text), END] for text in pairs.targets]
        lengths = np.array([[len(s), len(t)] for s, t in zip(self.sources, self.targets, strict=True)]).reshape(-1, 2)
        over = (lengths > longest).any(axis=1)
        self.skipped.add(f"longer than {longest} tokens" if skip else f"cut at {longest} tokens", int(over.sum()))
        if not skip:
            for number in np.flatnonzero(over).tolist():
                self.sources[number], self.targets[number] = (
                    cut(ids, longest) for ids in (self.sources[number], self.targets[number])
                )
            lengths, over = lengths.clip(max=longest), np.zeros_like(over)
        self.lengths, self.members = lengths.max(axis=1), np.flatnonzero(~over)
        if not len(self.members):
            raise VitrailError(f"not one of {len(pairs)} pairs has at most {longest} tokens on each side")
        self.size = int(lengths[self.members].max()) if alike else None  # of each row, where all are alike
        self.dropout = Dropout(tokenizer, dropout, seed=seed) if dropout else None
        self.words = [
            [tokenizer.normalize(text).split() for text in texts] for texts in (pairs.sources, pairs.targets) if self.dropout
        ]

    def sample(self, epoch: int, index: int) -> Pair:
        return self.samples(epoch, [index]).samples[0]

    def samples(self, epoch: int, indices: Sequence[int]) -> Read[Pair]:
        """The merges of all are drawn at once."""
        sources, targets = [self.sources[index] for index in indices], [self.targets[index] for index in indices]
        if self.dropout is not None:
            numbers = np.array(indices, dtype=np.int64)
            sources, targets = (self.varied(side, plain, numbers, epoch) for side, plain in enumerate((sources, targets)))
        return Read(indices, list(zip(sources, targets, strict=True)))

    def varied(self, side: int, plain: list[list[int]], indices: Int[np.ndarray, "b"], epoch: int) -> list[list[int]]:
        """One side's sentences with some merges left out; as they are where that would make them too long."""
        assert self.dropout is not None
        words = [self.words[side][index] for index in indices.tolist()]
        found = self.dropout.encode(words, epoch=epoch, indices=2 * indices + side)
        limit = self.size or self.longest
        return [[*ids, END] if len(ids) < limit else usual for ids, usual in zip(found, plain, strict=True)]

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Pair]) -> PairBatch:
        size = self.size
        return PairBatch(
            pad([source for source, _ in samples], size),
            pad([[BEGIN, *target] for _, target in samples], size and size + 1),
            torch.tensor(indices, dtype=torch.int64),
        )


def pair_loader(
    pairs: Pairs, tokenizer: BytePairs, *, tokens: int | None = None, sentences: int | None = None, shuffle: bool = False,
    seed: int = 0, longest: int = 256, dropout: float = 0.0, rank: int = 0, world: int = 1,
) -> Loader[PairBatch]:  # fmt: skip
    """Passes over sentence pairs. A batch has at most `tokens` tokens on either side, padding included; or, for `sentences`
    instead, the same shape every time: so many pairs, padded to the longest of all. With `dropout` batches are made by the lengths
    without, and are some longer than `tokens`: at a rate of 0.1 by 30 %."""
    if (tokens is None) == (sentences is None):
        raise VitrailError(f"a batch is so many tokens or so many sentences: got tokens {tokens}, sentences {sentences}")
    if shuffle and tokens is not None:
        longest = min(longest, tokens)
    source = PairSource(
        pairs, tokenizer, longest=longest, skip=shuffle, alike=sentences is not None, dropout=dropout, seed=seed
    )
    buckets: list[Bucket]
    if tokens is not None:
        buckets = bucket_by_length(source.lengths, source.members, tokens=tokens, shuffle=shuffle, world=world)
    else:
        assert sentences is not None
        buckets = [fixed_bucket(source.members, sentences, full=shuffle)]
        if shuffle:
            check_buckets(buckets, world)
    return Loader(source, BucketOrder(buckets, shuffle=shuffle, seed=seed, rank=rank, world=world))


def pair_loaders(
    options: Options, data: ParallelData, tokenizer: Any, world: World
) -> tuple[Loader[PairBatch], Loader[PairBatch]]:
    """Training pairs, shuffled, and validation pairs; one pair fits into every batch of the latter."""
    tokens, length, dropout = options.batch_tokens, options.max_length, options.merge_dropout
    assert tokens != "auto"
    assert length != "auto"
    assert dropout != "auto"
    shared: dict[str, Any] = {"longest": length, "seed": options.seed, "rank": world.rank, "world": world.size}
    return (
        pair_loader(data["train"], tokenizer, tokens=tokens, shuffle=True, dropout=dropout, **shared),
        pair_loader(data["val"], tokenizer, tokens=max(tokens, length), **shared),
    )
