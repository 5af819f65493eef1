"""Bipartite matching against a plain loop, and what merging keeps: sums, sizes, prefixes, equal tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.nn.functional.merging import match, merge, take, unmerge
from vitrail.tokens import Merge, Places, Tokens


def reference(keys: torch.Tensor, count: int, prefix: int) -> list[tuple[int, int]]:
    """The pairs of one sequence, h n e, that go and where to, as numbers of tokens, by loops."""
    mean = keys.mean(0)
    first, others = range(prefix, len(mean), 2), range(prefix + 1, len(mean), 2)
    found = []
    for i in first:
        cosines = [float(torch.cosine_similarity(mean[i], mean[j], dim=0)) for j in others]
        found.append((max(cosines), i, others[cosines.index(max(cosines))]) if cosines else (-2.0, i, -1))
    found.sort(key=lambda row: -row[0])  # stable: the first of equals first
    return [(i, j) for _, i, j in found[:count]]


sizes_and_prefixes = st.tuples(st.integers(1, 23), st.integers(0, 11), st.integers(0, 3), st.integers(0, 10**6))


@settings(max_examples=60)
@given(sizes_and_prefixes)
def test_matching_and_merging_agree_with_loops(drawn):
    cells, wanted, prefix, seed = drawn
    random, count, n = torch.Generator().manual_seed(seed), min(wanted, cells // 2), cells + prefix
    keys = torch.randn(2, 3, n, 5, generator=random, dtype=torch.float64)
    x = torch.randn(2, n, 7, generator=random, dtype=torch.float64)
    sizes = torch.randint(1, 9, (2, n), generator=random).double()
    step = match(keys, count, prefix=prefix)
    merged, left = merge(x, sizes, step, prefix=prefix)
    assert merged.shape == (2, n - count, 7)
    assert_close(left.sum(1), sizes.sum(1))  # sizes sum to the number of tokens, always
    assert_close((merged * left[..., None]).sum(1), (x * sizes[..., None]).sum(1))  # and so does what they stand for
    assert_close(merged[:, :prefix], x[:, :prefix])
    place = step.places(cells)
    for one in range(2):
        pairs = reference(keys[one], count, prefix)
        assert [
            (prefix + 2 * i, prefix + 1 + 2 * j) for i, j in zip(step.gone[one].tolist(), step.into[one].tolist(), strict=True)
        ] == pairs
        groups: dict[int, list[int]] = {}
        going = dict(pairs)
        for token in range(n):
            groups.setdefault(going.get(token, token), []).append(token)
        for members in groups.values():
            weight = sizes[one, members]
            mean = (x[one, members] * weight[:, None]).sum(0) / weight.sum()
            now = members[0] if members[0] < prefix else prefix + int(place[one, members[0] - prefix])
            assert_close(merged[one, now], mean)
            assert_close(left[one, now], weight.sum())
            assert all(member < prefix or int(place[one, member - prefix]) == now - prefix for member in members)


def test_unmerging_merged_equal_tokens_is_the_identity():
    x = torch.randn(3, 3, 5).repeat_interleave(4, dim=1)  # four of a kind, side by side
    tokens = Tokens(x, grid=(3, 4))
    merges, sizes, now = (), torch.ones(3, 12), x
    for count in (6, 3):
        step = match(now[:, None], count)
        now, sizes = merge(now, sizes, step)
        merges = (*merges, step)
    assert sizes.tolist() == [[4.0, 4.0, 4.0]] * 3
    assert_close(unmerge(tokens._replace(x=now, sizes=sizes, merges=merges)).x, x)
    assert unmerge(tokens) is tokens


def test_equal_tokens_go_in_their_order():
    step = match(torch.ones(1, 2, 9, 4), 3, prefix=1)
    assert step.gone.tolist() == [[0, 1, 2]]
    assert step.into.tolist() == [[0, 0, 0]]
    assert step.kept.tolist() == [[3]]


def test_an_image_is_merged_whatever_its_neighbors_are():
    keys, x = torch.randn(4, 2, 13, 5), torch.randn(4, 13, 6)
    together, _ = merge(x, torch.ones(4, 13), match(keys, 4, prefix=1), prefix=1)
    alone, _ = merge(x[2:3], torch.ones(1, 13), match(keys[2:3], 4, prefix=1), prefix=1)
    assert_close(together[2:3], alone)


def test_gradients_flow_through_the_means_alone():
    keys, x = torch.randn(1, 1, 6, 4, requires_grad=True), torch.randn(1, 6, 3, requires_grad=True)
    step = match(keys, 2)
    merged, sizes = merge(x, torch.ones(1, 6), step)
    (merged * sizes[..., None]).sum().backward()
    assert_close(x.grad, torch.ones_like(x))
    assert keys.grad is None


def test_a_source_follows_every_step():
    steps = (
        Merge(kept=torch.tensor([[1, 2]]), gone=torch.tensor([[0]]), into=torch.tensor([[1]])),  # 0 into 3: 2 4 | 1 3 5
        Merge(kept=torch.tensor([[0, 1]]), gone=torch.tensor([[2]]), into=torch.tensor([[0]])),  # 5 into 4: 2 1 | 4 3
    )
    assert Places((6,), merges=steps).source().tolist() == [[3, 1, 0, 3, 2, 2]]
    with pytest.raises(ValueError, match="nothing was merged"):
        Places((6,)).source()


def test_no_more_than_half_can_go():
    with pytest.raises(ValueError, match="from 0 to 3 can be merged, got 4"):
        match(torch.randn(1, 1, 8, 2), 4, prefix=1)


def test_take_is_gather():
    x, index = torch.randn(3, 7, 2), torch.tensor([[6, 0], [1, 1], [2, 5]])
    assert_close(take(x, index), x.gather(1, index[..., None].expand(-1, -1, 2)))
