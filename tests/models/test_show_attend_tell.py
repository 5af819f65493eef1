"""Show, Attend and Tell: maps of attention, steps, the two estimators."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.decoding import State, Stepping, greedy
from vitrail.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from vitrail.nn.decoders import glimpses
from vitrail.nn.decoders.glimpses import GlimpseDecoder
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.preprocessing import neutral
from vitrail.special_tokens import BEGIN, PAD
from vitrail.tokens import Tokens

WORDS = 13
TINY = {"vocabulary": WORDS, "width": 6, "features": 5, "stride": 4, "layers": 2, "image_size": (12, 20), "in_channels": 2}
kinds = pytest.mark.parametrize("kind", ["soft", "hard"])


def tiny(kind, **options):
    torch.manual_seed(0)
    return vt.create_model(f"show_attend_tell_{kind}", **{**TINY, **options}).eval()


def captions(count=3, length=5):
    ids = torch.randint(5, WORDS, (count, length))
    ids[:, 0] = BEGIN
    return ids


def make_images(count=3):
    return torch.randn(count, 2, 12, 20)


class Features(nn.Module):
    """An encoder that gives a prefix token and its own features, whatever the image."""

    def __init__(self, features):
        super().__init__()
        self.features = nn.Parameter(features)

    def forward(self, images):
        cells = self.features.expand(len(images), -1, -1)
        return Tokens(torch.cat([torch.full_like(cells[:, :1], 100.0), cells], dim=1), grid=(1, cells.shape[1]), prefix=1)


def with_features(features, width=4, **options):
    """A model with an encoder handed in."""
    config = ShowAttendTellConfig(vocabulary=WORDS, width=width, features=features.shape[1], longest=8, **options)
    return ShowAttendTell(
        encoder=Features(features),
        words=Words(WORDS, width, grid=(8,)),
        decoder=GlimpseDecoder(width, features.shape[1], hard=config.attention == "hard"),
        head=WordHead(width, WORDS),
        config=config,
        preprocessing=neutral((12, 20), 3),
    )


@kinds
def test_maps_of_attention_sum_to_one_for_every_word(kind):
    model, images, words = tiny(kind), make_images(), captions()
    maps = model.attention_maps(images, words)
    assert maps.shape == (3, 5, 3, 5)
    assert_close(maps.sum((2, 3)), torch.ones(3, 5))
    assert (maps[:, 0] - maps[:, 1]).abs().max() > 1e-6  # where it looks depends on the word


@kinds
def test_a_word_sees_no_later_one_and_padding_changes_nothing(kind):
    model, images, words = tiny(kind), make_images(), captions()
    whole = model(images, words)
    assert whole.shape == (3, 5, WORDS)
    changed = words.clone()
    changed[:, 3:] = PAD
    assert_close(model(images, changed)[:, :3], whole[:, :3])
    order = torch.tensor([1, 2, 0])
    assert_close(model(images[order], words[order]), whole[order], atol=1e-5, rtol=1e-5)


@kinds
@pytest.mark.parametrize("cached", [True, False])
def test_steps_give_what_forward_gives(kind, cached):
    model, images, words = tiny(kind), make_images(), captions()
    expected, state = model(images, words), model.begin(images, cached=cached)
    assert isinstance(model, Stepping)
    assert isinstance(state, State)
    assert_close(model.step(words[:, :2], state), expected[:, 1], atol=1e-5, rtol=1e-5)
    rows = torch.tensor([2, 0, 0, 1])
    state.reorder(rows)
    for count in range(3, 6):
        assert_close(model.step(words[rows, :count], state), expected[rows, count - 1], atol=1e-5, rtol=1e-5)
    assert torch.equal(greedy(model, images, longest=6), greedy(model, images, longest=6, cached=False))


def test_a_step_by_hand():
    """Soft: z = beta sum alpha a; o = E y + L_h h + L_z z. The mean decides where the LSTM starts. A prefix token is not looked at."""
    features = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0]])
    model, word = with_features(features).eval(), torch.tensor([[BEGIN]])
    decoder, mean = model.decoder, features.mean(0)
    hidden, cell = decoder.start_hidden(mean).tanh(), decoder.start_cell(mean).tanh()
    energies = torch.stack(
        [torch.tanh(decoder.score.query(hidden) + decoder.score.key(a)) @ decoder.score.direction for a in features]
    )
    weights = energies.softmax(0)
    context = decoder.gate(hidden).sigmoid() * (weights @ features)
    embedded = 2.0 * model.words.table.weight[BEGIN]  # times sqrt(4)
    after, _ = decoder.layers(torch.cat([embedded, context])[None, None], (hidden[None, None], cell[None, None]))
    out = embedded + decoder.hidden_output(after[0, 0]) + decoder.context_output(context)
    images = torch.zeros(1, 3, 12, 20)
    assert_close(model(images, word)[0, 0], model.head.weight @ out)
    assert_close(model.attention_maps(images, word)[0, 0, 0], weights)


def test_hard_attention_looks_at_one_place():
    """In evaluation at the likeliest: features elsewhere do not matter but for scores and mean, which are kept."""
    model = with_features(torch.randn(4, 3), attention="hard").eval()
    memory = model.decoder.start(model.encode(torch.zeros(2, 3, 12, 20)).cells)[1]
    carried, words = model.decoder.start(memory.states)[0], captions(2, 1)
    seen = model.decode(words, carried, memory)[1]
    best = seen.places[:, 0]
    assert torch.equal(best, seen.scores[:, 0].argmax(-1))
    elsewhere = memory.states + (torch.arange(4) != best[0])[:, None] * 7.0
    assert_close(model.decode(words, carried, memory._replace(states=elsewhere))[1].x, seen.x)
    there = memory.states + (torch.arange(4) == best[0])[:, None] * 7.0
    assert (model.decode(words, carried, memory._replace(states=there))[1].x - seen.x).abs().max() > 1e-2


def row_losses(model, rows, words):
    logits = model(torch.zeros(rows, 3, 12, 20), words[:, :-1].expand(rows, -1))
    return F.cross_entropy(logits.transpose(1, 2), words[:, 1:].expand(rows, -1), reduction="none").sum(1)


def gradient_of(model, loss):
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat(
        [torch.zeros_like(p).flatten() if g is None else g.flatten() for p, g in zip(parameters, found, strict=True)]
    )


def test_the_estimator_of_hard_attention_is_unbiased(monkeypatch):
    """Two places, two words: the exact gradient of the expected loss over the four ways to look, and the mean of many draws."""
    torch.manual_seed(3)
    model = with_features(torch.tensor([[3.0, 0.0, -2.0], [-1.0, 2.0, 3.0]]), attention="hard", entropy_bonus=0.0).train()
    words = torch.tensor([[BEGIN, 7, 9]])
    with torch.no_grad():
        model.decoder.context_output.weight.mul_(4.0)  # where it looks matters
    expected = torch.zeros(())
    for ways in itertools.product(range(2), repeat=2):
        steps = iter(ways)
        monkeypatch.setattr(
            glimpses, "draw_places", lambda logits, count, steps=steps: torch.full((len(logits), 1), next(steps))
        )
        losses = row_losses(model, 1, words)
        shares = model.looked.scores[0].log_softmax(-1)
        expected = expected + (shares[0, ways[0]] + shares[1, ways[1]]).exp() * losses[0]
    monkeypatch.undo()
    exact = gradient_of(model, expected)
    model.baseline.total.fill_(expected.item() - 0.5), model.baseline.weight.fill_(1.0)  # any baseline will do
    losses = row_losses(model, 20_000, words)
    term = model.surrogate_loss(losses.detach())
    assert term.item() == 0
    with_term, without = gradient_of(model, losses.mean() + term), gradient_of(model, row_losses(model, 20_000, words).mean())
    assert (with_term - exact).norm() < 0.03 * exact.norm()
    assert (without - exact).norm() > 0.1 * exact.norm()
    assert_close(model.baseline.total, 0.9 * (expected.detach() - 0.5) + 0.1 * losses.mean().detach())


def test_places_behind_the_end_of_a_caption_do_not_count():
    model = with_features(torch.randn(4, 3), attention="hard", entropy_bonus=0.1).train()
    words = torch.tensor([[BEGIN, 7, PAD, PAD], [BEGIN, 6, 5, 8]])
    model(torch.zeros(2, 3, 12, 20), words)
    scores = model.looked.scores
    [gradient] = torch.autograd.grad(model.surrogate_loss(torch.tensor([2.0, 3.0])), scores)
    assert gradient[0, 2:].abs().max() == 0
    assert gradient[0, :2].abs().max() > 0


def test_the_entropy_bonus_evens_chances_out():
    model = with_features(torch.randn(4, 3), attention="hard", entropy_bonus=2.0).train()
    model(torch.zeros(1, 3, 12, 20), torch.tensor([[BEGIN]]))
    scores = model.looked.scores
    [gradient] = torch.autograd.grad(model.surrogate_loss(torch.zeros(1)), scores)  # loss and baseline 0: the bonus alone
    shares = scores.detach().softmax(-1)
    entropy = -(shares * shares.log()).sum()
    assert_close(gradient, 2.0 * shares * (shares.log() + entropy))


def test_doubly_stochastic_attention():
    """lambda sum_i (1 - sum_t alpha_ti)^2 of real words  [Xu+ 2015, eq. 14], as a gradient alone."""
    model = with_features(torch.randn(4, 3), doubly_stochastic=0.7).train()
    words = torch.tensor([[BEGIN, 7, PAD], [BEGIN, 6, 5]])
    model(torch.zeros(2, 3, 12, 20), words)
    scores = model.looked.scores
    term = model.surrogate_loss(torch.zeros(2))
    assert term.item() == 0
    alpha = scores.softmax(-1)
    wish = 0.7 * ((1 - alpha[0, :2].sum(0)).square().sum() + (1 - alpha[1].sum(0)).square().sum()) / 2
    [gradient], [expected] = (torch.autograd.grad(value, scores, retain_graph=True) for value in (term, wish))
    assert_close(gradient, expected)


def test_surrogate_loss_where_it_is_needed_and_once():
    assert tiny("soft").surrogate_loss is None
    model = tiny("hard").train()
    model(make_images(), captions())
    assert copy.deepcopy(model.eval()).looked is None
    model.surrogate_loss(torch.ones(3))
    with pytest.raises(VitrailError, match="follows a forward pass in training, once"):
        model.surrogate_loss(torch.ones(3))


def test_soft_attention_learns_where_to_look():
    """Four places, each with a color and its place: listed in raster order, every word is read where it stands."""
    torch.manual_seed(0)
    model = with_features(torch.zeros(4, 12), width=24)
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=2e-2), torch.Generator().manual_seed(1)
    for _ in range(60):
        colors = torch.randint(8, (32, 4), generator=generator)
        model.encoder.features = nn.Parameter(
            2.0 * torch.cat([F.one_hot(colors, 8), torch.eye(4).expand(32, -1, -1)], dim=-1), False
        )
        words = torch.cat([torch.full((32, 1), BEGIN), colors + 5], dim=1)
        logits = model(torch.zeros(32, 3, 12, 20), words[:, :-1])
        optimizer.zero_grad()
        F.cross_entropy(logits.transpose(1, 2), words[:, 1:]).backward()
        optimizer.step()
    maps = model.attention_maps(torch.zeros(32, 3, 12, 20), words[:, :-1])[:, :, 0]
    assert (maps.argmax(-1)[:, :3] == torch.arange(3)).float().mean() > 0.9  # the last may be what is left of the mean of all


@kinds
def test_presets_caption_images_of_64_pixels(kind):
    model = vt.create_model(f"show_attend_tell_{kind}", vocabulary=WORDS).eval()
    assert model.attention_maps(torch.randn(1, 3, 64, 64), captions(1)).shape == (1, 5, 8, 8)
    assert model.preprocessing.size == (64, 64)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"image_size": 3}, "image_size must be at least the stride 4"),
        ({"features": 0}, "features must be at least 1"),
        ({"layers": 10**9}, "layers must be at most 1000"),
        ({"entropy_bonus": -1.0}, "entropy_bonus cannot be negative"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"attention": "firm"}, "'soft', 'hard'"),
        ({"stride": 3}, "power of two"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        tiny("soft", **options)


def test_images_of_other_channels():
    with pytest.raises(VitrailError, match=r"expected images of shape \(b, 2, h, w\)"):
        tiny("soft")(torch.randn(1, 3, 12, 20), captions(1))
