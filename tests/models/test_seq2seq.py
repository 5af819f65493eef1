"""Recurrent encoder-decoders: one vector without attention, weights with it, padding, order, steps."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.decoding import State, Stepping, greedy
from vitrail.models.seq2seq import PRESETS
from vitrail.special_tokens import BEGIN, PAD

WORDS = 23
KINDS = {
    "plain": {},
    "gru": {"cell": "gru"},
    "both_ways": {"bidirectional": True},
    "global": {"attention": "global"},
    "concat": {"attention": "global", "score": "concat", "cell": "gru"},
    "fed": {"attention": "global", "feeding": True, "bidirectional": True},
    "local": {"attention": "local", "reach": 2},
    "monotonic": {"attention": "local", "reach": 2, "center": "monotonic", "score": "dot"},
}
kinds = pytest.mark.parametrize("kind", KINDS)
attending = pytest.mark.parametrize("kind", [kind for kind, how in KINDS.items() if "attention" in how])


def tiny(kind, **options):
    torch.manual_seed(0)
    how = {"vocabulary": WORDS, "width": 6, "depth": 2, "dropout": 0.0, **KINDS[kind], **options}
    return vt.create_model("lstm_seq2seq_tiny", **how).eval()


def sentences(lengths=(7, 3, 5), longest=7):
    ids = torch.randint(5, WORDS, (len(lengths), longest))
    return ids.masked_fill(torch.arange(longest) >= torch.tensor(lengths)[:, None], PAD)


def targets(count=3, length=5):
    ids = torch.randint(5, WORDS, (count, length))
    ids[:, 0] = BEGIN
    return ids


# What the decoder knows of the source


@pytest.mark.parametrize("kind", ["plain", "gru", "both_ways"])
def test_without_attention_all_goes_through_one_vector(kind):
    """The encoder's other states may be anything; and the Jacobian from source to scores has no higher rank than the vector has numbers."""
    model, target = tiny(kind, width=2, depth=1), targets(1, 8)
    source = sentences((7,))
    encoded = model.encode(source)
    changed = encoded._replace(states=torch.randn_like(encoded.states))
    scores = [model.head(model.decode(target, *model.start(found))[0]) for found in (encoded, changed)]
    assert_close(*scores)
    assert model.begin(source).memory is None
    assert sum(part[:, 0].numel() for part in encoded.last) == model.config.vector_size == (2 if kind == "gru" else 4)
    assert rank_from_source(model, source, target) <= model.config.vector_size


@attending
def test_with_attention_more_goes_through(kind):
    model, target, source = tiny(kind, width=2, depth=1), targets(1, 8), sentences((7,))
    encoded = model.encode(source)
    changed = encoded._replace(states=torch.randn_like(encoded.states))
    one, other = (model.head(model.decode(target, *model.start(found))[0]) for found in (encoded, changed))
    assert (one - other).abs().max() > 1e-3
    assert rank_from_source(model, source, target) > model.config.vector_size


def rank_from_source(model, source, target):
    """Of the Jacobian of the decoder's outputs in the words' embeddings, in double precision."""
    model = model.double()

    def outputs(x):
        encoded = model.encoder(x, torch.ones(1, x.shape[1], dtype=torch.bool))
        return model.decode(target, *model.start(encoded))[0].x.flatten()

    jacobian = torch.autograd.functional.jacobian(outputs, model.words(source).x)
    return torch.linalg.matrix_rank(jacobian.flatten(1), rtol=1e-9).item()


# Padding, order, steps


@kinds
def test_padding_and_order_of_a_batch_change_nothing(kind):
    model, source, target = tiny(kind), sentences(), targets()
    target[1, 3:] = PAD
    whole = model(source, target)
    assert whole.shape == (3, 5, WORDS)
    for row, (length, words) in enumerate([(7, 5), (3, 3), (5, 5)]):
        alone = model(source[row : row + 1, :length], target[row : row + 1, :words])
        assert_close(alone[0], whole[row, :words], atol=1e-5, rtol=1e-5)
    order = torch.tensor([1, 2, 0])
    assert_close(model(source[order], target[order]), whole[order], atol=1e-5, rtol=1e-5)
    longer = torch.cat([source, torch.full((3, 4), PAD)], dim=1)
    assert_close(model(longer, target), whole, atol=1e-5, rtol=1e-5)


