"""`vitrail explain` on runs that read text: figures and a page for each sentence, and one line for what cannot be shown."""

import re
from pathlib import Path

import pytest
import torch

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.run.explain import explain
from vitrail.tasks import registry
from vitrail.tasks.verb_options import SentenceExplainOptions

LINES = ["ein hund läuft weil er will", "the animal runs because it wants to"]


def explain_sentences(run: str, sentences: list[str], options: SentenceExplainOptions):
    """As the command does it, by the run's own task."""
    return explain(run, sentences, options, task=registry.task_of(Path(run)))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model folder of each kind, of random weights."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = BytePairs.train(LINES, 50)
    sizes = {"vocabulary": len(tokenizer), "width": 8, "heads": 2, "depth": 2, "hidden": 9, "longest": 24}
    for name, options in (("transformer_tiny", {"decoder_depth": 3}), ("gpt_tiny", {}), ("bert_tiny", {})):
        torch.manual_seed(0)
        model = vt.create_model(name, **sizes, **options)
        model.tokenizer = tokenizer
        vt.save(model, folder / name)
    return folder


def test_a_page_with_every_kind_of_attention(models, tmp_path, command):
    out = tmp_path / "look"
    answer = command("explain", str(models / "transformer_tiny"), LINES[0], "", "<script>hund</script>", "--out", str(out))
    assert answer.code == 2
    assert answer.out.splitlines() == ["2 of 3 sentences, explained by attention", f"page: {out / 'index.html'}"]
    assert 'vitrail: "": there is no word in the sentence' in answer.err
    page = (out / "index.html").read_text(encoding="utf-8")
    names = ("alignment", "alignment_heads", "encoder_word", "encoder_lines", "encoder_heads", "decoder_word", "decoder_lines")
    for name in names:
        assert f'href="sentence_0/{name}.svg"' in page
        assert (out / f"sentence_1/{name}.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "What “er” attends to: self-attention of the encoder" in page
    assert len(re.findall("<script", page)) == 1  # the page's own


@pytest.mark.parametrize(("name", "kinds"), [("gpt_tiny", {"decoder"}), ("bert_tiny", {"encoder"})])
def test_language_models_have_their_own_figures(models, tmp_path, name, kinds):
    assert registry.task_of(models / name) == "language"
    done = explain_sentences(
        str(models / name), [LINES[1]], SentenceExplainOptions(out=str(tmp_path / "look"), word=2, layer=-1)
    )
    assert done.errors == ()
    files = {path.name for path in (tmp_path / "look/sentence_0").iterdir()}
    assert files == {f"{kind}_{figure}.svg" for kind in kinds for figure in ("word", "lines", "heads")}
    page = done.page.read_text(encoding="utf-8")
    assert ("What “animal” attends to" if name == "gpt_tiny" else "What “runs” attends to") in page  # <begin> is word 0
    assert "layer 1, mean over the heads" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"word": 40}, "word 40 does not exist: the sentence has 7, 0 to 6"),
        ({"layer": 2}, "layer 2 does not exist: the self-attention of the encoder has 2, 0 to 1"),
        ({"head": -3}, "head -3 does not exist"),
        ({"limit": 0}, "--limit must be at least 1"),
    ],
)
def test_bad_choices_in_one_line(models, tmp_path, options, message):
    with pytest.raises(VitrailError, match=re.escape(message)) as caught:
        explain_sentences(
            str(models / "transformer_tiny"), LINES[:1], SentenceExplainOptions(out=str(tmp_path / "look"), **options)
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "look").exists()


@pytest.mark.parametrize(("words", "option"), [
    (("--head", "max"), "--head"), (("--query", "1", "2"), "--query"), (("--method", "rollout"), "--method"),
])  # fmt: skip
def test_options_of_images_are_refused_in_one_line(models, tmp_path, command, words, option):
    answer = command("explain", models / "transformer_tiny", LINES[0], "--out", tmp_path / "look", *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert option in answer.err
    assert not (tmp_path / "look").exists()


def test_a_sentence_too_long_is_named_and_a_word_is_for_text(models, tmp_path, command):
    with pytest.raises(VitrailError, match=r"a sequence of .* tokens is too long: the model's longest is 24"):
        explain_sentences(str(models / "bert_tiny"), ["hund " * 30], SentenceExplainOptions(out=str(tmp_path / "look")))
    vt.save(vt.create_model("vit_nano_patch4_32"), tmp_path / "vit")
    assert registry.task_of(tmp_path / "vit") == "classify"
    answer = command("explain", tmp_path / "vit", "x.png", "--out", tmp_path / "look", "--word", 1)
    assert answer.code == 2
    assert "--word" in answer.err
    assert not (tmp_path / "look").exists()
