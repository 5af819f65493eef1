import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.models.decoding import beam_search, greedy
from vitrail.models.decoding.largest import first_largest, largest
from vitrail.special_tokens import BEGIN, END, MASK, PAD

A, B, C = 5, 6, 7
ONE = torch.tensor([0])


def tokens(row: torch.Tensor) -> list[int]:
    return [token for token in row.tolist() if token != PAD]


def test_finds_the_best_sequence_that_greedy_misses(make_chain):
    chain = make_chain({BEGIN: {A: 0.6, B: 0.4}, A: {END: 0.4, B: 0.3, C: 0.3}, B: {END: 0.9, A: 0.1}, C: {END: 1.0}})
    assert greedy(chain, ONE, longest=4).tolist() == [[A, END]]  # 0.6 x 0.4 = 0.24
    found = beam_search(chain, ONE, beams=2, longest=4, length_penalty=0.0)
    assert tokens(found.ids[0]) == [B, END]  # 0.4 x 0.9 = 0.36
    assert_close(found.scores, torch.tensor([math.log(0.36)]))
    assert [tokens(row) for row in found.hypotheses[0]] == [[B, END], [A, END]]
    assert_close(found.hypothesis_scores, torch.tensor([[math.log(0.36), math.log(0.24)]]))


def test_length_normalization_changes_the_winner(make_chain):
    chain = make_chain({BEGIN: {A: 0.5, B: 0.5}, A: {END: 0.6, A: 0.4}, B: {C: 0.8, END: 0.2}, C: {END: 0.7, A: 0.3}})
    plain = beam_search(chain, ONE, beams=3, longest=6, length_penalty=0.0)
    mean = beam_search(chain, ONE, beams=3, longest=6, length_penalty=1.0)
    assert tokens(plain.ids[0]) == [A, END]  # log 0.5 x 0.6 = -1.20 against log 0.5 x 0.8 x 0.7 = -1.27
    assert tokens(mean.ids[0]) == [B, C, END]  # -1.20 / 2 = -0.60 against -1.27 / 3 = -0.42
    assert_close(plain.scores, torch.tensor([math.log(0.30)]))
    assert_close(mean.scores, torch.tensor([math.log(0.28) / 3]))


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), longest=st.integers(1, 3), penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]))
def test_with_room_for_everything_it_is_exhaustive_search(random_chain, seed, longest, penalty):
    chain = random_chain(seed, words=2)
    expected = sorted(((score / len(y) ** penalty, y) for y, score in chain.sequences(0, [5, 6], longest)), reverse=True)
    found = beam_search(chain, ONE, beams=17, longest=longest, length_penalty=penalty)  # 15 sequences at most
    count = len(expected)
    assert [tokens(row) for row in found.hypotheses[0, :count]] == [y for _, y in expected]
    assert_close(found.hypothesis_scores[0, :count], torch.tensor([score for score, _ in expected]))
    assert found.hypothesis_scores[0, count:].isneginf().all()
    assert (found.hypotheses[0, count:] == PAD).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), longest=st.integers(1, 9), penalty=st.sampled_from([0.0, 1.0, 3.0]))
def test_a_beam_of_one_is_greedy(random_chain, seed, longest, penalty):
    chain, source = random_chain(seed, sources=5), torch.arange(5)
    expected = greedy(chain, source, longest=longest)
    assert torch.equal(beam_search(chain, source, beams=1, longest=longest, length_penalty=penalty).ids, expected)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), beams=st.integers(1, 6), penalty=st.sampled_from([0.0, 1.0]))
def test_scores_are_those_of_the_hypotheses_falling_and_of_different_ones(random_chain, seed, beams, penalty):
    chain = random_chain(seed, sources=3)
    found = beam_search(chain, torch.arange(3), beams=beams, longest=6, length_penalty=penalty)
    for source in range(3):
        written = [tokens(row) for row in found.hypotheses[source]]
        assert len({tuple(y) for y in written}) == len(written)
        expected = [chain.score(source, y) / len(y) ** penalty for y in written]
        assert_close(found.hypothesis_scores[source], torch.tensor(expected))
        assert expected == sorted(expected, reverse=True)
        assert all(END not in y[:-1] for y in written)


