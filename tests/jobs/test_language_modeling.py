"""Language modeling as a job: files of text in, perplexity out."""

import json
import math
import signal
from pathlib import Path

import pytest
import yaml

import vitrail as vt
from vitrail.data.text.line_batches import LineBatches
from vitrail.jobs import language_modeling

SMALL = {"task": "language", "epochs": 2, "batch_tokens": 64, "longest": 16, "vocabulary": 40, "seed": 3}


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
        patch.setattr("vitrail.report.run_parts.draw_curves", lambda history, panels: None)
        patch.setattr("vitrail.report.run_parts.to_svg", lambda figure: "<svg/>")
        vt.train(data=text, out=out, quiet=True, masked=request.param, **SMALL)
    return out


def test_the_files_of_a_run(run, command):
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]))
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"] == ("bert_tiny" if config["masked"] else "gpt_tiny")
    assert config["smoothing"] == 0.0
    assert "auto" not in config.values()
    assert not {"rotate", "beams", "source"} & config.keys()
    model = vt.load(run)
    assert model.config.causal is not config["masked"]
    page = (run / "report.html").read_text()
    assert f"test perplexity {metrics['perplexity']:.2f}" in page
    kind = "Masked" if config["masked"] else "Causal"
    assert f"# {kind} language model (language)" in (run / "best" / "README.md").read_text()
    answer = command("runs", run)
    assert "likelihood" in answer.out


def test_eval_gives_the_numbers_of_the_run(run, text, command):
    answer = command("eval", run)
    assert answer.code == 0, answer.err
    metrics = json.loads((run / "metrics.json").read_text())
    assert answer.out.splitlines()[-1] == f"test perplexity {metrics['perplexity']:.2f}"
    other = json.loads(command("eval", run / "best", "--data", text, "--split", "val", "--json").out)
    assert other["perplexity"] > 1


def test_a_stopped_run_goes_on_bit_for_bit(run, text, tmp_path, monkeypatch):
    masked, fetched = yaml.safe_load((run / "config.yaml").read_text())["masked"], 0
    monkeypatch.setattr("vitrail.report.language.write_language_report", lambda report, path: None)

    class Stopping(LineBatches):
        def batches(self, epoch=0, start=0):
            nonlocal fetched
            for batch in super().batches(epoch, start):
                if self.shuffle:
                    fetched += 1
                    if fetched == 3:
                        signal.raise_signal(signal.SIGTERM)
                yield batch

    with monkeypatch.context() as patch:
        patch.setattr(language_modeling, "LineBatches", Stopping)
        with pytest.raises(BaseException, match="SIGTERM"):
            vt.train(data=text, out=tmp_path / "run", quiet=True, masked=masked, **SMALL)
    vt.train(data=text, out=tmp_path / "run", resume=True, quiet=True)
    for name in ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "metrics.json"):
        assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes(), name


def test_a_model_of_the_other_kind_is_refused(text, command):
    answer = command("train", "--task", "language", "--data", text, "--model", "bert_tiny")
    assert answer.err == "vitrail: --model bert_tiny does not fit --task language; gpt_tiny does\n"
    answer = command("train", "--task", "language", "--data", text, "--source", "de")
    assert answer.err == "vitrail: --source is about translation: --task language has none\n"
