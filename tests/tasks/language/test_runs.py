"""Language models trained: files of text in, perplexity out."""

import json
import math
import signal
from pathlib import Path

import pytest
import yaml
from stopping import stop_at

import vitrail as vt
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.tasks.language.data import line_loader
from vitrail.tasks.language.objective import LanguageModeling
from vitrail.tasks.language.options import Options
from vitrail.tasks.language.task import TASK
from vitrail.tasks.options import check, to_store

SMALL = {"task": "language", "epochs": 2, "batch_tokens": 64, "max_length": 16, "vocabulary": 40, "seed": 3}


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "verses.txt"
    words = ["ab", "cd", "ef", "gh"]
    path.write_text("".join(" ".join(words[(i + j) % 4] for j in range(2 + i % 4)) + "\n" for i in range(60)))
    return path


@pytest.fixture(scope="module", params=[False, True], ids=["causal", "masked"])
def run(text, tmp_path_factory, request) -> Path:
    """Two epochs in one go. Shared: tests only read it."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.report.frame.draw_panels", lambda rows: [])
        vt.train(data=text, out=out, quiet=True, masked=request.param, **SMALL)
    return out


def test_the_files_of_a_run(run, command):
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"] == ("bert_tiny" if config["masked"] else "gpt_tiny")
    assert config["label_smoothing"] == 0.0
    assert "auto" not in config.values()
    assert not {"rotate", "num_beams", "source"} & config.keys()
    model = vt.load(run)
    assert model.config.causal is not config["masked"]
    page = (run / "report.html").read_text()
    assert f"test perplexity {metrics['perplexity']:.2f}" in page
    kind = "Masked" if config["masked"] else "Causal"
    assert f"# {kind} language model (language)" in (run / "best" / "README.md").read_text()
    answer = command("runs", run)
    assert "perplexity" in answer.out


def test_eval_gives_the_numbers_of_the_run(run, text, command):
    answer = command("eval", run)
    assert answer.code == 0, answer.err
    metrics = json.loads((run / "metrics.json").read_text())
    assert answer.out.splitlines()[-1] == f"test perplexity {metrics['perplexity']:.2f}"
    other = json.loads(command("eval", run / "best", "--data", text, "--split", "val", "--json").out)
    assert other["perplexity"] > 1


def test_a_stopped_run_goes_on_bit_for_bit(run, text, tmp_path, monkeypatch):
    masked = yaml.safe_load((run / "config.yaml").read_text())["masked"]
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: None)
    with monkeypatch.context() as patch:
        stop_at(patch, 3, by=lambda: signal.raise_signal(signal.SIGTERM), where="vitrail.tasks.language.data")
        with pytest.raises(BaseException, match="SIGTERM"):
            vt.train(data=text, out=tmp_path / "run", quiet=True, masked=masked, **SMALL)
    vt.train(data=text, out=tmp_path / "run", resume=True, quiet=True)
    for name in ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "metrics.json"):
        assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes(), name


def test_eval_of_another_text_reads_all_of_it(run, text, tmp_path, command):
    lines = text.read_text().splitlines()[:9]
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{line}\n" for line in lines))
    model, masked = vt.load(run), yaml.safe_load((run / "config.yaml").read_text())["masked"]
    every = line_loader(lines, model.tokenizer, masked=masked, tokens=64, longest=16, seed=SMALL["seed"])
    task = LanguageModeling(model, model.tokenizer, masked=masked)
    assert vt.evaluate(run, data=other)["loss"] == pytest.approx(task.evaluate(every.batches()).metrics["loss"], abs=1e-5)
    answer = command("eval", run, "--num-beams", 2)
    assert (answer.code, answer.err) == (2, "vitrail: --num-beams is an option of --task translate and caption only\n")


@pytest.mark.parametrize(
    ("wishes", "longest", "tokens"),
    [({"batch_tokens": 20}, 20, 20), ({"max_length": 300}, 300, 300), ({"batch_tokens": 300}, 256, 300)],
    ids=str,
)
def test_a_model_reads_what_it_learns_from(text, wishes, longest, tokens):
    setup = prepare(Options(data=str(text), vocabulary=40, **wishes), ProgressBar(quiet=True), resumed=None)
    assert (setup.options.max_length, setup.options.batch_tokens, setup.model.config.longest) == (longest, tokens, longest)
    assert {batches.source.longest for batches in TASK.loaders(setup, World())} == {longest}


def test_a_block_that_no_batch_can_hold_is_refused(text, command):
    answer = command("train", "--task", "language", "--data", text, "--max-length", 64, "--batch-tokens", 32)
    assert answer.err == "vitrail: --batch-tokens 32 cannot hold a block of --max-length 64 tokens\n"


def test_a_run_can_be_repeated_from_its_config(run, tmp_path, command, monkeypatch):
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: None)
    answer = command("train", "--config", run / "config.yaml", "--out", tmp_path / "again")
    assert answer.code == 0, answer.err
    for name in ("config.yaml", "last/model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes(), name


def test_what_a_config_says_needs_no_choice(run):
    options = read_options(run / "config.yaml")
    check(options)
    again = prepare(options.normalize(), ProgressBar(quiet=True), resumed=None)
    assert to_store(again.options) == yaml.safe_load((run / "config.yaml").read_text())


def test_complete_writes_on(run, command):
    words = ("complete", run, "ab cd", "a=b", "--samples", 3, "--max-length", 4)
    answer = command(*words)
    if yaml.safe_load((run / "config.yaml").read_text())["masked"]:
        assert answer.code == 2
        assert answer.err.count('nothing is hidden in "') == 2, "it fills in instead"
        assert len(vt.pipeline("fill-mask", run)("ab <mask> ef", top_k=2)) == 2
        return
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("ab cd") for line in lines[:3])
    assert command(*words).out == answer.out
    assert command(*words, "--seed", 1).out != answer.out
    assert [row["generated_text"] for row in vt.pipeline("text-generation", run)("ab cd", samples=3, longest=4)] == lines[:3]
    assert "--keep is an option of --task igpt only" in command(*words, "--keep", 0.25).err
    assert "--out is an option of --task" in command(*words, "--out", "x").err
    assert "--max-length must be at least 1" in command("complete", run, "ab", "--max-length", 0).err
    assert command("complete", run, "ab", "--longest", 4).out == command("complete", run, "ab", "--max-length", 4).out
    assert "leaves no room to go on: the model reads 16" in command("complete", run, " ".join(["ab"] * 40)).err


def test_predict_continues_or_fills_in(run, command):
    if yaml.safe_load((run / "config.yaml").read_text())["masked"]:
        answer = command("predict", run, "ab <mask> ef", "ab ef", "--json", "--top-k", 2)
        assert answer.code == 2
        assert "nothing is hidden" in answer.err
        assert json.loads(answer.out)[0] == vt.pipeline("fill-mask", run)("ab <mask> ef", top_k=2)
        assert len(command("predict", run, "ab <mask> <mask>").out.splitlines()) == 2
        return
    words = (run, "ab cd", "ef", "--samples", 3)
    answer = command("predict", *words, "--max-length", 4)
    assert answer.code == 0, answer.err
    assert answer.out == command("complete", *words, "--max-length", 4).out
    answer = command("predict", run, "ab", " ".join(["ab"] * 40), "--json", "--max-length", 4)
    assert answer.code == 2
    assert "leaves no room to go on: the model reads 16" in answer.err
    assert json.loads(answer.out)[0] == vt.pipeline("text-generation", run)("ab", samples=4, longest=4)


def test_a_model_of_the_other_kind_is_refused(text, command):
    answer = command("train", "--task", "language", "--data", text, "--model", "bert_tiny")
    assert answer.err == "vitrail: --model bert_tiny does not fit --task language; gpt_tiny does\n"
    answer = command("train", "--task", "language", "--data", text, "--source", "de")
    assert answer.err == "vitrail: --source is an option of --task translate only\n"
