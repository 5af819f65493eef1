"""Learning from pixels as a job: a run from its data to its report, again from its files, and completions by its model."""

import json
import re

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from stopping import stop_at

import vitrail as vt
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models import completion
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.run.train import train
from vitrail.tasks.igpt import predict
from vitrail.tasks.igpt.predict import unique_names
from vitrail.tasks.options import check, to_store

GRAYS = (0, 60, 130, 200, 255)


@pytest.fixture(scope="module")
def stripes(tmp_path_factory):
    """4x4 images in five grays, of two classes: rows that are alike, or columns."""
    generator, path = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "stripes.npz"
    parts = {}
    for split, count in (("train", 64), ("val", 12), ("test", 13)):
        lines = np.array(GRAYS, dtype=np.uint8)[generator.integers(0, 5, (count, 4))]
        labels = np.arange(count) % 2
        rows = np.repeat(lines[:, :, None], 4, axis=2)
        parts[f"x_{split}"] = np.where(labels[:, None, None] == 1, rows, rows.transpose(0, 2, 1))
        parts[f"y_{split}"] = labels
    np.savez(path, **parts)
    return path


@pytest.fixture
def no_probe(monkeypatch):
    """One probe is enough: it takes as long as the training of models this small."""
    monkeypatch.setattr("vitrail.tasks.igpt.task.probe_model", lambda *_, **__: "left out")


@pytest.fixture(scope="module")
def run(stripes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "pixels"
    return train(data=stripes, task="igpt", epochs=3, batch_size=16, device="cpu", out=folder, quiet=True)


def test_a_run_from_data_to_report(run):
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (options["model"], options["colors"], options["masked"], options["flip"]) == ("igpt_nano", 5, False, False)
    assert not {"mixup", "smoothing", "label_smoothing"} & options.keys()
    assert "vocabulary" not in options  # of text
    assert run.model.palette[:, 0].tolist() == list(GRAYS)
    assert json.loads((run.path / "metrics.json").read_text()) == {"split": "test", **run.metrics}
    assert 0 < run.metrics["bits_per_pixel"] < np.log2(5)  # better than guessing
    probe = json.loads((run.path / "probe.json").read_text())["probe"]
    assert len(probe["test"]) == len(probe["validation"]) == 4  # a share for each layer
    best = max(range(4), key=lambda layer: probe["validation"][layer])
    assert run.metrics["probe_accuracy"] == probe["test"][best]  # test does not choose the layer
    assert {round(13 * share, 6) for share in probe["test"]} <= set(range(14))  # shares of 13 images
    page = (run.path / "report.html").read_text()
    for words in ("Completions", "What the layers know", "bits per pixel", "vitrail complete", "5 colors, exact"):
        assert words in page
    card = (run.path / "best" / "README.md").read_text()
    assert "image GPT" in card or "Image gpt" in card
    assert "vitrail complete" in card


def test_the_model_folder_has_its_palette_and_scores_the_same(run, stripes):
    found = vt.evaluate(run.path)
    assert found["bits_per_pixel"] == pytest.approx(run.metrics["bits_per_pixel"], abs=1e-6)
    loaded = vt.load(run.path)
    assert torch.equal(loaded.palette, run.model.palette.cpu())
    assert loaded.architecture == "igpt"


@pytest.mark.usefixtures("no_probe")
def test_a_finished_run_is_finished_and_weights_begin_another(run, stripes, tmp_path):
    again = train(data=stripes, out=run.path, resume=True, quiet=True)
    assert again.metrics["bits_per_pixel"] == pytest.approx(run.metrics["bits_per_pixel"])
    other = train(
        data=stripes, task="igpt", weights=run.path, epochs=1, batch_size=16, device="cpu", out=tmp_path / "b", quiet=True
    )
    assert other.metrics["bits_per_pixel"] < run.metrics["bits_per_pixel"] + 0.2
    assert torch.equal(other.model.palette, run.model.palette)


@pytest.mark.usefixtures("no_probe")
@pytest.mark.parametrize("masked", [True])  # as it is without: the conformance suite
def test_a_stopped_run_goes_on_bit_for_bit(stripes, tmp_path, monkeypatch, masked):
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda *_: None)
    how = {
        "data": stripes,
        "task": "igpt",
        "epochs": 2,
        "batch_size": 16,
        "device": "cpu",
        "workers": 0,
        "masked": masked,
        "quiet": True,
    }
    train(out=tmp_path / "whole", **how)
    with monkeypatch.context() as patch:
        stop_at(patch, 6)
        with pytest.raises(BaseException, match="SIGINT"):
            train(out=tmp_path / "run", **how)
    assert not (tmp_path / "run" / "metrics.json").exists()
    train(data=stripes, out=tmp_path / "run", resume=True, quiet=True)
    for name in ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "metrics.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_run_can_be_repeated_from_its_config(run):
    options = read_options(run.path / "config.yaml")
    check(options)
    again = prepare(options.normalize(), ProgressBar(quiet=True), resumed=None)
    assert to_store(again.options) == yaml.safe_load((run.path / "config.yaml").read_text())


