"""Looks at words: recorded layers by kind, pieces joined to words, and which layer aligns."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.explain.alignment import aligning_layer, alignment, information
from vitrail.explain.sentences import Sentence, read_sentence, whole
from vitrail.explain.words import WordLook, join, to_words, word_look
from vitrail.models.decoding.greedy import greedy
from vitrail.special_tokens import BEGIN, END

LINES = [
    "Zwei Männer stehen am Herd, und sie kochen.",
    "Ein Hund (braun) läuft!",
    'Er sagt: "so don\'t"',
    "die T-Shirts lachen laut",
]


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairs.train(LINES * 3, 70)


@pytest.fixture(scope="module")
def translator(tokenizer):
    torch.manual_seed(0)
    model = vt.create_model(
        "transformer_tiny", vocabulary=len(tokenizer), width=12, heads=3, depth=2, decoder_depth=5, hidden=17, longest=64
    )
    model.tokenizer = tokenizer
    return model


def test_each_kind_of_attention_is_there_by_layer_and_head(translator):
    look = word_look(translator.train(), "Ein Hund lacht.", "Er steht")
    assert translator.training
    m, n = len(look.source.pieces), len(look.written.pieces)
    assert {kind: tuple(weights.shape) for kind, weights in look.weights.items()} == {
        "encoder": (2, 3, m, m), "decoder": (5, 3, n, n), "cross": (5, 3, n, m),
    }  # fmt: skip
    for weights in look.weights.values():
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert look.weights["decoder"].triu(1).abs().max() == 0  # nothing of the future
    assert look.read.words[0] == "<begin>"
    assert look.written.words[-1] == look.source.words[-1] == "<end>"
    assert look.read.words[1:] == look.written.words[:-1]


def test_the_weights_are_those_of_the_layers(translator):
    """The cross-attention of the first decoder layer, computed by hand from what goes into it."""
    source, target = [9, 20, 31], [7, 8]
    look = word_look(translator, source, target)
    translator.eval()
    got = {}
    layer = translator.decoder.blocks[0].cross_attention
    handle = layer.register_forward_hook(lambda _, given, __: got.update(x=given[0], memory=given[2]))
    with torch.no_grad():
        translator(torch.tensor([[*source, END]]), torch.tensor([[BEGIN, *target]]))
        q, k = (part.view(-1, 3, 4).transpose(0, 1) for part in (layer.query(got["x"])[0], layer.key(got["memory"])[0]))
    handle.remove()
    assert_close(look.of("cross", 0, 1), (q[1] @ k[1].T / 2).softmax(-1), atol=1e-5, rtol=1e-5)
    assert_close(look.of("cross", -5), look.weights["cross"][0].mean(0))


def test_without_a_target_it_is_the_models_own_translation(translator):
    look = word_look(translator, "Ein Hund", beams=1)
    again = word_look(translator, "Ein Hund", beams=2)
    translator.eval()
    found = greedy(
        translator,
        torch.tensor([[*translator.tokenizer.encode("Ein Hund"), END]]),
        longest=len(translator.tokenizer.encode("Ein Hund")) + 50,
    )
    expected = [number for number in found[0].tolist() if number != END]
    assert look.written.pieces == (*translator.tokenizer.pieces(expected), "<end>")
    assert again.weights["cross"].shape[2] == len(again.written.pieces)


def test_language_models_have_self_attention_only(tokenizer):
    torch.manual_seed(1)
    causal = vt.create_model("gpt_tiny", vocabulary=len(tokenizer), width=8, heads=2, depth=3, hidden=11, longest=12)
    masked = vt.create_model("bert_tiny", vocabulary=len(tokenizer), width=8, heads=2, depth=3, hidden=11, longest=12)
    causal.tokenizer = masked.tokenizer = tokenizer
    look = word_look(causal, [6, 7], [8])
    assert set(look.weights) == {"decoder"}
    assert look.weights["decoder"].shape == (3, 2, 4, 4)
    assert look.given == 3
    assert look.weights["decoder"].triu(1).abs().max() == 0
    continued = word_look(causal, [6, 7])
    assert 3 <= len(continued.read.pieces) <= 12
    assert continued.given == 3
    assert len(word_look(causal, [6] * 11).read.pieces) == 12  # full: nothing can follow
    look = word_look(masked, "Ein Hund")
    assert set(look.weights) == {"encoder"}
    assert look.weights["encoder"].triu(1).max() > 0
    with pytest.raises(VitrailError, match="nothing that follows"):
        word_look(masked, [6], [7])
    with pytest.raises(VitrailError, match="no attention of the decoder to the source; it has self-attention of the encoder"):
        alignment(look)


def test_a_recurrent_model_gives_its_one_look_at_the_source():
    from vitrail.models.seq2seq import Seq2SeqConfig, build_seq2seq

    torch.manual_seed(2)
    model = build_seq2seq(Seq2SeqConfig(vocabulary=20, width=6, depth=1, attention="global"))
    look = word_look(model, [5, 6, 7, 8], [9, 10])
    model.eval()
    expected = model.attention_maps(torch.tensor([[5, 6, 7, 8, END]]), torch.tensor([[BEGIN, 9, 10]]))[0]
    assert_close(alignment(look), expected)
    assert look.source.words == ("5", "6", "7", "8", "<end>")
    with pytest.raises(VitrailError, match="no attention over the source"):
        word_look(build_seq2seq(Seq2SeqConfig(vocabulary=20, width=6, depth=1)), [5], [6])


def test_a_model_that_writes_all_at_once_reads_each_word_at_its_place(tokenizer):
    torch.manual_seed(3)
    model = vt.create_model(
        "cmlm_tiny", vocabulary=len(tokenizer), width=8, heads=2, depth=1, decoder_depth=2, hidden=9, longest=20
    )
    model.tokenizer = tokenizer
    look = word_look(model, "Ein Hund", "Er steht")
    assert look.read == look.written
    assert {kind: weights.shape[0] for kind, weights in look.weights.items()} == {"encoder": 1, "decoder": 2, "cross": 2}
    assert look.weights["decoder"].triu(1).max() > 0  # all see each other
    assert to_words(word_look(model, "Ein Hund")).weights["cross"].shape[3] == 3
    with pytest.raises(VitrailError, match="no word in the translation"):
        word_look(model, "Ein Hund", "")


def test_an_empty_translation_is_its_end_alone(translator):
    look = to_words(word_look(translator, "Ein Hund", ""))
    assert look.written.words == ("<end>",)
    assert_close(alignment(look).sum(-1), torch.ones(1))


def test_bad_sentences_in_one_line(translator):
    with pytest.raises(VitrailError, match="no word in the sentence"):
        word_look(translator, "  ")
    with pytest.raises(VitrailError, match="too long"):
        word_look(translator, "Hund " * 100, "Er")
    with pytest.raises(VitrailError, match="layer 5 does not exist"):
        word_look(translator, "Hund", "Er").of("cross", 5)
    with pytest.raises(VitrailError, match="head -4 does not exist"):
        alignment(word_look(translator, "Hund", "Er"), head=-4)
    tokenizer, translator.tokenizer = translator.tokenizer, None
    try:
        with pytest.raises(VitrailError, match="has no tokenizer"):
            word_look(translator, "Hund")
    finally:
        translator.tokenizer = tokenizer


# Pieces and words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ein Hund (braun) läuft!", ("Ein", "Hund", "(", "braun", ")", "läuft", "!")),
        ('sagt: "so don\'t".', ("sagt", ":", '"', "so", "don't", '"', ".")),
        ("die T-Shirts , laut", ("die", "T-Shirts", ",", "laut")),
        ("EQn!", ("E⁇n", "!")),  # Q was never seen
        ("...", (".", ".", ".")),
    ],
)
def test_words_are_what_stands_between_spaces_and_marks(tokenizer, text, words):
    ids = [BEGIN, *tokenizer.encode(text), END]
    found = read_sentence(ids, tokenizer)
    assert found.words == ("<begin>", *words, "<end>")
    assert len(found.owners) == len(found.pieces) == len(ids)


@given(st.text(alphabet="aHund (.)\"'-é", max_size=30))
@settings(max_examples=60)
def test_every_piece_is_part_of_one_word_in_order(tokenizer, text):
    ids = [BEGIN, *tokenizer.encode(text), END]
    found = read_sentence(ids, tokenizer)
    assert list(found.owners) == sorted(found.owners)
    assert set(found.owners) == set(range(len(found.words)))
    assert "".join(found.words[1:-1]) == tokenizer.decode(ids[1:]).replace(" ", "")


@given(st.data())
@settings(max_examples=40)
def test_rows_still_sum_to_one_when_pieces_are_joined(data):
    def sentence(count):
        steps = [0] + [data.draw(st.integers(0, 1)) for _ in range(count - 1)]
        owners = [sum(steps[: place + 1]) for place in range(count)]
        return Sentence(("x",) * count, ("w",) * (owners[-1] + 1), tuple(owners))

    queries, keys = sentence(data.draw(st.integers(1, 7))), sentence(data.draw(st.integers(1, 5)))
    weights = torch.rand(2, 3, len(queries.pieces), len(keys.pieces)).softmax(-1)
    joined = join(weights, queries, keys)
    assert joined.shape == (2, 3, len(queries.words), len(keys.words))
    assert_close(joined.sum(-1), torch.ones(joined.shape[:-1]))


def test_joining_by_hand():
    """Keys add up, queries are averaged."""
    weights = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 0.4, 0.6]]]])
    two_one, one_two = Sentence(("a",) * 3, ("aa", "a"), (0, 0, 1)), Sentence(("b",) * 3, ("b", "bb"), (0, 1, 1))
    assert_close(join(weights, two_one, one_two)[0, 0], torch.tensor([[0.3, 0.7], [0.0, 1.0]]))


def test_a_look_of_words_keeps_what_was_given(translator):
    look = word_look(translator, "Ein Hund läuft", "Männer kochen")
    words = to_words(look)
    assert words.source.pieces == words.source.words == ("Ein", "Hund", "läuft", "<end>")
    assert words.weights["cross"].shape[2:] == (3, 4)
    assert words.given == 1
    assert_close(to_words(words).weights["cross"], words.weights["cross"])


# Which layer aligns


def cross(*layers):
    weights = torch.tensor(layers)[:, None]
    n, m = weights.shape[2:]
    return WordLook(source=whole(["s"] * m), read=whole(["t"] * n), written=whole(["t"] * n), weights={"cross": weights})


SINK = [[0.0, 0.0, 1.0]] * 3
EVEN = [[1 / 3] * 3] * 3
ALIGNED = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]


def test_the_layer_that_tells_most_aligns_not_the_sharpest():
    assert_close(information(torch.eye(4)), torch.tensor(2.0, dtype=torch.float64))
    assert float(information(torch.tensor(SINK))) == float(information(torch.tensor(EVEN)).round(decimals=9)) == 0
    expected = math.log2(3) + 0.8 * math.log2(0.8) + 0.2 * math.log2(0.1)
    assert float(information(torch.tensor(ALIGNED))) == pytest.approx(expected, rel=1e-6)
    look = cross(SINK, ALIGNED, EVEN)
    assert aligning_layer([look]) == 1
    assert_close(alignment(look), torch.tensor(ALIGNED))
    assert_close(alignment(look, layer=0), torch.tensor(SINK))
    assert aligning_layer([cross(ALIGNED, EVEN), cross(EVEN, torch.eye(3).tolist())]) == 1  # the better one on average
