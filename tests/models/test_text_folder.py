"""Folders of models that read text: the tokenizer goes with the weights, and garbage is refused in one line."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.models.folder import CONFIG, README, TOKENIZER, WEIGHTS, load, save
from vitrail.run.card import card, describe_measures
from vitrail.tasks import registry

SMALL = {"width": 12, "heads": 3, "hidden": 20, "depth": 1, "vocabulary": 40, "longest": 16}
KINDS = {
    "transformer_tiny": {**SMALL, "decoder_depth": 2},
    "transformer_base": {**SMALL, "decoder_depth": 1, "tied": False, "position": "rotary"},
    "gpt_tiny": {**SMALL, "position": "learned_1d"},
    "bert_tiny": {**SMALL, "position": "none"},
}
LINES = ["ein hund bellt", "a dog barks", "zwei Hunde", "two dogs"]
MEASURED = describe_measures("translate", {"bleu": 0.3812}, None)


def build(name):
    torch.manual_seed(1)
    model = vt.create_model(name, **KINDS[name]).eval()
    model.tokenizer = BytePairs.train(LINES, 40, True)
    return model


def answer(model):
    ids = torch.tensor([[1, 7, 9, 2], [1, 8, 2, 0]])
    with torch.inference_mode():
        return model(ids, ids) if hasattr(model, "encode") else model(ids)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save(build("transformer_tiny"), tmp_path_factory.mktemp("models") / "text")


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_model_is_the_saved_one_with_its_tokenizer(name, tmp_path):
    model = build(name)
    save(model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {CONFIG, WEIGHTS, TOKENIZER, README}
    again = load(tmp_path)
    assert (again.config, again.labels, again.preprocessing) == (model.config, None, None)
    assert again.tokenizer.to_json() == model.tokenizer.to_json()
    assert again.tokenizer.encode("Ein HUND") == model.tokenizer.encode("ein hund")
    assert torch.equal(answer(again), answer(model))
    assert all(not tensor.is_meta for tensor in (*again.parameters(), *again.buffers()))
    trained = again.train()
    trained.head.weight.sum().backward()  # what is tied stays tied
    assert (trained.words.table.weight.grad is not None) is model.config.tied


def test_a_model_without_a_tokenizer_is_saved_without_one(tmp_path):
    model = build("gpt_tiny")
    model.tokenizer = None
    save(model, tmp_path)
    assert not (tmp_path / TOKENIZER).exists()
    assert "tokenizer" not in json.loads((tmp_path / CONFIG).read_text())
    assert load(tmp_path).tokenizer is None


def rewrite(folder, **changes):
    found = json.loads((folder / CONFIG).read_text()) | changes
    (folder / CONFIG).write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preprocessing": {"size": [8, 8]}}, "a model of the kind transformer reads no images: preprocessing must be null"),
        ({"labels": ["a", "b"]}, "a model of the kind transformer has no classes to label"),
        ({"tokenizer": "../../secret"}, 'the key "tokenizer" must be "tokenizer.json", got \'../../secret\''),
        ({"tokenizer": 3}, 'the key "tokenizer" must be "tokenizer.json", got 3'),
    ],
)
def test_what_is_not_about_text_is_refused(folder, changes, message):
    rewrite(folder, **changes)
    with pytest.raises(VitrailError) as caught:
        load(folder)
    assert str(caught.value) == f"{folder / CONFIG}: {message}"


def test_a_model_of_images_has_no_words(tmp_path):
    save(vt.create_model("vit_nano_conv", width=12, depth=1, heads=3, image_size=8, num_classes=2), tmp_path)
    rewrite(tmp_path, tokenizer=TOKENIZER)
    with pytest.raises(VitrailError, match="reads no text"):
        load(tmp_path)
    rewrite(tmp_path, tokenizer=None, preprocessing=None)
    with pytest.raises(VitrailError, match="preprocessing is missing"):
        load(tmp_path)


def test_a_missing_or_too_large_tokenizer_is_named(folder):
    (folder / TOKENIZER).unlink()
    with pytest.raises(VitrailError, match=r"tokenizer\.json: missing"):
        load(folder)
    model = build("transformer_tiny")
    model.tokenizer = BytePairs.train([*LINES, "xylophon quatsch wörter"], 60)
    with pytest.raises(VitrailError, match=r"the tokenizer has .* pieces, the model knows 40"):
        save(model, folder)


def test_broken_tokenizers_give_one_line_or_a_model(folder):
    content, rng, loaded = (folder / TOKENIZER).read_bytes(), random.Random(4), 0
    for _ in range(120):
        data = bytearray(content)
        for _ in range(rng.choice((1, 1, 3))):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(3)] = rng.choice((b"", b"9", b'"', b"null", b"[", b"\xff", b"\\", b"}"))
        (folder / TOKENIZER).write_bytes(bytes(data))
        try:
            load(folder).tokenizer.encode("ein hund")
        except VitrailError as error:
            assert str(folder) in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
        else:
            loaded += 1
    assert 0 < loaded < 120, "a fuzz that breaks nothing, or everything, tests nothing"


@pytest.mark.parametrize(
    ("name", "tag"), [*zip(KINDS, ["translation", "translation", "text-generation", "fill-mask"], strict=True)]
)
def test_the_card_says_what_it_is_for(name, tag):
    model = build(name)
    assert model.pipeline_tag == tag
    facts = {"languages": ("de", "en"), "data": "x/pairs", "signature": "case:lc|tok:13a", **MEASURED}
    page = card(model, facts, task=registry.task_by_architecture(model.architecture))
    assert f"pipeline_tag: {tag}" in page
    for words in (
        "BLEU on test: **38.12**",
        "`case:lc|tok:13a`",
        "| BLEU | 38.12 |",
        "value: 38.12",
        "It translates `de` to `en`",
    ):
        assert words in page
    assert ("vitrail translate" in page) is (tag == "translation")
    assert ("vitrail complete" in page) is (tag == "text-generation")
    assert f'vt.pipeline("{tag}", ' in page
    assert tag in registry.list_pipelines(), "what the card announces can be had"
    assert "lower-cased" in page
