import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.models.decoding import greedy, keep_top_k, keep_top_p, sample
from vitrail.models.decoding.sampling import draw
from vitrail.special_tokens import BEGIN, END, PAD

A, B, C = 5, 6, 7
ONE = torch.tensor([0])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def chi_square(drawn: torch.Tensor, expected: dict[int, float]) -> float:
    assert set(drawn.tolist()) <= set(expected)
    return sum(((drawn == token).sum().item() - len(drawn) * p) ** 2 / (len(drawn) * p) for token, p in expected.items())


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, {A: 0.5, B: 0.3, C: 0.15, END: 0.05}),
        ({"temperature": 0.5}, {A: 0.25 / 0.365, B: 0.09 / 0.365, C: 0.0225 / 0.365, END: 0.0025 / 0.365}),  # p^2, normalized
        ({"top_k": 2}, {A: 0.5 / 0.8, B: 0.3 / 0.8}),
        ({"top_p": 0.9}, {A: 0.5 / 0.95, B: 0.3 / 0.95, C: 0.15 / 0.95}),
        ({"temperature": 0.5, "top_p": 0.9}, {A: 0.25 / 0.34, B: 0.09 / 0.34}),  # the nucleus of the sharpened probabilities
    ],
)
def test_frequencies_are_the_probabilities(make_chain, options, expected):
    chain = make_chain({BEGIN: {A: 0.5, B: 0.3, C: 0.15, END: 0.05}})
    drawn = sample(chain, ONE, longest=1, count=4000, generator=seeded(), **options).flatten()
    assert chi_square(drawn, expected) < {2: 10.8, 3: 13.8, 4: 16.3}[len(expected)]  # one in a thousand


def test_frequencies_of_whole_sequences(make_chain):
    chain = make_chain({BEGIN: {A: 0.7, B: 0.3}, A: {B: 0.6, END: 0.4}, B: {A: 0.5, END: 0.5}})
    drawn = sample(chain, ONE, longest=2, count=4000, generator=seeded(1))[0]
    pairs = drawn[:, 0] * 10 + drawn[:, 1]
    expected = {10 * A + B: 0.42, 10 * A + END: 0.28, 10 * B + A: 0.15, 10 * B + END: 0.15}
    assert chi_square(pairs, expected) < 16.3


def test_temperature_zero_and_almost_zero_are_greedy(random_chain):
    chain, source = random_chain(3, words=5, sources=6), torch.arange(6)
    expected = greedy(chain, source, longest=9)
    for temperature in (0.0, 1e-30):
        drawn = sample(chain, source, longest=9, temperature=temperature, count=2, generator=seeded())
        assert torch.equal(drawn[:, 0], expected)
        assert torch.equal(drawn[:, 1], expected)


def test_the_prompt_is_computed_once_for_all_samples_and_the_same_seed_gives_the_same(random_chain):
    chain, source, prompt = random_chain(2, sources=2), torch.arange(2), torch.tensor([[BEGIN, A], [BEGIN, B]])
    first = sample(chain, source, longest=8, count=3, generator=seeded(7), prompt=prompt)
    assert chain.rows[:1] == [2]
    assert chain.rows[1] > 2
    assert first.shape[:2] == (2, 3)
    again = sample(chain, source, longest=8, count=3, generator=seeded(7), prompt=prompt, cached=False)
    assert torch.equal(first, again)
    assert not torch.equal(first, sample(chain, source, longest=8, count=3, generator=seeded(8), prompt=prompt))


def test_which_rows_have_ended_changes_nothing_for_the_others(make_chain):
    going = {BEGIN: {A: 0.5, B: 0.5}, A: {A: 0.5, B: 0.5}, B: {A: 0.5, B: 0.5}}
    chain = make_chain(going, {BEGIN: {END: 1.0}})
    whole = sample(chain, torch.tensor([0, 0, 0]), longest=20, generator=seeded())
    mixed = sample(chain, torch.tensor([0, 1, 0]), longest=20, generator=seeded())
    assert torch.equal(mixed[[0, 2]], whole[[0, 2]])
    assert mixed[1, 0].tolist() == [END] + [PAD] * 19


def test_a_draw_is_never_of_probability_zero():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    numbers = torch.tensor([0.0, 0.5 - 1e-12, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(logits.expand(4, 5), numbers).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize("v", [3, 64, 65, 200])
def test_a_draw_is_where_the_cumulative_probability_exceeds_the_number(v):
    logits, numbers = torch.randn(300, v, generator=seeded()), torch.rand(300, generator=seeded(1), dtype=torch.float64)
    cumulative = logits.double().softmax(1).cumsum(1)
    expected = torch.searchsorted(cumulative, numbers[:, None], right=True)[:, 0]
    assert torch.equal(draw(logits, numbers), expected)


LOGITS = st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=12).map(torch.tensor)


@settings(max_examples=100)
@given(logits=LOGITS, k=st.integers(1, 14))
def test_top_k_keeps_the_k_largest_and_their_logits(logits, k):
    kept = keep_top_k(logits, k)
    inside = ~kept.isneginf()
    assert torch.equal(kept[inside], logits[inside])
    assert inside.sum() >= min(k, len(logits))
    if inside.sum() > k:  # only what equals the least kept one
        assert (logits[inside] > logits[inside].min()).sum() < k
    if not inside.all():
        assert logits[~inside].max() < logits[inside].min()


@settings(max_examples=100)
@given(logits=LOGITS, p=st.floats(0.01, 1.0))
def test_top_p_keeps_the_fewest_that_hold_p(logits, p):
    kept = keep_top_p(logits, p)
    inside, probabilities = ~kept.isneginf(), logits.double().softmax(0)
    assert torch.equal(kept[inside], logits[inside])
    assert probabilities[inside].sum() >= p - 1e-6
    assert probabilities[logits > logits[inside].min()].sum() < p + 1e-6  # one token less, or equals, would not do
    if not inside.all():
        assert logits[~inside].max() <= logits[inside].min()


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_top_p_of_many_tokens(scale):
    logits = torch.randn(7, 500, generator=seeded()) * scale * torch.linspace(0.1, 2, 7)[:, None]
    probabilities, kept = logits.double().softmax(1), keep_top_p(logits, 0.8)
    ranked = probabilities.sort(dim=1, descending=True).values
    expected = 1 + (ranked.cumsum(1) < 0.8).sum(1)
    assert torch.equal((~kept.isneginf()).sum(1), expected)
    assert expected.min() < 128 or scale < 5
    assert expected.max() > 128


def test_filters_of_a_batch_are_those_of_its_rows():
    logits = torch.randn(3, 5, 11, generator=seeded())
    for keep in (lambda x: keep_top_k(x, 3), lambda x: keep_top_p(x, 0.7)):
        assert torch.equal(keep(logits), torch.stack([torch.stack([keep(row) for row in rows]) for rows in logits]))


def test_impossible_requests_are_refused(make_chain):
    with pytest.raises(ValueError, match="temperature must be at least 0"):
        sample(make_chain({}), ONE, longest=2, temperature=-0.5, generator=seeded())
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        keep_top_k(torch.zeros(3), 0)
    for p in (0.0, 1.5):
        with pytest.raises(ValueError, match="top_p must lie above 0"):
            keep_top_p(torch.zeros(3), p)
