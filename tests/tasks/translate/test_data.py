"""Batches of pairs: every one once, no batch too large, the same whoever asks."""

import pytest
import torch

from vitrail.byte_pairs import BytePairs
from vitrail.data.loader import Loader
from vitrail.data.text.parallel import Pairs
from vitrail.data.text.toys import WORDS, make_toy
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Batches
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.translate.data import PairBatch, pair_loader

TOKENIZER = BytePairs.train([" ".join(WORDS)] * 3, 120)
PAIRS = Pairs(*make_toy("reverse", "train", count=211, shortest=1, longest=13))


def make(pairs: Pairs = PAIRS, **how) -> Loader:
    return pair_loader(
        pairs, TOKENIZER, **{"shuffle": True, "seed": 3, **({} if "sentences" in how else {"tokens": 120}), **how}
    )


def texts(ids: torch.Tensor) -> list[str]:
    return [TOKENIZER.decode(row) for row in ids.tolist()]


def test_it_is_what_the_loop_asks_for_and_pairs_stay_pairs():
    loader = make()
    assert isinstance(loader, Batches)
    seen = []
    for batch in loader.batches(0):
        assert batch.source.dtype == batch.target.dtype == torch.int64
        assert batch.source.numel() <= 120
        assert (batch.target[:, 0] == BEGIN).all()
        assert ((batch.source == END).sum(1) == 1).all()
        assert ((batch.target == END).sum(1) == 1).all()
        assert batch.target.shape[1] - 1 == (batch.target != PAD).sum(1).max() - 1  # no more padding than needed
        assert texts(batch.source) == [PAIRS.sources[i] for i in batch.indices]
        assert texts(batch.target[:, 1:]) == [PAIRS.targets[i] for i in batch.indices]
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(211))
    assert len(loader) == len(list(loader.batches(5)))


def same(first, second) -> bool:
    first, second = list(first), list(second)
    return len(first) == len(second) and all(
        all(torch.equal(a, b) for a, b in zip(x, y, strict=True)) for x, y in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("how", [{}, {"sentences": 16}, {"dropout": 0.2}])
def test_the_order_is_a_function_of_seed_and_epoch_and_any_batch_is_a_beginning(how):
    loader = make(**how)
    assert same(loader.batches(2, 4), list(loader.batches(2))[4:])
    assert same(loader.batches(2), make(**how).batches(2))
    assert not same(loader.batches(2), loader.batches(3))
    assert not same(loader.batches(2), make(seed=4, **how).batches(2))
    composition = [{frozenset(batch.indices.tolist()) for batch in loader.batches(epoch)} for epoch in range(2)]
    assert not composition[0] & composition[1]  # others meet, not only in another order


def test_processes_share_every_batch():
    parts = [list(make(rank=rank, world=3).batches(1)) for rank in range(3)]
    whole = list(make().batches(1))
    assert {len(part) for part in parts} == {len(whole)}
    for number, batch in enumerate(whole):
        assert sorted(i for part in parts for i in part[number].indices.tolist()) == sorted(batch.indices.tolist())
        sizes = [len(part[number].indices) for part in parts]
        assert max(sizes) - min(sizes) <= 1
    with pytest.raises(VitrailError, match="cannot be shared among 90 processes"):
        make(world=90)
    with pytest.raises(VitrailError, match="got rank 3 of 3"):
        make(rank=3, world=3)


def test_long_pairs_are_skipped_in_training_and_cut_elsewhere():
    lengths = [
        max(len(TOKENIZER.encode(s)), len(TOKENIZER.encode(t))) + 1 for s, t in zip(PAIRS.sources, PAIRS.targets, strict=True)
    ]
    over = sum(length > 9 for length in lengths)
    assert 0 < over < 211
    loader = make(longest=9)
    assert str(loader.source.skipped) == f"{over} left out: {over} longer than 9 tokens"
    assert sorted(i for b in loader.batches() for i in b.indices.tolist()) == [i for i in range(211) if lengths[i] <= 9]
    loader = make(longest=9, shuffle=False)
    found = list(loader.batches())
    assert sorted(i for b in found for i in b.indices.tolist()) == list(range(211))
    assert loader.source.skipped.counts == {"cut at 9 tokens": over}
    assert all(b.source.shape[1] <= 9 and b.target.shape[1] <= 10 and ((b.source == END).sum(1) == 1).all() for b in found)
    with pytest.raises(VitrailError, match="not one of 211 pairs has at most 1 tokens"):
        make(longest=1)
    assert make(tokens=9).source.skipped.total == over  # a batch could not hold them


def test_a_fixed_number_of_sentences_is_a_fixed_shape():
    found = list(make(sentences=32).batches())
    assert len(found) == len(make(sentences=32)) == 6  # 211 // 32
    assert len({(b.source.shape, b.target.shape) for b in found}) == 1
    assert found[0].source.shape[0] == 32
    every = [i for b in make(sentences=32, shuffle=False).batches() for i in b.indices.tolist()]
    assert every == list(range(211))
    with pytest.raises(VitrailError, match="so many tokens or so many sentences"):
        make(sentences=32, tokens=9)
    with pytest.raises(VitrailError, match="at least one sentence, got 0"):
        make(sentences=0)


def test_dropout_keeps_the_text_and_the_limit():
    plain, loader = make(longest=30), make(longest=30, dropout=0.3)
    assert len(plain) == len(loader)
    longer = 0
    for before, after in zip(plain.batches(1), loader.batches(1), strict=True):
        assert torch.equal(before.indices, after.indices)
        assert texts(after.source) == texts(before.source)
        assert texts(after.target[:, 1:]) == texts(before.target[:, 1:])
        assert after.source.shape[1] <= 30
        assert after.target.shape[1] <= 31
        longer += (after.source != PAD).sum() > (before.source != PAD).sum()
    assert longer > len(plain) / 2
    usual = max(len(ids) for ids in plain.source.targets)
    assert max(b.target.shape[1] for b in make(longest=usual, dropout=0.3).batches()) <= usual + 1


def test_a_batch_weighs_as_many_words_as_it_asks_for():
    batch = PairBatch(torch.tensor([[7, END]]), torch.tensor([[BEGIN, 8, 9, END], [BEGIN, END, PAD, PAD]]), torch.arange(2))
    assert batch.weight == 4