def test_many_samples_of_an_image_are_drawn_some_at_a_time(run, monkeypatch):
    counts = list[int]()
    plain = completion.complete
    monkeypatch.setattr(predict, "AT_ONCE", 4)
    monkeypatch.setattr(
        completion, "complete", lambda *given, count, **how: counts.append(count) or plain(*given, count=count, **how)
    )
    images = np.full((2, 4, 4, 1), 60, dtype=np.uint8)
    made = predict.complete_images(run.model.cpu(), images, names=["a", "b"], samples=10)
    assert counts == [4, 4, 2] * 2
    assert [len(one.samples) for one in made] == [10, 10]


def test_what_eval_and_complete_cannot_use_is_refused(run, command, tmp_path):
    answer = command("eval", run.path, "--beams", 2)
    assert answer.code == 2
    assert re.fullmatch(r"vitrail: (unknown option \"--beams\" of eval.*|--beams is an option of --task .* only)\n", answer.err)
    assert "--out is missing" in command("complete", run.path, tmp_path).err
    answer = command("complete", run.path, tmp_path, "--out", tmp_path, "--longest", 3)
    assert re.match("vitrail: --longest is an option of --task .*language", answer.err)


def test_completions(run, stripes, tmp_path, command):
    with np.load(stripes) as arrays:
        for number, image in enumerate(arrays["x_test"][:2]):
            (tmp_path / str(number)).mkdir()
            Image.fromarray(image).save(tmp_path / str(number) / "same.png")
    (tmp_path / "bad.png").write_text("no image")
    words = ("complete", run.path, tmp_path / "0", tmp_path / "1", tmp_path / "bad.png", "--samples", 3, "--keep", 0.5)
    answer = command(*words, "--out", tmp_path / "out")
    assert answer.code == 2
    assert "bad.png" in answer.err
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["completions.png", *(f"same-{i}.png" for i in (1, 2, 3)), *(f"same_2-{i}.png" for i in (1, 2, 3))]
    original = np.asarray(Image.open(tmp_path / "1" / "same.png"))
    sample = np.asarray(Image.open(tmp_path / "out" / "same_2-3.png"))
    assert (sample[:2] == original[:2]).all()
    assert set(sample.ravel().tolist()) <= set(GRAYS)
    assert command(*words, "--out", tmp_path / "again").out.splitlines()[0] == "2 images, 3 samples each"
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize(
    "words, message",
    [
        (("--samples", 0), "--samples must be at least 1"),
        (("--keep", 1), r"--keep must be in \[0, 1\), got 1"),
        (("--temperature", -1), "--temperature must be at least 0, got -1"),
        (("--top-k", 0), "--top-k must be at least 1"),
        (("--top-p", 0), "--top-p must be above 0, got 0"),
        (("--top-p", 1.5), "--top-p must be at most 1, got 1.5"),
    ],
)
def test_wrong_numbers_of_complete(run, words, message, command, tmp_path):
    answer = command("complete", run.path, tmp_path, "--out", tmp_path / "out", *words)
    assert answer.code == 2
    assert re.search(message, answer.err)
    assert answer.err.count("\n") == 1


@pytest.mark.usefixtures("no_probe")
def test_the_masked_variant_learns_and_completes_nothing(stripes, tmp_path, command):
    words = ("--data", stripes, "--masked", "--epochs", 1, "--batch", 16, "--device", "cpu", "--out", tmp_path / "run")
    answer = command("pretrain", "--method", "igpt", *words)
    assert answer.code == 0, answer.err
    assert re.search(r"test bits per pixel \d\.\d{3}\n$", answer.out)
    assert "Completions" not in (tmp_path / "run" / "report.html").read_text()
    answer = command("complete", tmp_path / "run", tmp_path, "--out", tmp_path / "out")
    assert answer.code == 2
    assert "only a causal model completes images" in answer.err


@pytest.mark.parametrize(
    "words, message",
    [
        (("--mixup", 0.2), "--mixup is an option of --task classify"),
        (("--colors", 1), "--colors must be at least 2, got 1"),
        (("--model", "vit_nano_conv"), "--model vit_nano_conv does not learn from pixels"),
        (("--vocabulary", 100), "--vocabulary"),
        (("--task", "classify"), "vitrail pretrain takes --method"),
    ],
)
def test_wrong_wishes(stripes, words, message, command, tmp_path):
    answer = command("pretrain", "--method", "igpt", "--data", stripes, "--out", tmp_path / "run", *words)
    assert answer.code == 2
    assert message in answer.err


def test_colors_are_not_for_classifiers(stripes, command, tmp_path):
    answer = command("train", "--data", stripes, "--colors", 5, "--out", tmp_path / "run")
    assert "--colors is an option of --task igpt only" in answer.err


def test_unique_names():
    assert unique_names(["a", "a", "completions", "a_2", "a"]) == ["a", "a_2", "completions_2", "a_2_2", "a_3"]
