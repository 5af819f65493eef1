import pytest
import torch

from vitrail.models.decoding import State, Stepping, greedy
from vitrail.special_tokens import BEGIN, END, MASK, PAD

A, B, C = 5, 6, 7
TABLES = (
    {BEGIN: {A: 0.6, B: 0.4}, A: {B: 0.5, END: 0.3, C: 0.2}, B: {END: 0.7, A: 0.3}},
    {BEGIN: {B: 0.9, A: 0.1}, B: {C: 1.0}, C: {A: 0.6, END: 0.4}, A: {B: 1.0}},
    {BEGIN: {END: 1.0}},
)


def test_the_likeliest_token_follows_until_the_end(make_chain):
    chain = make_chain(*TABLES)
    assert isinstance(chain, Stepping)
    assert isinstance(chain.begin(torch.tensor([0])), State)
    written = greedy(chain, torch.tensor([0, 1, 2]), longest=5)
    assert written.tolist() == [[A, B, END, PAD, PAD], [B, C, A, B, C], [END, PAD, PAD, PAD, PAD]]


def test_rows_that_have_ended_are_not_computed(make_chain):
    chain = make_chain(*TABLES)
    greedy(chain, torch.tensor([0, 1, 2, 2]), longest=5)
    assert chain.rows == [4, 2, 2, 1, 1]


def test_nothing_is_computed_behind_the_last_end(make_chain):
    chain = make_chain(*TABLES)
    assert greedy(chain, torch.tensor([0, 2]), longest=50).tolist() == [[A, B, END], [END, PAD, PAD]]
    assert len(chain.rows) == 3


@pytest.mark.parametrize("cached", [True, False])
def test_alone_together_and_in_any_order_a_row_is_the_same(random_chain, cached):
    chain, order = random_chain(0, words=3, sources=23), torch.randperm(23, generator=torch.Generator().manual_seed(1))
    together = greedy(chain, torch.arange(23), longest=13, cached=cached)
    assert len({(row == END).nonzero().flatten()[:1].sum().item() for row in together}) > 2  # rows of several lengths
    assert torch.equal(greedy(chain, order, longest=13, cached=cached), together[order])
    for row in range(23):
        alone = greedy(chain, torch.tensor([row]), longest=13)
        assert torch.equal(alone[0], together[row, : alone.shape[1]])
        assert (together[row, alone.shape[1] :] == PAD).all()


def test_a_prompt_stands_in_place_of_the_first_token_and_is_not_returned(make_chain):
    chain = make_chain(TABLES[1])
    prompt = torch.tensor([[BEGIN, A, C]])
    assert greedy(chain, torch.tensor([0]), longest=3, prompt=prompt).tolist() == [[A, B, C]]


def test_tokens_that_no_text_has_never_come(make_chain):
    likely = {PAD: 0.4, BEGIN: 0.3, MASK: 0.2, A: 0.1}
    assert greedy(make_chain({BEGIN: likely}), torch.tensor([0]), longest=1).tolist() == [[A]]


def test_only_allowed_tokens_come_and_nothing_ends_without_an_end(make_chain):
    chain = make_chain({BEGIN: {END: 0.6, PAD: 0.3, A: 0.1}, PAD: {A: 0.7, PAD: 0.3}})
    allow = torch.tensor([True] + [False] * 7)  # a palette's first color may have the number 0
    assert greedy(chain, torch.tensor([0]), longest=4, allow=allow, end=None).tolist() == [[PAD] * 4]


def test_impossible_requests_are_refused(make_chain):
    chain, source = make_chain(*TABLES), torch.tensor([0])
    with pytest.raises(ValueError, match="longest and count must be at least 1, got 0"):
        greedy(chain, source, longest=0)
    with pytest.raises(ValueError, match="allow must leave at least one token"):
        greedy(chain, source, longest=2, allow=torch.zeros(8, dtype=torch.bool))
    with pytest.raises(ValueError, match="a prompt needs at least one token"):
        greedy(chain, source, longest=2, prompt=torch.zeros(1, 0, dtype=torch.long))
