"""Real models, small and random: a cache, the batch and its order, and padding change no token."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.models.decoding import Stepping, beam_search, greedy, sample
from vitrail.models.decoding.mask_predict import mask_predict
from vitrail.special_tokens import BEGIN, END, PAD

SMALL = {"vocabulary": 211, "width": 16, "heads": 2, "hidden": 24, "depth": 2, "longest": 40}


def sharp(model: torch.nn.Module, scale: float = 3.0) -> torch.nn.Module:
    """With larger weights than at the start, so that sentences differ and some of them end."""
    for parameter in model.parameters():
        parameter.data.mul_(scale if parameter.ndim > 1 else 1.0)
    return model.eval()


@pytest.fixture(scope="module")
def translator() -> torch.nn.Module:
    torch.manual_seed(8)
    return sharp(vt.create_model("transformer_tiny", **SMALL, decoder_depth=2, tied=False), 2.0)


@pytest.fixture(scope="module")
def source() -> torch.Tensor:
    ids = torch.randint(5, 211, (9, 7), generator=torch.Generator().manual_seed(0))
    for row in range(9):
        ids[row, 3 + row % 5 :] = PAD
    return ids


ALLOW = torch.zeros(211, dtype=torch.bool)
ALLOW[[END, *range(5, 12)]] = True  # few words, so that sentences end at different lengths
WAYS = {
    "greedy": lambda model, source, **options: greedy(model, source, longest=20, allow=ALLOW, **options),
    "beam": lambda model, source, **options: beam_search(model, source, beams=4, longest=20, allow=ALLOW, **options).hypotheses,
    "sampling": lambda model, source, **options: sample(
        model, source, longest=20, count=3, generator=torch.Generator().manual_seed(5), allow=ALLOW, top_k=20, **options
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_cache_changes_no_token(translator, source, way):
    assert isinstance(translator, Stepping)
    written = WAYS[way](translator, source)
    assert torch.equal(WAYS[way](translator, source, cached=False), written)
    ends = (written == END).any(dim=-1)
    assert ends.any()  # rows were dropped on the way
    assert written.shape[-1] > 3


@pytest.mark.parametrize("way", ["greedy", "beam"])
def test_order_and_company_change_no_token(translator, source, way):
    together, order = WAYS[way](translator, source), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert torch.equal(WAYS[way](translator, source[order]), together[order])
    alone = WAYS[way](translator, source[4:5, : 3 + 4])
    assert torch.equal(alone[0], together[4, ..., : alone.shape[-1]])
    assert (together[4, ..., alone.shape[-1] :] == PAD).all()


def test_a_beam_of_one_is_greedy(translator, source):
    found = beam_search(translator, source, beams=1, longest=20, allow=ALLOW)
    assert torch.equal(found.ids, WAYS["greedy"](translator, source))


def test_scores_are_the_models_own_mean_log_probabilities(translator, source):
    found = beam_search(translator, source, beams=4, longest=12)
    ids = torch.cat([torch.full((9, 1), BEGIN), found.ids], dim=1)
    never = torch.tensor([0, 1, 4])
    logits = translator(source, ids[:, :-1]).index_fill(2, never, -torch.inf)
    each = logits.log_softmax(2).gather(2, found.ids[..., None])[..., 0].masked_fill(found.ids == PAD, 0)
    assert_close(found.scores, each.sum(1) / (found.ids != PAD).sum(1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cached", [True, False])
def test_a_language_model_goes_on_from_a_prompt(cached):
    torch.manual_seed(1)
    model = sharp(vt.create_model("gpt_tiny", **SMALL))
    prompt = torch.randint(5, 211, (3, 6), generator=torch.Generator().manual_seed(2))
    written = greedy(model, None, longest=8, prompt=prompt, cached=cached, end=None)
    ids = prompt
    for step in range(8):
        following = model(ids)[:, -1].index_fill(1, torch.tensor([0, 1, 4]), -torch.inf).argmax(1)
        assert torch.equal(written[:, step], following)
        ids = torch.cat([ids, following[:, None]], dim=1)
    assert greedy(model, 2, longest=4, cached=cached).shape[0] == 2  # a number of texts, from BEGIN
    assert sample(model, None, longest=4, count=5, generator=torch.Generator(), cached=cached).shape[:2] == (1, 5)


@pytest.mark.parametrize("way", ["greedy", "beam", "sampling", "at once"])
def test_what_the_tokenizer_does_not_spell_is_never_written(translator, source, way):
    """A model may know more numbers than its tokenizer has pieces."""
    model = translator
    if way == "at once":
        torch.manual_seed(8)
        model = sharp(vt.create_model("cmlm_tiny", **SMALL, decoder_depth=2, tied=False), 2.0)
    writes = {
        "greedy": lambda: greedy(model, source, longest=9),
        "beam": lambda: beam_search(model, source, beams=3, longest=9).ids,
        "sampling": lambda: sample(model, source, longest=9, generator=torch.Generator().manual_seed(5)),
        "at once": lambda: mask_predict(model, source, iterations=2, lengths=2).ids,
    }
    assert writes[way]().max() > 30
    model.tokenizer = range(30)  # it has a length, which is all that is asked of it
    try:
        assert 5 <= writes[way]().max() < 30
    finally:
        model.tokenizer = None