@kinds
@pytest.mark.parametrize("cached", [True, False])
def test_steps_give_what_forward_gives(kind, cached):
    model, source, target = tiny(kind), sentences(), targets()
    expected, state = model(source, target), model.begin(source, cached=cached)
    assert isinstance(model, Stepping)
    assert isinstance(state, State)
    assert_close(model.step(target[:, :2], state), expected[:, 1], atol=1e-5, rtol=1e-5)  # a prompt of two
    rows = torch.tensor([2, 0, 0, 1])
    state.reorder(rows)
    for words in range(3, 6):
        assert_close(model.step(target[rows, :words], state), expected[rows, words - 1], atol=1e-5, rtol=1e-5)


@kinds
def test_greedy_decoding_with_and_without_a_cache(kind):
    model, source = tiny(kind), sentences()
    found = greedy(model, source, longest=9)
    assert torch.equal(found, greedy(model, source, longest=9, cached=False))
    alone = greedy(model, source[1:2, :3], longest=9)
    assert torch.equal(found[1, : alone.shape[1]], alone[0])


def test_an_empty_sentence_is_finite():
    for kind in KINDS:
        assert tiny(kind)(torch.full((2, 3), PAD), targets(2)).isfinite().all()


def test_a_sentence_too_long():
    with pytest.raises(VitrailError, match="7 tokens is too long: the model's longest is 6"):
        tiny("plain", longest=6)(sentences(), targets())


# Weights over the source


@attending
def test_maps_of_attention(kind):
    model, source, target = tiny(kind), sentences(), targets()
    maps = model.attention_maps(source, target)
    assert maps.shape == (3, 5, 7)
    assert_close(maps.sum(-1), torch.ones(3, 5))
    assert maps.masked_select((source == PAD)[:, None]).abs().max() == 0
    assert KINDS[kind]["attention"] != "local" or (maps[0] == 0).any()


def test_without_attention_there_are_no_maps():
    with pytest.raises(VitrailError, match='attention is "none"'):
        tiny("plain").attention_maps(sentences(), targets())


# Presets


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_about_the_parameters_of_the_tiny_transformer(name):
    with torch.device("meta"):
        ours, its = (count_parameters(vt.create_model(each)) for each in (name, "transformer_tiny"))
    assert abs(ours / its - 1) < 0.05


def test_tied_or_not():
    tied, untied = tiny("global"), tiny("global", tied=False)
    assert count_parameters(untied) - count_parameters(tied) == 2 * WORDS * 6
    assert untied(sentences(), targets()).shape == (3, 5, WORDS)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"feeding": True}, 'needs attention "global" or "local"'),
        ({"bidirectional": True, "width": 7}, "must be even"),
        ({"attention": "local", "reach": 0}, "one place at least"),
        ({"vocabulary": 5}, "more than the 5 special tokens"),
        ({"depth": 0}, "depth must be at least 1"),
        ({"cell": "rnn"}, "'lstm', 'gru'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("lstm_seq2seq_tiny", **options)


def test_reversing_is_learned():
    model = tiny("local", vocabulary=13, width=32, depth=1).train()
    optimizer, generator = torch.optim.Adam(model.parameters(), lr=1e-2), torch.Generator().manual_seed(1)
    for _ in range(100):
        source = torch.randint(5, 13, (32, 3), generator=generator)
        target = torch.cat([torch.full((32, 1), BEGIN), source.flip(1)], dim=1)
        logits = model(source, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source = torch.randint(5, 13, (64, 3), generator=generator)
    assert (greedy(model.eval(), source, longest=3, end=None) == source.flip(1)).all(1).float().mean() > 0.9
