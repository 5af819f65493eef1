"""Blocks of text: all of it once, masked by (seed, epoch, index)."""

import numpy as np
import pytest
import torch

from vitrail.byte_pairs import BytePairs
from vitrail.data.text.masking import mask_words
from vitrail.data.text.toys import WORDS, make_toy
from vitrail.errors import VitrailError
from vitrail.special_tokens import BEGIN, END, MASK, PAD
from vitrail.tasks.language.data import LineBatch, line_loader

TOKENIZER = BytePairs.train([" ".join(WORDS)] * 3, 120)
LINES = make_toy("reverse", "train", count=211, shortest=1, longest=13)[0]


def same(first, second) -> bool:
    first, second = list(first), list(second)
    return len(first) == len(second) and all(
        all(torch.equal(a, b) for a, b in zip(x, y, strict=True)) for x, y in zip(first, second, strict=True)
    )


def test_blocks_are_the_running_text_and_causal_inputs_are_one_behind():
    loader = line_loader(LINES, TOKENIZER, masked=False, tokens=44, longest=11)
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
    loader = line_loader(LINES, TOKENIZER, masked=False, tokens=20, shuffle=True, longest=12)
    assert all(batch.targets.numel() <= 20 for batch in loader.batches(1))
    assert line_loader(LINES, TOKENIZER, masked=False, tokens=20, longest=90).source.longest == 20
    assert len(loader) == len(list(loader.batches(7)))
    assert loader.source.bytes == len("\n".join(LINES)) + 1
    with pytest.raises(VitrailError, match="not one line of text"):
        line_loader([], TOKENIZER, masked=False, tokens=20)


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
    loader = line_loader(LINES, TOKENIZER, masked=True, tokens=100, shuffle=True, longest=12)
    assert same(loader.batches(3, 2), list(loader.batches(3))[2:])
    assert all((batch.targets == PAD).any() and (batch.targets != PAD).any() for batch in loader.batches())


def test_a_batch_weighs_as_many_tokens_as_it_asks_for():
    targets = torch.tensor([[PAD, 9, PAD, PAD], [7, END, PAD, PAD]])
    assert LineBatch(torch.zeros(2, 4, dtype=torch.int64), targets, torch.arange(2)).weight == 3
