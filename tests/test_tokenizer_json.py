"""tokenizer.json: Hugging Face's library reads what is written, and earlier files, foreign files and broken files are distinguished."""

import json
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.special_tokens import BEGIN, END, MASK, PAD, SPECIAL_TOKENS, UNKNOWN
from vitrail.tokenizer_json import Stored, read, write

FIXTURES = Path(__file__).parent / "fixtures"
GOLDEN = json.loads((FIXTURES / "tokenizers" / "first_format.json").read_text(encoding="utf-8"))
SENTENCES = GOLDEN["sentences"]
FIRST = [json.dumps(row["tokenizer"], ensure_ascii=False) for row in GOLDEN["tokenizers"]]  # plain; lower; lower with bytes
OURS = [BytePairs.from_json(text) for text in FIRST]
LOADED = [tokenizers.Tokenizer.from_str(ours.to_json()) for ours in OURS]
# Letters that Unicode has had since 3.2: newer ones are in one library's tables and not yet in the other's.
LETTERS = st.characters(exclude_categories=["Cs", "Cn"]).filter(lambda letter: unicodedata.ucd_3_2_0.category(letter) != "Cn")
TEXTS = st.text(alphabet=st.one_of(LETTERS, st.sampled_from([*"abeth Wandß.,-'\"<>ΣΑσ▁", "\x1c", "\x85", "\u3000"])))


@pytest.mark.parametrize("number", range(3))
def test_a_file_in_the_first_format_gives_the_token_ids_of_its_time(number):
    ours, row = OURS[number], GOLDEN["tokenizers"][number]
    again = BytePairs.from_json(ours.to_json())
    for tokenizer in (ours, again):
        assert [tokenizer.encode(text) for text in SENTENCES] == row["ids"]
        assert [tokenizer.decode(ids) for ids in row["ids"]] == row["texts"]
    assert (again.all_pieces, again.merges, again.lower, again.bytes) == (ours.all_pieces, ours.merges, ours.lower, ours.bytes)


@pytest.mark.parametrize("number", range(3))
def test_the_file_of_the_folder_is_read_by_tokenizers(number, tmp_path):
    path, row = tmp_path / "tokenizer.json", GOLDEN["tokenizers"][number]
    path.write_text(OURS[number].to_json() + "\n", encoding="utf-8")
    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.encode_special_tokens = True  # `<pad>` in a text is text, as it is for us
    assert [theirs.encode(text).ids for text in SENTENCES] == row["ids"]
    assert [theirs.decode(ids) for ids in row["ids"]] == row["texts"]
    theirs.save(str(path), pretty=True)  # what that library writes of it is read as well
    assert BytePairs.from_json(path.read_text(encoding="utf-8")).to_json() == OURS[number].to_json()


@given(TEXTS)
def test_any_text_has_the_same_ids_and_the_same_decoded_text(text):
    for ours, theirs in zip(OURS, LOADED, strict=True):
        ids = ours.encode(text)
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids) == ours.decode(ids)


@given(st.lists(st.integers(0, 139)))
def test_any_ids_before_the_end_decode_alike(ids):
    ids = [number for number in ids if number != END]
    for ours, theirs in zip(OURS[:2], LOADED[:2], strict=True):  # with bytes the ids may be no UTF-8
        assert theirs.decode(ids) == ours.decode(ids)


def test_special_tokens_are_named_and_left_out_of_decoded_text():
    theirs = LOADED[0]
    assert [theirs.id_to_token(number) for number in range(5)] == list(SPECIAL_TOKENS)
    assert theirs.encode("a <mask>").ids == [*OURS[0].encode("a"), MASK]
    assert theirs.decode([BEGIN, *OURS[0].encode("the wall"), UNKNOWN, END, PAD]) == "the wall⁇"


@pytest.mark.parametrize("folder", ["translate", "language", "caption"])
def test_stored_runs_have_the_first_format_and_are_read(folder):
    text = (FIXTURES / "runs" / folder / "best" / "tokenizer.json").read_text(encoding="utf-8")
    assert json.loads(text)["format"] == "vitrail byte pairs 1"
    tokenizer = BytePairs.from_json(text)
    assert list(tokenizer.all_pieces) == json.loads(text)["pieces"]
    assert json.loads(tokenizer.to_json())["version"] == "1.0"


def test_merges_written_as_texts_are_read():
    found = json.loads(OURS[0].to_json())
    found["model"]["merges"] = [" ".join(pair) for pair in found["model"]["merges"]]
    assert BytePairs.from_json(json.dumps(found)).merges == OURS[0].merges


def foreign(**parts: object) -> str:
    return json.dumps({**json.loads(OURS[0].to_json()), **parts})


def model(**keys: object) -> str:
    found = json.loads(OURS[0].to_json())
    return foreign(model={**found["model"], **keys})


VOCAB = json.loads(OURS[0].to_json())["model"]["vocab"]
SEQUENCE = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}


@pytest.mark.parametrize("text, message", [
    ("{", "not readable JSON"), ("[" * 100_000, "not readable JSON"), ("[]", "not a tokenizer"), ('{"version": "1.0"}', "not a tokenizer"),
    ('{"format": "vitrail byte pairs 2"}', "not a tokenizer of ours"), ('{"model": 3}', "the model must be BPE, got 3"),
    (model(type="WordPiece"), "the model must be BPE, got WordPiece"), (model(dropout=0.1), r"dropout of the model must be null, got 0\.1"),
    (model(unk_token="[UNK]"), 'unk_token of the model must be "<unknown>", got \'\\[UNK\\]\''), (model(byte_fallback=1), "byte_fallback must be true"),
    (model(byte_fallback=True), "the decoder Sequence .* is not the one"), (model(vocab=[]), "vocab must number"),
    (model(vocab={**VOCAB, "more": 3}), "vocab must number"), (model(vocab={**VOCAB, "more": 140.0}), "vocab must number"),
    (model(vocab={**VOCAB, "": 140}), "not empty"), (model(vocab={**VOCAB, "<pad>": 1, "<begin>": 0}), "the first 5 pieces"),
    (model(merges=["a b c"]), "list of pairs"), (model(merges=[["a", "zzz"]]), "not of pieces"), (model(merges={}), "list of pairs"),
    (foreign(pre_tokenizer={"type": "ByteLevel"}), "the pre_tokenizer ByteLevel is not the one that Vitrail writes and applies"),
    (foreign(normalizer=SEQUENCE), r"the normalizer Sequence \(NFD, StripAccents\) is not the one"),
    (foreign(normalizer=None), "the normalizer null is not the one"), (foreign(post_processor={"type": "BertProcessing"}), "the post_processor BertProcessing"),
    (foreign(added_tokens=[]), r"the added_tokens \[\] is not the one"), (foreign(truncation={"max_length": 3}), "the truncation"),
])  # fmt: skip
def test_what_is_not_applied_is_refused_by_name_in_one_line(text, message):
    with pytest.raises(VitrailError, match=message) as caught:
        BytePairs.from_json(text, where="somewhere")
    assert str(caught.value).startswith("somewhere: ")
    assert "\n" not in str(caught.value)


def test_what_is_written_is_read_back():
    stored = Stored([*SPECIAL_TOKENS, "▁", "a", "▁a"], [("▁", "a")], True, False)
    assert read(write(stored), where="here") == stored
