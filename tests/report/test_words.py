"""Sections of words: which sentences, which word and which head are shown, by rules that the page states."""

import pytest
import torch

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.explain.pronouns import find_pronoun, find_query
from vitrail.models.seq2seq import Seq2SeqConfig, build_seq2seq
from vitrail.report.words import choose_pairs, choose_with_pronoun, clearest_head, word_sections

SOURCES = ["ein hund läuft weil er <b> will", "zwei männer stehen am herd", "eine frau und ihr kind lachen laut"]
TARGETS = ["a dog runs because it wants to", "two men stand at the stove", "a woman and her child laugh aloud"]


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairs.train([*SOURCES, *TARGETS], 60)


def test_the_report_shows_alignments_and_a_pronoun(tokenizer):
    torch.manual_seed(0)
    model = vt.create_model(
        "transformer_tiny", vocabulary=len(tokenizer), width=8, heads=2, depth=2, decoder_depth=3, hidden=9, longest=40
    )
    model.tokenizer = tokenizer
    alignments, view = (one.__html__() for one in word_sections(model.eval(), ["", *SOURCES], ["", *TARGETS]))
    assert alignments.startswith('<section id="alignment"')
    assert alignments.count("<svg") == 3
    assert "of 0 to 2, mean over 2 heads" in alignments
    assert view.startswith('<section id="word-to-word"')
    assert view.count("<svg") == 3
    assert "the pronoun “er”, in layer" in view  # of the shortest sentence that has one
    assert "<b>" not in alignments + view
    assert word_sections(model, [""], [""]) == []


def test_what_cannot_be_shown_is_said(tokenizer):
    model = build_seq2seq(Seq2SeqConfig(vocabulary=len(tokenizer), width=6, depth=1))
    model.tokenizer = tokenizer
    alignments, view = (one.__html__() for one in word_sections(model.eval(), SOURCES, TARGETS))
    assert "Not shown: this model has no attention over the source" in alignments
    assert "Not shown" in view
    attending = build_seq2seq(Seq2SeqConfig(vocabulary=len(tokenizer), width=6, depth=1, attention="global"))
    attending.tokenizer = tokenizer
    alignments, view = (one.__html__() for one in word_sections(attending.eval(), SOURCES, TARGETS))
    assert alignments.count("<svg") == 3
    assert "Not shown: this model has no self-attention of the encoder" in view


def test_sentences_to_show_can_be_read():
    pairs = [(" ".join(["w"] * count), str(count)) for count in (1, 3, 4, 5, 9, 12, 16, 17, 80)]
    assert [target for _, target in choose_pairs(pairs)] == ["4", "9", "16"]
    assert [target for _, target in choose_pairs(pairs[-1:] + pairs[:2])] == ["1", "3", "80"]  # nothing better there
    assert choose_with_pronoun(pairs) == choose_pairs(pairs)[0]


def test_a_pronoun_needs_words_before_it():
    assert find_pronoun(["It", "was", "the", "animal"]) is None
    assert find_pronoun(["The", "animal", "did", "not", "cross", "because", "It", "was", "tired"]) == 6
    assert find_query(["a", "dog", "sleeps"]) == 2
    assert find_query(["She", "saw", "a", "dog"]) == 0  # the longest, not the pronoun
    assert find_query(["<begin>", "a", "dog", "<end>"]) == 2
    assert find_query([]) == 0


def test_the_clearest_head_looks_at_another_word_that_is_not_the_end():
    weights = torch.zeros(2, 2, 4, 4)
    weights[0, 0, 1] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # itself
    weights[0, 1, 1] = torch.tensor([0.0, 0.0, 0.0, 1.0])  # <end>
    weights[1, 0, 1] = torch.tensor([0.6, 0.2, 0.2, 0.0])
    weights[1, 1, 1] = torch.tensor([0.3, 0.0, 0.5, 0.2])
    assert clearest_head(weights, 1) == (1, 0)
