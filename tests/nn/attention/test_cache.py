"""The buffer that grows, what a memory's cache holds, and rows that are moved."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.attention.cache import Cache, Grown, MemoryCache, is_identity
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.scope import Scope


def test_what_has_grown_is_everything_in_order():
    grown, parts = Grown(), [torch.randn(2, 3, n, 5) for n in (1, 7, 1, 1, 60, 1)]
    for count, part in enumerate(parts):
        assert_close(grown.extend(part), torch.cat(parts[: count + 1], 2))


def test_a_step_copies_no_more_than_its_token_most_of_the_time():
    grown, moves, at = Grown(), 0, None
    for _ in range(1000):
        found = grown.extend(torch.randn(1, 1, 1, 2))
        moves, at = moves + (found.data_ptr() != at), found.data_ptr()
    assert moves <= 6  # 32, then at least twice as much each time
    assert grown.buffer.shape[-2] <= 2 * 1000


def test_an_earlier_answer_is_not_written_over():
    grown = Grown()
    first = grown.extend(torch.ones(1, 1, 3, 2))
    grown.extend(torch.zeros(1, 1, 2, 2))
    assert_close(first, torch.ones(1, 1, 3, 2))


def test_no_gradient_is_kept():
    assert not Grown().extend(torch.randn(1, 2, 3, requires_grad=True)).requires_grad


def test_rows_move_together():
    cache, k = Cache(2), torch.arange(3.0)[:, None, None, None].expand(3, 1, 2, 1)
    for own, held in zip(cache.own, cache.memory, strict=True):
        own.extend(k, 10 * k)
        own.enter(k[:, 0])
        held.extend(k, 10 * k)
    cache.reorder(torch.tensor([2, 0, 0, 1]))
    for own, held in zip(cache.own, cache.memory, strict=True):
        keys, values = own.extend(torch.zeros(4, 1, 1, 1), torch.zeros(4, 1, 1, 1))
        assert keys[:, 0, 0, 0].tolist() == [2, 0, 0, 1]
        assert values[:, 0, :, 0].tolist() == [[20, 20, 0], [0, 0, 0], [0, 0, 0], [10, 10, 0]]
        assert own.enter(torch.zeros(4, 1, 1))[:, 1, 0].tolist() == [2, 0, 0, 1]
        assert held.extend(None, None)[1][:, 0, 1, 0].tolist() == [20, 0, 0, 10]


def test_what_depends_on_weights_alone_is_made_once():
    own, made = Cache(1).own[0], []
    for _ in range(3):
        assert own.once(lambda: made.append(1) or torch.ones(2)).sum() == 2
    assert len(made) == 1


def test_a_memory_may_stay():
    cache = Cache(1)
    cache.memory[0].extend(torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1, 1))
    before = cache.memory[0].held
    cache.reorder(torch.tensor([1, 0]), memory=False)
    assert cache.memory[0].held is before


def test_a_memory_is_projected_once():
    layer, cache, memory = MultiHeadAttention(12, heads=3), MemoryCache(), torch.randn(2, 5, 12)
    calls = []
    for part in (layer.key, layer.value):
        part.register_forward_hook(lambda *_: calls.append(1))
    for _ in range(3):
        x = torch.randn(2, 1, 12)
        found = layer(x, Scope(cache=cache), memory)
        made = len(calls)
        assert_close(found, layer(x, Scope(), memory))
        del calls[made:]
    assert len(calls) == 2


def test_a_step_without_a_new_token_is_refused():
    cache = Cache(1)
    cache.length = 3
    with pytest.raises(VitrailError, match="has seen 3, got 3"):
        cache.unseen(torch.zeros(1, 3, dtype=torch.long))


@pytest.mark.parametrize(
    "rows, count, expected", [([0, 1], 2, True), ([1, 0], 2, False), ([0, 1], 3, False), ([0, 0], 2, False)]
)
def test_identity(rows, count, expected):
    assert is_identity(torch.tensor(rows), count) is expected
