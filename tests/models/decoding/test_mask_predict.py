import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.models.decoding.mask_predict import Filling, Guess, least_sure, mask_predict, refine
from vitrail.special_tokens import BEGIN, END, MASK, PAD

SMALL = {"vocabulary": 53, "width": 16, "heads": 2, "hidden": 24, "depth": 2, "decoder_depth": 2, "longest": 30}


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    model = vt.create_model("cmlm_tiny", **SMALL).eval()
    for parameter in model.parameters():
        parameter.data.mul_(2.0 if parameter.ndim > 1 else 1.0)
    return model


@pytest.fixture(scope="module")
def source() -> torch.Tensor:
    ids = torch.randint(5, 53, (5, 7), generator=torch.Generator().manual_seed(0))
    ids[1, 3:] = PAD
    ids[3, 5:] = PAD
    return ids


class Watched:
    """The same model, remembering what it was given to fill in."""

    def __init__(self, model: torch.nn.Module, only: int | None = None) -> None:
        self.model, self.only, self.vocabulary, self.given = model, only, model.vocabulary, []
        self.encode = model.encode

    def length_logits(self, memory):
        scores = self.model.length_logits(memory)
        return scores if self.only is None else scores.index_fill(1, torch.tensor([self.only - 1]), 1e4)

    def fill(self, target, memory):
        self.given.append(target)
        return self.model.fill(target, memory)


@pytest.mark.parametrize("iterations", [1, 4, 10])
@pytest.mark.parametrize("length", [1, 3, 23])
def test_as_many_passes_as_asked_whatever_the_length(model, source, iterations, length):
    watched = Watched(model, only=length)
    assert isinstance(watched, Filling)
    found = mask_predict(watched, source, iterations=iterations, lengths=1)
    assert len(watched.given) == iterations
    assert found.ids.shape == (5, length)
    hidden = [(given == MASK).sum(1).tolist() for given in watched.given]
    assert hidden == [[-(-length * (iterations - t) // iterations)] * 5 for t in range(iterations)]


def test_one_pass_is_the_likeliest_word_at_every_place(model, source):
    found = mask_predict(Watched(model, only=6), source, iterations=1, lengths=1)
    words, _ = model(source, torch.full((5, 6), MASK))
    allowed = words.log_softmax(2).index_fill(2, torch.tensor([PAD, BEGIN, END, MASK]), -torch.inf)
    assert torch.equal(found.ids, allowed.argmax(2))
    assert_close(found.scores, allowed.amax(2).mean(1))


def test_words_that_are_not_hidden_stay_as_they_are(model, source):
    guess = Guess(torch.randint(5, 53, (5, 8)), -torch.rand(5, 8))
    hidden = torch.rand(5, 8) < 0.4
    after = refine(model, guess, hidden, model.encode(source))
    assert torch.equal(after.ids[~hidden], guess.ids[~hidden])
    assert torch.equal(after.sureness[~hidden], guess.sureness[~hidden])
    expected = model.fill(guess.ids.masked_fill(hidden, MASK), model.encode(source)).log_softmax(2)
    assert_close(after.sureness[hidden], expected.gather(2, after.ids[..., None])[..., 0][hidden])


def test_later_passes_are_given_the_surest_words_of_those_before(model, source):
    watched = Watched(model, only=9)
    mask_predict(watched, source, iterations=3, lengths=1)
    first = refine(model, Guess(watched.given[0], torch.zeros(5, 9)), watched.given[0] == MASK, model.encode(source))
    hidden = watched.given[1] == MASK
    assert torch.equal(watched.given[1][~hidden], first.ids[~hidden])
    for row in range(5):
        assert first.sureness[row][hidden[row]].max() <= first.sureness[row][~hidden[row]].min()


def test_the_least_sure_are_a_share_of_each_rows_own_words():
    sureness = torch.tensor([[-1.0, -3.0, -2.0, 0.0], [-5.0, -1.0, -2.0, -0.5]])
    real = torch.tensor([[True, True, True, False], [True, True, True, True]])
    assert least_sure(sureness, real, share=0.5).tolist() == [[False, True, True, False], [True, False, True, False]]
    assert least_sure(torch.zeros(1, 10), torch.ones(1, 10, dtype=torch.bool), share=1 - 0.7).sum() == 3


def test_lengths_are_the_likeliest_and_the_best_mean_wins(model, source):
    found = mask_predict(model, source, iterations=2, lengths=4)
    likely = model.length_logits(model.encode(source)).topk(4).indices + 1
    lengths = (found.hypotheses != PAD).sum(2)
    assert torch.equal(lengths.sort(1).values, likely.sort(1).values)
    assert torch.equal(found.hypothesis_scores, found.hypothesis_scores.sort(1, descending=True).values)
    assert torch.equal(found.ids, found.hypotheses[:, 0])
    assert not torch.isin(found.ids, torch.tensor([BEGIN, END, MASK])).any()


def test_order_and_company_change_nothing(model, source):
    together, order = mask_predict(model, source, iterations=4, lengths=3), torch.tensor([3, 0, 4, 2, 1])
    permuted = mask_predict(model, source[order], iterations=4, lengths=3)
    assert torch.equal(permuted.ids, together.ids[order])
    alone = mask_predict(model, source[1:2, :3], iterations=4, lengths=3)
    assert torch.equal(alone.ids[0], together.ids[1, : alone.ids.shape[1]])
    assert_close(alone.scores[0], together.scores[1])


def test_impossible_requests_are_refused(model, source):
    for wrong in ({"iterations": 0}, {"lengths": 0}):
        with pytest.raises(ValueError, match="iterations and lengths must be at least 1"):
            mask_predict(model, source, **wrong)
