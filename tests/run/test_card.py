"""README.md of a model folder: machines and people can read it, whatever the labels are called."""

import re
import socket
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

import vitrail as vt
from vitrail.models.markdown import block, literal, plain
from vitrail.models.readme import README, describe_preprocessing
from vitrail.preprocessing import Preprocessing
from vitrail.run.card import card as card_of
from vitrail.run.card import describe_measures, write_card

HOSTILE = (
    "cat\n---\nlibrary_name: evil",
    "\"quoted\" 'twice'",
    "```\n# loud",
    "<script>alert(1)</script>",
    "a: b # c",
    "\u202eevil",
    "مرحبا",
)
FACTS = {
    "data": "digits",
    "images": {"train": 1297, "val": 140, "test": 360},
    "recipe": "30 epochs, batch 64, lr 0.001",
    "split": "test",
    "limits": ["Only gray images."],
    **describe_measures(
        "classify", {"loss": 0.05, "accuracy": 0.98611, "macro_f1": 0.97, "ece": float("nan")}, (0.9722, 0.9972)
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    model = vt.create_model(
        "vit_nano_conv", width=12, depth=2, heads=3, image_size=(10, 14), in_channels=1, num_classes=len(HOSTILE)
    )
    model.labels = HOSTILE
    return model


def card(model, facts=None):
    return card_of(model, facts, task="classify")


def split(text):
    """Front matter and page, by the rule of Hugging Face and of static-site generators."""
    found = re.match(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL)
    assert found
    return yaml.safe_load(found[1]), found[2]


def outside_code(page):
    """The page without its blocks of code, which begin and end with a line of the same backticks."""
    kept, fence = [], None
    for line in page.split("\n"):
        run = re.match(r"`{3,}", line)
        if fence is None and run:
            fence = run[0]
        elif fence is not None and line == fence:
            fence = None
        elif fence is None:
            kept.append(line)
    assert fence is None, "every block is closed"
    return "\n".join(kept)


def test_hostile_labels_stay_where_they_belong(model):
    header, page = split(card(model))
    assert header == {"library_name": "vitrail", "pipeline_tag": "image-classification", "tags": ["vision", "vit"]}
    assert "  0  cat --- library_name: evil\n" in page
    assert "  6  مرحبا\n" in page
    assert not any(word in outside_code(page) for word in ("evil", "<script>", "# loud", "quoted"))
    assert "\u202e" not in page


def test_what_it_says_without_facts(model):
    page = split(card(model))[1]
    assert page.startswith("# Image classifier (vit)\n")
    for words in (
        "parameters, images of 10x14 with 1 channel(s), 7 classes.", "width 12, depth 2, heads 3, tokenizer conv",
        "turned upright and to gray, resized until it just covers 10x14", "vitrail predict path/to/this/folder image.png",
        'vt.pipeline("image-classification", "path/to/this/folder")', "even for an image of something else",
    ):  # fmt: skip
        assert words in page
    assert "## Scores" not in page
    assert "## Training" not in page


def test_facts_are_reported_to_people_and_to_the_hub(model, tmp_path):
    write_card(tmp_path, model, FACTS, task="classify")
    text = (tmp_path / README).read_text(encoding="utf-8")
    page = split(text)[1]
    for words in (
        "- Data: `digits`", "- Images: 1,297 train, 140 val, 360 test", "- Recipe: `30 epochs, batch 64, lr 0.001`",
        "Accuracy on test: **98.61 %** (95 % interval 97.22 % to 99.72 %, by bootstrap).",
        "| Macro F1 | 97.00 % |", "- Only gray images.",
    ):  # fmt: skip
        assert words in page
    assert "nan" not in text
    results = ModelCard.load(tmp_path / README).data.eval_results  # Hugging Face's own reader
    assert [(r.metric_type, r.metric_value, r.dataset_name, r.dataset_split) for r in results] == [
        ("accuracy", 0.98611, "digits", "test"), ("loss", 0.05, "digits", "test"), ("macro_f1", 0.97, "digits", "test"),
    ]  # fmt: skip


def test_a_model_of_many_labels_and_one_of_none(model):
    several = vt.create_model("vit_nano_conv", width=12, depth=1, heads=3, num_classes=2)
    several.multi_label = True
    header, page = split(card(several, {"split": "val", **describe_measures("classify", {"map": 0.5}, None)}))
    assert header["tags"] == ["vision", "vit", "multi-label"]
    assert page.startswith("# Multi-label image classifier (vit)\n")
    assert "Mean average precision on val: **50.00 %**." in page
    assert "It knows 2 labels and nothing else; each has a score of its own" in page
    header, page = split(card(vt.create_model("vit_nano_conv", width=12, depth=1, heads=3, num_classes=0)))
    assert header["pipeline_tag"] == "image-feature-extraction"
    assert "features = model(images)" in page
    assert "vitrail predict" not in page


def test_an_interval_without_width_says_nothing(model):
    page = card(model, FACTS | describe_measures("classify", {"accuracy": 1.0}, (1.0, 1.0)))
    assert "Accuracy on test: **100.00 %**." in page


def test_nothing_of_the_machine_is_in_it(model, tmp_path):
    facts = FACTS | {"data": str(tmp_path / "pets"), "recipe": {"lr": 0.1, "weights": f"{tmp_path}/run"}}
    text = card(model, facts)
    assert "`pets`" in text
    assert "`lr 0.1, weights run`" in text
    assert card(model, FACTS | {"data": r"C:\Users\me\pets"}).count("`pets`") == 1
    for secret in (str(tmp_path), str(Path.home()) + "/", socket.gethostname()):
        assert secret not in text
    assert not re.search(r"20\d\d", text)
    assert text == card(model, facts)


def test_an_unknown_fact_is_refused(model):
    with pytest.raises(vt.VitrailError, match=r'unknown fact of a model card "metric": .*did you mean "metrics"'):
        card(model, {"metric": {}})


def test_a_thousand_labels_are_not_all_listed():
    large = vt.create_model("vit_nano_conv", width=12, depth=1, heads=3, num_classes=1000)
    large.labels = tuple(f"class {i}" for i in range(1000))
    page = card(large)
    assert " 99  class 99\n" in page
    assert "class 100" not in page
    assert "and 900 more: config.json has them all" in page


def test_preprocessing_in_words():
    words = describe_preprocessing(Preprocessing(size=(8, 9), mean=(0.1, 0.2, 1 / 3), fit="squash", interpolation="nearest"))
    assert words == (
        "turned upright and to RGB, resized to 8x9 (height x width), whatever its shape (nearest), scaled to [0, 1], "
        "then (x - mean) / std with mean 0.1, 0.2, 0.3333 and std 0.5, 0.5, 0.5"
    )


texts = st.one_of(st.text(max_size=30), st.text("`-\n\r\u2028 #x:\"'|<\ud800", max_size=30))


@given(st.lists(texts, min_size=len(HOSTILE), max_size=len(HOSTILE)), texts)
def test_any_names_at_all(model, labels, name):
    before = model.labels
    try:
        model.labels = tuple(labels)
        text = card(model, FACTS | {"data": name, "recipe": name, "split": name})
    finally:
        model.labels = before
    header, page = split(text.encode().decode())
    assert list(header) == ["library_name", "pipeline_tag", "tags", "metrics", "model-index"]
    assert [line for line in outside_code(page).split("\n") if line.startswith("#")] == [
        "# Image classifier (vit)", "## Labels", "## How to use it", "## Training", "## Scores", "## Limits",
    ]  # fmt: skip


@given(texts)
def test_code_shows_the_text_and_cannot_be_left(text):
    shown = literal(text)
    fence = re.match("`*", shown)[0]
    inside = shown[len(fence) : -len(fence)]
    assert shown.endswith(fence)
    assert inside.strip() == plain(text).strip()
    assert not re.search(f"(?<!`){fence}(?!`)", inside)
    lines = block([plain(text)], "text").split("\n")
    assert lines[0] == lines[-1] + "text"
    assert lines[-1] not in lines[1:-1]
