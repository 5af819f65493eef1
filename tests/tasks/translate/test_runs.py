"""Translation trained: the run's files, exact resumption, eval, `vitrail translate`, and what is refused."""

import csv
import io
import json
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
import yaml
from stopping import stop_at

import vitrail as vt
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run import plan
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.special_tokens import PAD
from vitrail.tasks.classify.options import RECIPES
from vitrail.tasks.options import check, to_store
from vitrail.tasks.text_task import TEXT_RECIPES, choose_text_recipe
from vitrail.tasks.translate.options import Options
from vitrail.tasks.translate.task import TASK

SMALL = {
    "task": "translate",
    "epochs": 2,
    "batch_tokens": 48,
    "seed": 5,
    "vocabulary": 40,
    "max_length": 16,
    "num_beams": 2,
    "ema": 0.9,
}
SAME = (
    "best/model.safetensors",
    "last/model.safetensors",
    "metrics.jsonl",
    "hypotheses.txt",
    "predictions.csv",
    "metrics.json",
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Path:
    """A folder of parallel text: the same words, in capitals."""
    folder = tmp_path_factory.mktemp("text") / "tiny"
    folder.mkdir()
    words = ["ab", "cd", "ef", "gh"]
    for split, count in (("train", 36), ("val", 5), ("test", 7)):
        lines = [" ".join(words[(i + j * j) % 4] for j in range(1 + i % 4)) for i in range(count)]
        (folder / f"{split}.lo").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{split}.up").write_text("".join(f"{line.upper()}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def run(pairs, tmp_path_factory) -> Path:
    """Two epochs in one go. Shared: tests only read it."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    vt.train(data=pairs, out=out, quiet=True, **SMALL)
    return out


def test_the_files_of_a_run(run, pairs):
    metrics = json.loads((run / "metrics.json").read_text())
    written = (run / "hypotheses.txt").read_text().splitlines()
    expected = sacrebleu.corpus_bleu(written, [(pairs / "test.up").read_text().splitlines()]).score / 100
    assert expected > 0, "the run must have learned enough to be scored"
    assert metrics["bleu"] == pytest.approx(expected)
    assert "tok:13a" in metrics["signature"]
    assert len((run / "hypotheses.txt").read_text().splitlines()) == 7
    rows = list(csv.DictReader((run / "predictions.csv").open()))
    assert [row["source"] for row in rows] == (pairs / "test.lo").read_text().splitlines()
    assert [row["reference"] for row in rows] == (pairs / "test.up").read_text().splitlines()
    assert [row["hypothesis"] for row in rows] == (run / "hypotheses.txt").read_text().splitlines()
    page = (run / "report.html").read_text()
    for words in ("test BLEU", "Sentences", "Length", "vitrail translate", metrics["signature"]):
        assert words in page
    card = (run / "best" / "README.md").read_text()
    assert "It translates `lo` to `up`." in card
    assert metrics["signature"] in card
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["source"], config["target"], config["model"]) == ("lo", "up", "transformer_tiny")
    assert not config.keys() & {"image_size", "in_channels", "batch_size", "workers", "rotate", "mixup"}, "nothing about images"
    assert "auto" not in config.values()
    assert to_store(read_options(run / "config.yaml")) == config


def test_the_best_model_reads_text_by_itself(run):
    model = vt.load(run)
    assert model.tokenizer.to_json() + "\n" == (run / "tokenizer.json").read_text() == (run / "best/tokenizer.json").read_text()
    assert len(model.tokenizer) == model.vocabulary


@pytest.fixture
def no_page(monkeypatch):
    """A run without report.html, whose figures take longest."""
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: None)


@pytest.mark.parametrize("step", [2])  # in the first epoch; in the second: the conformance suite
def test_a_stopped_run_goes_on_bit_for_bit(run, pairs, tmp_path, monkeypatch, step, no_page):
    with monkeypatch.context() as patch:
        stop_at(patch, step, where="vitrail.tasks.translate.data")
        with pytest.raises(BaseException, match="SIGINT"):
            vt.train(data=pairs, out=tmp_path / "run", quiet=True, **SMALL)
    assert not (tmp_path / "run" / "metrics.json").exists()
    vt.train(data=pairs, out=tmp_path / "run", resume=True, quiet=True, task="translate")
    for name in SAME:
        assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes(), name


def test_a_finished_run_says_so(run, command):
    answer = command("train", "--out", run, "--resume")
    assert answer.code == 0, answer.err
    assert "is finished" in answer.out
    assert answer.out.splitlines()[-1].startswith("test BLEU ")


def test_eval_gives_the_numbers_of_the_run(run, pairs, command, tmp_path):
    answer = command("eval", run, "--json")
    assert answer.code == 0, answer.err
    stored = json.loads((run / "metrics.json").read_text())
    again = json.loads(answer.out)
    assert {name: again[name] for name in ("bleu", "exact_match")} == {name: stored[name] for name in ("bleu", "exact_match")}
    assert again["loss"] == pytest.approx(stored["loss"], abs=1e-5)
    assert again["split"] == "test"
    answer = command("eval", run / "best", "--data", pairs, "--split", "val", "--num-beams", 1, "--out", tmp_path / "scores")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[-1].startswith("val BLEU ")
    assert len((tmp_path / "scores" / "hypotheses.txt").read_text().splitlines()) == 5
    shutil.copytree(run / "best", tmp_path / "alone")
    assert "give --data" in command("eval", tmp_path / "alone").err
    assert command("eval", tmp_path / "alone", "--data", pairs).code == 0, "a model folder knows what it is for"


def test_the_options_of_a_run_can_be_read_as_words(run, tmp_path, command, monkeypatch):
    seen = []
    monkeypatch.setattr("vitrail.run.folds.run_training", lambda options, **_: seen.append(options) or _stop())
    answer = command("train", "--config", run / "config.yaml")
    assert answer.code == 2
    assert seen == [read_options(run / "config.yaml")]


def _stop():
    raise VitrailError("that was all")


@pytest.mark.parametrize(
    "wishes", [{}, {"model": "gru_seq2seq_tiny"}, {"model": "cmlm_tiny"}, {"weights": "the run's"}], ids=str
)
def test_a_run_can_be_repeated_from_its_config(run, pairs, tmp_path, wishes):
    """As the command line reads it, with every check, and with the same weights to begin with."""
    asked = {**SMALL, **wishes}
    if "weights" in wishes:
        asked = {"task": "translate", "epochs": 1, "batch_tokens": 48, "weights": str(run)}
    first = _prepare(Options(data=str(pairs), **asked))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_store(first.options)))
    options = read_options(tmp_path / "config.yaml")
    check(options)
    again = _prepare(options.normalize())
    assert to_store(again.options) == to_store(first.options)
    for one, other in zip(again.model.parameters(), first.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_pairs_that_are_not_learned_from_are_reported_once(pairs, capsys):
    setup = prepare(Options(data=str(pairs), **{**SMALL, "max_length": 4}), ProgressBar(), resumed=None)
    training, _ = TASK.loaders(setup, World())
    assert training.source.skipped.total > 0
    reported = capsys.readouterr().out
    assert reported.count("left out") == 1
    assert (
        f"of the training pairs {training.source.skipped.total} left out: {training.source.skipped.total} longer than 4 tokens"
        in reported
    )


def test_eval_of_other_text_reads_what_is_there(run, pairs, tmp_path, command):
    for name in ("test.lo", "test.up"):
        shutil.copy(pairs / name, tmp_path / name)
    assert vt.evaluate(run, data=tmp_path) == pytest.approx(vt.evaluate(run), abs=1e-5)
    answer = command("eval", run, "--data", tmp_path, "--split", "val")
    assert (answer.code, answer.err) == (2, f'vitrail: {tmp_path.name} has no split "val": it has test\n')


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-beams", "-1"], "--num-beams must be at least 1, got -1"),
        (["--num-beams", "0"], "--num-beams must be at least 1, got 0"),
        (["--workers", "2"], "--workers is an option of "),
        (["--bad-files", "0.5"], "--bad-files is an option of "),
    ],
)
def test_what_eval_cannot_use_is_refused(run, command, words, message):
    answer = command("eval", run, *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith(f"vitrail: {message}")


def test_evaluate_takes_beams_and_no_bad_files(run):
    assert vt.evaluate(run, num_beams=2)["bleu"] == json.loads((run / "metrics.json").read_text())["bleu"]
    with pytest.warns(VitrailWarning, match="--beams is now --num-beams"):
        assert vt.evaluate(run, beams=2)["bleu"] == json.loads((run / "metrics.json").read_text())["bleu"]
    with pytest.raises(VitrailError, match="--num-beams must be at least 1, got 0"):
        vt.evaluate(run, num_beams=0)
    with pytest.raises(VitrailError, match="bad_files"):
        vt.evaluate(run, bad_files=0.5)


def test_runs_lists_it(run, command):
    answer = command("runs", run)
    assert "finished" in answer.out
    assert " BLEU" in answer.out


def test_translate_keeps_order_and_empty_lines(run, command, monkeypatch):
    one = command("translate", run, "ab cd", "--beams", 2)
    assert one.code == 0, one.err
    lines = b"ef\n\nab cd\ngh gh\n"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(lines), isatty=lambda: False))
    many = command("translate", run, "--batch", 2, "--beams", 2)
    assert many.code == 0, many.err
    out = many.out.split("\n")
    assert len(out) == 5
    assert out[1] == ""
    assert out[2] + "\n" == one.out, "alone or among others: the same answer"
    answer = json.loads(command("translate", run, "ab cd", "", "--json", "--beams", 2).out)
    assert answer == [{"translation_text": out[2]}, {"translation_text": ""}]
    assert vt.pipeline("translation", run)("ab cd", beams=2) == answer[:1]
    assert vt.pipeline("translation", vt.load(run))(["ab cd", ""], beams=2) == answer


def test_translate_names_what_it_could_not_read(run, command, monkeypatch):
    answer = command("translate", run, "ab Ω", " ".join(["ab"] * 50), "E=mc")
    assert answer.code == 0
    assert len(answer.out.split("\n")) == 4
    assert "line 1: 1 of " in answer.err
    assert "never seen in training" in answer.err
    assert "line 2: cut: " in answer.err
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"ab\ncd \xff\nef\n"), isatty=lambda: False))
    answer = command("translate", run)
    assert answer.code == 2
    assert answer.err == "vitrail: standard input: line 2 is not UTF-8 text (byte 0xff)\n"
    assert len(answer.out.split("\n")) == 2, "the line before is answered"
    assert "--num-beams must be at least 1, got 0" in command("translate", run, "ab", "--beams", 0).err
    assert "--batch-size must be at least 1, got 0" in command("translate", run, "ab", "--batch", 0).err


def test_predict_is_translate_with_the_options_of_the_task(run, command):
    words = (run, "ab cd", "ab Ω", " ".join(["ab"] * 50))
    answer = command("predict", *words, "--num-beams", 2)
    assert answer.code == 0
    assert answer.out == command("translate", *words, "--beams", 2).out
    assert "input 2: 1 of " in answer.err
    assert "input 3: cut: " in answer.err
    assert json.loads(command("predict", run, "ab cd", "--json").out) == vt.pipeline("translation", run)("ab cd")


def test_translate_on_a_device(run, command):
    assert command("translate", run, "ab", "--device", "cpu").out == command("translate", run, "ab").out
    answer = command("translate", run, "ab", "--device", "abacus")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert 'unknown device "abacus"' in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rotate", "5"], "--rotate is an option of --task "),
        (["--batch-size", "8"], "--batch-size is an option of --task "),
        (["--masked"], "--masked is an option of --task language"),
        (["--model", "vit_nano_conv"], "--model vit_nano_conv does not fit --task translate; transformer_tiny does"),
        (["--model", "gpt_tiny"], "--model gpt_tiny does not fit --task translate"),
        (["--source", "xx"], 'unknown source language "xx"'),
        (["--recipe", "large"], "large"),
        (["--max-length", "1"], "--max-length must be at least 2"),
        (["--dropout", "1"], "--dropout must be in [0, 1)"),
        (["--shard"], "--shard"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(pairs, command, tmp_path, words, message):
    answer = command("train", "--task", "translate", "--data", pairs, "--out", tmp_path / "run", *words)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_options_of_text_are_refused_for_images(command, arrays):
    answer = command("train", "--data", arrays, "--lower")
    assert (answer.code, answer.err) == (2, "vitrail: --lower is an option of --task translate, language and caption only\n")
    answer = command("train", "--data", arrays, "--model", "transformer_tiny")
    assert "is no classifier of images" in answer.err


def test_weights_bring_their_tokenizer(run, pairs, tmp_path, command, no_page):
    again = vt.train(task="translate", data=pairs, weights=run, epochs=1, batch_tokens=200, out=tmp_path / "tuned", quiet=True)
    assert again.model.tokenizer.to_json() == vt.load(run).tokenizer.to_json()
    config = yaml.safe_load((tmp_path / "tuned" / "config.yaml").read_text())
    assert (config["recipe"], config["vocabulary"], config["max_length"]) == ("finetune", again.model.vocabulary, 16)
    answer = command("train", "--task", "translate", "--data", pairs, "--weights", run, "--vocabulary", 50)
    assert "--weights brings its own model: --vocabulary cannot be given beside it" in answer.err
    with pytest.raises(VitrailError, match="does not translate"):
        vt.pipeline("translation", vt.create_model("gpt_tiny", width=8, depth=1, heads=1, hidden=8, vocabulary=9))


def test_a_learning_rate_can_be_found(pairs, tmp_path, monkeypatch):
    """Before the first step, with model and generators as before."""
    monkeypatch.setattr(plan, "run_range_test", partial(plan.run_range_test, steps=12))
    setup = _prepare(Options(data=str(pairs), **{**SMALL, "lr": "auto"}))
    before = [parameter.clone() for parameter in setup.model.parameters()]
    rate = plan.find_rate(TASK, setup, tmp_path, _bar())
    assert 0 < rate < 10
    assert all(a.equal(b) for a, b in zip(before, setup.model.parameters(), strict=True))


def _bar():
    return ProgressBar(quiet=True)


def _prepare(options):
    return prepare(options, _bar(), resumed=None)


def test_batches_have_the_tokens_of_the_recipe_unless_the_text_is_short(pairs):
    setup = _prepare(Options(data=str(pairs)))
    tokens = setup.options.batch_tokens
    assert 16 <= tokens < TEXT_RECIPES["tiny"]["batch_tokens"]
    training, _ = TASK.loaders(setup, World())
    assert len(training) >= 6, "about eight steps an epoch"
    assert all((batch.target != PAD).sum() <= tokens + len(batch.target) for batch in training.batches())


def test_recipes_of_text_are_chosen_by_size():
    assert [choose_text_recipe(n) for n in (1, 100_000, 100_001, 10**6, 10**6 + 1)] == [
        "tiny",
        "tiny",
        "small",
        "small",
        "medium",
    ]
    assert choose_text_recipe(1, pretrained=True) == "finetune"
    assert set(TEXT_RECIPES) <= set(RECIPES)
