"""Language models as functions of text: what is drawn, what is hidden, Hugging Face's shapes."""

import pytest
import torch

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.models.decoding import greedy
from vitrail.special_tokens import BEGIN, END, MASK
from vitrail.tasks.language import text_generation

LINES = ["ein hund bellt .", "a dog barks .", "zwei hunde", "two dogs"]


def build(name: str, **more):
    torch.manual_seed(1)
    sizes = {"width": 12, "heads": 3, "hidden": 20, "depth": 1, "vocabulary": 90, "longest": 16, "position": "rotary"}
    model = vt.create_model(name, **{**sizes, **more}).eval()
    model.tokenizer = BytePairs.train(LINES, 60, True)
    return model


def test_samples_begin_with_the_text_and_depend_on_the_seed_alone(monkeypatch):
    write = vt.pipeline("text-generation", build("gpt_tiny"))
    answer = write("A  Dog", samples=5)
    assert [list(row) for row in answer] == [["generated_text"]] * 5
    assert all(row["generated_text"].startswith("a dog") for row in answer)
    assert len({row["generated_text"] for row in answer}) > 1
    assert write(["two", "A dog"], samples=5)[1] == answer
    assert write("A dog", samples=5, seed=1) != answer
    monkeypatch.setattr(text_generation, "AT_ONCE", 2)
    assert len(write("A dog", samples=5)) == 5
    assert len(write("")) == 1  # from nothing


def test_the_likeliest_words_are_greedy_decodings():
    model = build("gpt_tiny")
    ids = model.tokenizer.encode("two dogs")
    allow = torch.arange(90) < len(model.tokenizer)
    allow[[0, 1, 3, 4]] = False
    found = greedy(model, 1, longest=3, prompt=torch.tensor([[BEGIN, *ids]]), allow=allow)[0].tolist()
    answer = vt.pipeline("text-generation", model)("two dogs", temperature=0.0, longest=3)
    assert answer == [{"generated_text": model.tokenizer.decode([*ids, *found])}]


def test_no_token_without_a_piece_is_drawn():
    model = build("gpt_tiny")
    for row in vt.pipeline("text-generation", model)("a", samples=50, temperature=50.0):
        assert "⁇" not in row["generated_text"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"samples": 0}, "samples and longest must be at least 1"),
        ({"longest": 0}, "samples and longest must be at least 1"),
        ({"temperature": -1.0}, "temperature must be a number from 0 up"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 1.5}, r"top_p in \(0, 1\]"),
    ],
)
def test_wrong_numbers(how, message):
    with pytest.raises(vt.VitrailError, match=message):
        vt.pipeline("text-generation", build("gpt_tiny"))("a", **how)


def test_hidden_words_and_their_probabilities():
    model = build("bert_tiny", longest=12)
    fill = vt.pipeline("fill-mask", model)
    first, last = model.tokenizer.encode("a"), model.tokenizer.encode("barks")
    rows = fill("A <mask> barks", top_k=3)
    read = torch.tensor([[*first, MASK, *last, END]])
    expected = model(read)[0, len(first)].softmax(dim=-1)
    assert [sorted(row) for row in rows] == [["score", "sequence", "token", "token_str"]] * 3
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    for row in rows:
        assert row["score"] == pytest.approx(expected[row["token"]].item(), abs=1e-6)
        assert 5 <= row["token"] < len(model.tokenizer)
        assert row["token_str"] == model.tokenizer.decode([row["token"]])
        assert row["sequence"] == model.tokenizer.decode([*first, row["token"], *last])
    assert rows[0]["score"] == pytest.approx(expected[5 : len(model.tokenizer)].max().item(), abs=1e-6)
    assert fill(["A <mask> barks", "<mask>"], top_k=3)[0] == rows


def test_marks_stand_behind_a_hidden_word_as_behind_any_other():
    fill = vt.pipeline("fill-mask", build("bert_tiny"))
    tokenizer = fill.tokenizer
    dot = tokenizer.encode("x.")[-1]
    assert fill.read("two <mask>.") == ([*tokenizer.encode("two"), MASK, dot, END], [len(tokenizer.encode("two"))])
    two = fill("<mask> dogs <mask>", top_k=1)
    assert [len(rows) for rows in two] == [1, 1]
    assert two[0][0]["sequence"].endswith("dogs <mask>")
    assert two[1][0]["sequence"].startswith("<mask> dogs")


def test_wrong_input():
    fill = vt.pipeline("fill-mask", build("bert_tiny"))
    with pytest.raises(vt.VitrailError, match='nothing is hidden in "a dog": write <mask>'):
        fill("a dog")
    with pytest.raises(vt.VitrailError, match="is too long: the model reads 15"):
        fill("<mask> " * 16)
    with pytest.raises(vt.VitrailError, match="top_k must be at least 1"):
        fill("<mask>", top_k=0)
    with pytest.raises(vt.VitrailError, match="does not fill in hidden words"):
        vt.pipeline("fill-mask", build("gpt_tiny"))
    with pytest.raises(vt.VitrailError, match="does not go on with a text"):
        vt.pipeline("text-generation", build("bert_tiny"))
    model = build("gpt_tiny")
    model.tokenizer = None
    with pytest.raises(vt.VitrailError, match="has no tokenizer"):
        vt.pipeline("text-generation", model)