@pytest.mark.parametrize("cached", [True, False])
def test_alone_together_and_in_any_order_a_sentence_is_the_same(random_chain, cached):
    chain, order = random_chain(4, words=6, sources=7), torch.randperm(7, generator=torch.Generator().manual_seed(1))
    together = beam_search(chain, torch.arange(7), beams=3, longest=12, cached=cached)
    rows = list(chain.rows[1:])
    assert rows[0] == 21  # three beams behind the first step, which one row is enough for
    assert rows[-1] < 21  # sentences that are done are left out
    assert rows == sorted(rows, reverse=True)
    assert chain.rows[0] == 7
    permuted = beam_search(chain, order, beams=3, longest=12, cached=cached)
    assert torch.equal(permuted.hypotheses, together.hypotheses[order])
    assert_close(permuted.hypothesis_scores, together.hypothesis_scores[order])
    for row in range(7):
        alone = beam_search(chain, torch.tensor([row]), beams=3, longest=12)
        assert torch.equal(alone.hypotheses[0], together.hypotheses[row, :, : alone.ids.shape[1]])
        assert_close(alone.scores[0], together.scores[row])


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), beams=st.integers(1, 4))
def test_without_normalization_stopping_early_loses_nothing(random_chain, seed, beams):
    """The search by hand, without any stopping: every ended continuation among the best is kept, to the last length."""
    chain, longest = random_chain(seed, words=3), 7
    live, kept = [([], 0.0)], []
    for _ in range(longest):
        ranked = sorted(
            (([*y, token], chain.score(0, [*y, token])) for y, _ in live for token in (END, 5, 6, 7)), key=lambda pair: -pair[1]
        )
        kept += [pair for pair in ranked[:beams] if pair[0][-1] == END]
        live = [pair for pair in ranked if pair[0][-1] != END][:beams]
    kept = sorted(kept + live, key=lambda pair: -pair[1])[:beams]
    found = beam_search(chain, ONE, beams=beams, longest=longest, length_penalty=0.0)
    assert_close(
        found.hypothesis_scores[0], torch.tensor([score for _, score in kept])
    )  # sequences may tie: 5 5 6 5 and 5 6 5 5


def test_stops_as_soon_as_nothing_live_can_win(make_chain):
    chain = make_chain({BEGIN: {A: 0.9, B: 0.1}, A: {END: 0.9, B: 0.1}, B: {END: 0.9, C: 0.1}, C: {C: 1.0}})
    beam_search(chain, ONE, beams=2, longest=50, length_penalty=0.0)
    assert len(chain.rows) == 3  # A END and B END or A B END are kept, what lives has at most 0.1 x 0.1


def test_a_prompt_and_allowed_tokens(make_chain):
    chain = make_chain({A: {END: 0.5, PAD: 0.3, B: 0.2}, B: {A: 0.6, MASK: 0.4}})
    prompt = torch.tensor([[BEGIN, B, A]])
    found = beam_search(chain, ONE, beams=2, longest=3, prompt=prompt, end=None)
    assert tokens(found.ids[0]) == [END, END, END]  # without an end, END is a token like any other
    allow = torch.zeros(8, dtype=torch.bool)
    allow[[A, B]] = True
    found = beam_search(chain, ONE, beams=2, longest=3, prompt=prompt, allow=allow)
    assert found.ids.tolist() == [[B, A, B]]
    assert_close(found.scores, torch.tensor([0.0]))  # nothing else may come
    assert found.hypothesis_scores[0, 1].isneginf()


def test_impossible_requests_are_refused(make_chain):
    chain = make_chain({})
    for wrong in ({"beams": 0}, {"longest": 0}, {"length_penalty": -1.0}):
        with pytest.raises(ValueError, match="must be at least"):
            beam_search(chain, ONE, **({"longest": 3} | wrong))


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), v=st.sampled_from([3, 64, 200, 640, 1000]), k=st.integers(1, 12))
def test_largest_is_topk(seed, v, k):
    x = torch.randn(5, v, generator=torch.Generator().manual_seed(seed))
    x[:, ::3] = -torch.inf
    values, places = largest(x, min(k, v))
    expected = x.topk(min(k, v))
    assert torch.equal(values, expected.values)
    finite = values.isfinite()
    assert torch.equal(places[finite], expected.indices[finite])
    assert torch.equal(x.gather(1, places), values)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), v=st.sampled_from([3, 127, 128, 200, 640]))
def test_first_largest_is_argmax_the_first_of_equal_ones(seed, v):
    x = torch.randint(0, 9, (5, v), generator=torch.Generator().manual_seed(seed)).float()
    assert first_largest(x).tolist() == [row.tolist().index(row.max()) for row in x]
