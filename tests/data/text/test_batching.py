"""Batches of sentences: every one once, no batch too large, the same whoever asks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.byte_pairs import BytePairs
from vitrail.data.caption_batches import CaptionBatch
from vitrail.data.text.batching import PairBatch, PairBatches
from vitrail.data.text.buckets import choose_buckets, deal_all, make_buckets
from vitrail.data.text.line_batches import LineBatch, LineBatches
from vitrail.data.text.masking import mask_words
from vitrail.data.text.parallel import Pairs
from vitrail.data.text.toys import WORDS, make_toy
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Batches
from vitrail.special_tokens import BEGIN, END, MASK, PAD

TOKENIZER = BytePairs.train([" ".join(WORDS)] * 3, 120)
PAIRS = Pairs(*make_toy("reverse", "train", count=211, shortest=1, longest=13))


def make(pairs: Pairs = PAIRS, **how) -> PairBatches:
    return PairBatches(
        pairs, TOKENIZER, **{"shuffle": True, "seed": 3, **({} if "sentences" in how else {"tokens": 120}), **how}
    )


def texts(ids: torch.Tensor) -> list[str]:
    return [TOKENIZER.decode(row) for row in ids.tolist()]


@settings(max_examples=50)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(60, 400), st.integers(1, 5))
def test_buckets_hold_everything_once_and_no_batch_is_too_large(lengths, tokens, batches):
    numbers = np.array(lengths)
    buckets = make_buckets(numbers, tokens, batches=batches)
    epochs = [deal_all(buckets, shuffle=True, seed=1, epoch=epoch) for epoch in range(3)]
    for dealt in epochs:
        assert sorted(np.concatenate(dealt).tolist()) == list(range(len(lengths)))
        assert all(len(batch) and len(batch) * numbers[batch].max() <= tokens for batch in dealt)
        assert len(dealt) == sum(bucket.count for bucket in buckets)


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
    assert str(loader.skipped) == f"{over} left out: {over} longer than 9 tokens"
    assert sorted(i for b in loader.batches() for i in b.indices.tolist()) == [i for i in range(211) if lengths[i] <= 9]
    loader = make(longest=9, shuffle=False)
    found = list(loader.batches())
    assert sorted(i for b in found for i in b.indices.tolist()) == list(range(211))
    assert loader.skipped.counts == {"cut at 9 tokens": over}
    assert all(b.source.shape[1] <= 9 and b.target.shape[1] <= 10 and ((b.source == END).sum(1) == 1).all() for b in found)
    with pytest.raises(VitrailError, match="not one of 211 pairs has at most 1 tokens"):
        make(longest=1)
    assert make(tokens=9).skipped.total == over  # a batch could not hold them


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
    usual = max(len(ids) for ids in plain.targets)
    assert max(b.target.shape[1] for b in make(longest=usual, dropout=0.3).batches()) <= usual + 1


def test_every_choice_of_buckets_keeps_to_what_is_kept():
    buckets = choose_buckets(np.array([9, 4, 5, 90]), np.array([0, 1, 2]), tokens=10, sentences=None, shuffle=True, world=1)
    assert sorted(np.concatenate([bucket.members for bucket in buckets]).tolist()) == [0, 1, 2]


LINES = PAIRS.sources


def test_blocks_are_the_running_text_and_causal_inputs_are_one_behind():
    loader = LineBatches(LINES, TOKENIZER, masked=False, tokens=44, longest=11)
    stream = [number for line in LINES for number in [*TOKENIZER.encode(line), END]]
    rows = {int(i): (x, y) for batch in loader.batches() for x, y, i in zip(*batch, strict=True)}
    assert [int(word) for i in sorted(rows) for word in rows[i][1] if word != PAD] == stream
    for inputs, targets in rows.values():
        assert inputs[0] == BEGIN
        assert (
            inputs[1:].tolist()[: int((targets != PAD).sum()) - 1] == targets[:-1].tolist()[: int((targets != PAD).sum()) - 1]
        )
        assert ((inputs != PAD) == (targets != PAD)).all()


def test_a_block_is_no_longer_than_a_batch():
    loader = LineBatches(LINES, TOKENIZER, masked=False, tokens=20, shuffle=True, longest=12)
    assert all(batch.targets.numel() <= 20 for batch in loader.batches(1))
    assert LineBatches(LINES, TOKENIZER, masked=False, tokens=20, longest=90).longest == 20
    assert len(loader) == len(list(loader.batches(7)))
    assert loader.bytes == len("\n".join(LINES)) + 1
    with pytest.raises(VitrailError, match="not one line of text"):
        LineBatches([], TOKENIZER, masked=False, tokens=20)


def test_a_batch_weighs_as_many_words_as_it_asks_for():
    batch = PairBatch(torch.tensor([[7, END]]), torch.tensor([[BEGIN, 8, 9, END], [BEGIN, END, PAD, PAD]]), torch.arange(2))
    assert batch.weight == 4
    assert CaptionBatch(torch.zeros(2, 1, 1, 1), batch.target, torch.arange(2)).weight == 4
    assert LineBatch(batch.target, torch.tensor([[PAD, 9, PAD, PAD], [7, END, PAD, PAD]]), torch.arange(2)).weight == 3


def test_masking_by_the_numbers():
    ids = np.full((400, 50), 7)
    ids[:, 40:], ids[:, 39], ids[0] = PAD, END, PAD
    ids[1, 1:] = END  # a single word
    inputs, targets = mask_words(ids, vocabulary=90, seed=0, epoch=0, indices=np.arange(400))
    asked = targets != PAD
    assert (targets[asked] == ids[asked]).all()
    assert (inputs[~asked] == ids[~asked]).all()
    assert not asked[0].any()
    assert asked[1].tolist() == [True] + 49 * [False]
    assert asked.any(axis=1)[1:].all()
    assert not asked[:, 39:].any()
    share = asked.sum() / (ids == 7).sum()
    assert 0.14 < share < 0.17  # a little over 0.15: one word at least
    hidden, same = (inputs[asked] == MASK).mean(), (inputs[asked] == 7).mean()
    assert 0.77 < hidden < 0.83
    assert 0.08 < same < 0.13
    others = inputs[asked & (inputs != MASK) & (inputs != 7)]
    assert others.min() >= 5
    assert others.max() < 90


def test_masks_follow_the_index_and_the_epoch_not_the_batch():
    ids = np.full((6, 30), 7)
    whole = mask_words(ids, vocabulary=90, seed=0, epoch=1, indices=np.arange(6))
    part = mask_words(ids[2:3, :20], vocabulary=90, seed=0, epoch=1, indices=np.array([2]))
    assert (whole[0][2, :20] == part[0][0]).all()
    assert (mask_words(ids, vocabulary=90, seed=0, epoch=2, indices=np.arange(6))[1] != whole[1]).any()
    loader = LineBatches(LINES, TOKENIZER, masked=True, tokens=100, shuffle=True, longest=12)
    assert same(loader.batches(3, 2), list(loader.batches(3))[2:])
    assert all((batch.targets == PAD).any() and (batch.targets != PAD).any() for batch in loader.batches())
