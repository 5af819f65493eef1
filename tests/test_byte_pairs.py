"""Byte pairs: nothing is lost, nothing foreign is believed, and dropout is a function of its names."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from vitrail.byte_pairs import BytePairs, merge, normalize, split_word
from vitrail.data.text.dropout import Dropout
from vitrail.errors import VitrailError
from vitrail.special_tokens import BEGIN, END, MASK, PAD, SPECIAL_TOKENS, UNKNOWN
from vitrail.tokenizer_json import BYTES

LINES = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Two young, White males are outside near many bushes.",
    "the low lower lowest, the new newer newest, the wide wider widest",
    'Ein "kleines" Mädchen klettert in ein Spielhaus aus Holz; es lacht.',
] * 5
PLAIN, LOWER = BytePairs.train(LINES, 150), BytePairs.train(LINES, 150, lower=True)
SPELLED = BytePairs.train(LINES, 450, bytes=True)
LETTERS = sorted(set(normalize("".join(LINES))) - {" "})


@given(st.text(alphabet=[*LETTERS, " ", "\u00a0", "\n"]))
def test_what_is_encoded_is_decoded(text):
    for tokenizer in (PLAIN, LOWER):
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


@given(st.text())
def test_with_bytes_every_text_survives(text):
    ids = SPELLED.encode(text)
    assert SPELLED.decode(ids) == SPELLED.normalize(text)
    assert UNKNOWN not in ids
    assert all(number >= len(SPECIAL_TOKENS) for number in ids)


@given(st.text())
def test_without_bytes_only_letters_never_seen_are_unknown(text):
    ids = PLAIN.encode(text)
    seen = {letter for piece in PLAIN.all_pieces[len(SPECIAL_TOKENS) :] for letter in piece}
    strange = sum(letter not in seen for letter in PLAIN.normalize(text) if letter != " ")
    assert ids.count(UNKNOWN) == strange
    assert not {PAD, BEGIN, END, MASK} & set(ids)
    assert PLAIN.decode(ids).count("⁇") == strange


@given(st.text())
def test_normalizing_again_changes_nothing(text):
    for lower in (False, True):
        assert normalize(normalize(text, lower=lower), lower=lower) == normalize(text, lower=lower)


def test_normalizing_by_hand():
    assert normalize(" ﬁne\u3000 ＡＢＣ▁x \ud800") == "fine ABC x ?"
    assert normalize("STRAẞE Größe", lower=True) == "straße größe"


def test_words_split_at_marks_and_nothing_is_lost():
    assert split_word('"so-so."') == ("▁", '"', "so", "-", "so", ".", '"')
    assert split_word("end") == ("▁end",)


def test_merges_are_applied_in_the_order_learned():
    ranks = {("l", "o"): 0, ("lo", "w"): 1, ("e", "r"): 2, ("w", "e"): 3}
    assert merge("lower", ranks) == ["low", "er"]
    assert merge("wer", ranks) == ["w", "er"]  # e r was learned before w e
    assert merge("lolo", {("l", "o"): 0, ("lo", "lo"): 1}) == ["lolo"]
    assert merge("", ranks) == []
    assert merge("lower", ranks, lambda: True) == list("lower")


def test_the_library_that_learned_the_merges_applies_them_alike():
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=dict(PLAIN.numbers), merges=list(PLAIN.merges)))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    for line in LINES[:4]:
        words = " ".join(part for word in PLAIN.normalize(line).split() for part in split_word(word))
        assert theirs.encode(words).ids == PLAIN.encode(line)


def test_the_vocabulary_has_the_size_asked_for_and_the_special_tokens_first():
    assert len(PLAIN) == 150
    assert PLAIN.pieces(range(5)) == list(SPECIAL_TOKENS)
    assert SPELLED.pieces(range(5, 261)) == list(BYTES)
    assert PLAIN.encode("<pad> <end>")[0] not in (PAD, END)  # a text cannot spell them
    assert "▁the" in PLAIN.all_pieces
    with pytest.raises(VitrailError, match="a vocabulary of 5 is too small"):
        BytePairs.train(LINES, 5)
    assert len(BytePairs.train(["abcdefghijklmnop"], 13)) <= 13  # the rarest letters are left out


def test_decoding_stops_at_the_end_and_passes_over_what_is_no_text():
    ids = PLAIN.encode("the low")
    assert PLAIN.decode([BEGIN, *ids, END, *ids, PAD]) == "the low"
    assert PLAIN.decode([MASK, PAD, *ids]) == "the low"
    assert PLAIN.decode([]) == ""
    assert SPELLED.decode([len(SPECIAL_TOKENS) + 0xC3]) == "\ufffd"  # half a letter


def test_a_file_gives_the_same_tokenizer_back():
    for tokenizer in (PLAIN, LOWER, SPELLED):
        again = BytePairs.from_json(tokenizer.to_json())
        assert again.to_json() == tokenizer.to_json()
        assert [again.encode(line) for line in LINES] == [tokenizer.encode(line) for line in LINES]


def test_letters_of_equal_count_are_chosen_alike_in_every_process():
    """More of them than the vocabulary has room for; the hashes of both languages differ from process to process."""
    code = """if True:
        from vitrail.byte_pairs import BytePairs
        lines = ["".join(chr(0x4e00 + number) for number in range(200)), "the low lower lowest"] * 3
        print(BytePairs.train(lines, 60).to_json().encode())
    """
    asked = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2", "3")
    ]
    answers = {process.communicate()[0] for process in asked}
    assert len(answers) == 1
    assert len(answers.pop()) > 100
    made = BytePairs.train(["cabac"] * 9, 10)  # room for the space, a and c, and two merges
    assert set("".join(made.all_pieces[5:])) == {*"▁ac"}
    assert not any("aa" in piece for piece in made.all_pieces)  # nothing is merged across the b


def test_one_space_between_words_and_none_around_them():
    space = PLAIN.numbers["▁"]
    the, low = PLAIN.encode("the"), PLAIN.encode("low")
    assert PLAIN.decode([space, space, *the, space, *low, space]) == "the low"


def test_a_number_without_a_piece_is_unknown():
    assert PLAIN.decode([*PLAIN.encode("the"), len(PLAIN) + 7]) == "the⁇"


def changed(**values: object) -> str:
    """A file of the first format, and what is wrong with it."""
    first = {
        "format": "vitrail byte pairs 1",
        "lower": False,
        "bytes": False,
        "pieces": PLAIN.all_pieces,
        "merges": PLAIN.merges,
    }
    return json.dumps({**first, **values})


@pytest.mark.parametrize("text, message", [
    ("{", "not readable JSON"), ("[" * 100_000, "not readable JSON"), ("[]", "not a tokenizer"), ('{"version": "1.0"}', "not a tokenizer"),
    (changed(more=1), "must have"), (changed(lower=1), "true or false"), (changed(pieces="abc"), "list of texts"),
    (changed(pieces=[""]), "list of texts"), (changed(pieces=["a", "b"]), "the first 5 pieces"),
    (changed(pieces=[*SPECIAL_TOKENS, "a", "a"]), "twice"), (changed(merges=[["a"]]), "list of pairs"),
    (changed(merges=[["a", "zzz"]]), "not of pieces"), (changed(merges=[["a", 3]]), "not of pieces"), (changed(bytes=True), "first 261"),
])  # fmt: skip
def test_a_strange_file_is_refused_in_one_line(text, message):
    with pytest.raises(VitrailError, match=message) as caught:
        BytePairs.from_json(text, where="somewhere")
    assert str(caught.value).startswith("somewhere: ")
    assert "\n" not in str(caught.value)


def test_a_very_long_word_takes_no_long_time():
    assert PLAIN.decode(PLAIN.encode("the" * 20_000)) == "the" * 20_000


TEXTS = [PLAIN.normalize(line).split() for line in LINES[:4]]


def test_dropout_depends_on_seed_epoch_and_index_alone():
    draw = Dropout(PLAIN, 0.3, seed=1)
    found = draw.encode(TEXTS, epoch=2, indices=np.arange(4))
    alone = Dropout(PLAIN, 0.3, seed=1).encode(TEXTS[2:3], epoch=2, indices=np.array([2]))  # another batch, another table
    assert alone == found[2:3]
    assert draw.encode(TEXTS, epoch=3, indices=np.arange(4)) != found
    assert draw.encode(TEXTS, epoch=2, indices=np.arange(4) + 7) != found
    assert Dropout(PLAIN, 0.3, seed=2).encode(TEXTS, epoch=2, indices=np.arange(4)) != found


def test_dropout_changes_the_pieces_but_not_the_text():
    for rate in (0.1, 0.9):
        for ids, line in zip(Dropout(PLAIN, rate, seed=0).encode(TEXTS, epoch=0, indices=np.arange(4)), LINES, strict=False):
            assert PLAIN.decode(ids) == PLAIN.normalize(line)
            assert len(ids) >= len(PLAIN.encode(line))
    assert Dropout(PLAIN, 0.0, seed=0).encode(TEXTS, epoch=0, indices=np.arange(4)) == [
        PLAIN.encode(line) for line in LINES[:4]
    ]
    with pytest.raises(VitrailError, match=r"below 1, got 1\.0"):
        Dropout(PLAIN, 1.0, seed=0)


def test_dropout_leaves_out_merges_at_its_rate():
    """One merge is possible in each of 600 words: it is left out as often as the rate says."""
    letters = [chr(0x4E00 + number) for number in range(600)]
    tokenizer = BytePairs([*SPECIAL_TOKENS, "▁", *letters, *(f"▁{x}" for x in letters)], [("▁", x) for x in letters])
    found = Dropout(tokenizer, 0.25, seed=0).encode([[x] for x in letters], epoch=0, indices=np.arange(600))
    assert 0.2 < sum(len(ids) == 2 for ids in found) / 600 < 0.3
    assert {len(ids) for ids in found} == {1, 2}
