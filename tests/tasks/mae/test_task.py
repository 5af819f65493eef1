"""Learning without labels as a job: from images to a report, again from its files, on with labels; and what cannot be."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.folder import load
from vitrail.run.prepare import prepare
from vitrail.run.stored import read_options
from vitrail.run.train import train
from vitrail.tasks.mae.task import choose_heads
from vitrail.tasks.options import check, to_store

SHORT = {"task": "mae", "epochs": 2, "batch_size": 16, "device": "cpu", "workers": 0, "quiet": True}


@pytest.fixture(scope="module")
def run(arrays, tmp_path_factory):
    return train(data=arrays, out=tmp_path_factory.mktemp("runs") / "hidden", **SHORT)


@pytest.fixture
def no_report(monkeypatch):
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, *_: path.write_text("short"))


def test_a_run_from_images_to_report(run):
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (options["model"], options["mask_ratio"], options["mask_tokens"], options["flip"]) == (
        "vit_nano_patch2_32",
        0.75,
        "decoder",
        False,
    )
    assert (options["decoder_depth"], options["decoder_width"]) == (2, 32)
    assert not {"mixup", "smoothing", "label_smoothing", "colors", "teacher", "prototypes"} & options.keys()
    assert json.loads((run.path / "metrics.json").read_text()) == {"split": "test", **run.metrics}
    assert run.metrics.keys() == {"loss", "explained"}
    page = (run.path / "report.html").read_text()
    for words in ("Masked patches", "interpolated from the visible patches", "75 % of their patches masked", "vitrail train --data DIR --weights",
                  "Training", "What next", "Options", "test explained"):  # fmt: skip
        assert words in page, words
    assert page.count("data:image/png") == 2


def test_the_card_and_the_backbone(run):
    card = (run.path / "best" / "README.md").read_text()
    for words in ("# Features learned without labels (mae)", "method `mae`", "a `vit`", "vitrail train --data images/ --weights", ".backbone",
                  "pipeline_tag: image-feature-extraction"):  # fmt: skip
        assert words in card, words
    model = vt.load(run.path)
    assert (model.architecture, model.backbone.architecture, model.backbone.num_classes) == ("mae", "vit", 0)
    assert model.preprocessing == model.backbone.preprocessing
    assert model.preprocessing.mean != (0.5,), "measured on the images"
    assert model.backbone.forward_features(torch.zeros(2, 1, 8, 8)).cells.shape == (2, 16, 64)


def test_it_scores_the_same_again(run, command):
    assert vt.evaluate(run.path) == pytest.approx(run.metrics, abs=1e-6)
    answer = command("eval", run.path, "--out", run.path / "x.csv")
    assert "--out: pretraining gives no predictions to write" in answer.err


def test_on_with_labels(run, arrays, tmp_path, monkeypatch):
    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
    how = {"data": arrays, "weights": run.path, "epochs": 1, "batch_size": 32, "device": "cpu", "workers": 0, "quiet": True}
    found = train(out=tmp_path / "a", lr=1e-8, recipe="finetune", **how)
    inside = vt.load(run.path).backbone
    assert (found.model.architecture, found.model.num_classes) == ("vit", 3)
    assert torch.allclose(found.model.tokenizer.project.weight.cpu(), inside.tokenizer.project.weight, atol=1e-6)


@pytest.mark.usefixtures("no_report")
def test_weights_begin_another_pretraining(run, arrays, tmp_path):
    other = train(data=arrays, weights=run.path, out=tmp_path / "b", mask_ratio=0.5, **{**SHORT, "epochs": 1, "lr": 1e-9})
    assert other.model.config.hide == 0.5
    assert torch.allclose(
        other.model.backbone.tokenizer.project.weight.cpu(), vt.load(run.path).backbone.tokenizer.project.weight, atol=1e-6
    )


def test_a_run_can_be_repeated_from_its_config(run):
    options = read_options(run.path / "config.yaml")
    check(options)
    again = prepare(options.normalize(), ProgressBar(quiet=True), resumed=None)
    assert to_store(again.options) == yaml.safe_load((run.path / "config.yaml").read_text())


def draw(path, count, seed):
    path.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(np.random.default_rng(seed).integers(0, 255, (count, 10, 13, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(path / f"{number}.png")


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("classes", [(), ("a", "b")])
def test_folders_with_and_without_classes(tmp_path, classes):
    for number, name in enumerate(classes or ("",)):
        draw(tmp_path / "data" / name, 20, number)
    (tmp_path / "data" / (classes or ("",))[0] / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    wishes = {"image_size": (8, 12), "model": "vit_nano_patch2_32", "mask_tokens": "encoder", "plain_pixels": True}
    found = train(data=tmp_path / "data", out=tmp_path / "run", **wishes, **{**SHORT, "epochs": 1})
    assert (found.model.image_size, found.model.config.in_channels) == ((8, 12), 3)
    assert (found.model.config.mask_tokens, found.model.config.normalize) == ("encoder", False)
    assert "bad.png" in (tmp_path / "run" / "bad_files.csv").read_text()
    assert -1 < found.metrics["explained"] < 1


@pytest.mark.parametrize(
    "words, message",
    [
        (("--model", "vit_nano_conv"), "--method mae hides patches: it needs a Vision Transformer whose tokens are patches"),
        (("--model", "swin_nano_patch2_window4_32"), "--method mae hides patches"),
        (("--model", "transformer_tiny"), "--model transformer_tiny: --method mae takes a vit or swin or resnet"),
        (("--mask-ratio", 0), "--mask-ratio must be between 0 and 1, got 0"),
        (("--mask-ratio", 1), "--mask-ratio must be between 0 and 1, got 1"),
        (("--mask-ratio", 1.5), "--mask-ratio must be between 0 and 1, got 1.5"),
        (("--decoder-width", 30), "multiple of 4"),
        (("--decoder-depth", 0), "--decoder-depth must be at least 1, got 0"),
        (("--decoder-depth", 10_000), "decoder_depth must be from 1 to"),
        (("--teacher", "x"), "--teacher is an option of --task classify only"),
        (("--mixup", 0.2), "--mixup is an option of --task classify"),
        (("--colors", 5), "--colors is an option of --task igpt only"),
        (("--prototypes", 5), "--prototypes is an option of --task dino only"),
        (("--weights", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_is_one_line(arrays, tmp_path, command, words, message):
    answer = command("pretrain", "--method", "mae", "--data", arrays, "--out", tmp_path / "run", *words)
    assert answer.code == 2
    assert message in answer.err, answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "run" / "best").exists()


def test_weights_of_words_have_no_features_of_images(arrays, tmp_path, command):
    vt.save(vt.create_model("gpt_tiny", vocabulary=40, width=8, heads=2, depth=1, hidden=8, longest=9), tmp_path / "words")
    for verb in (("pretrain", "--method", "mae"), ("train",)):
        answer = command(*verb, "--data", arrays, "--weights", tmp_path / "words", "--out", tmp_path / "run")
        assert answer.code == 2
        assert "has no features of images to go on with" in answer.err
        assert answer.err.count("\n") == 1


def test_heads_divide_the_decoder(run):
    config = run.model.backbone.config
    assert [choose_heads(width, config) for width in (32, 36, 7, 128)] == [2, 2, 1, 8]


def mutate(content, rng):
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(len(data))
        data[place : place + rng.randrange(3)] = rng.choice((b"", b"9", b'"', b"null", b"[", b"-", b"\xff", b"0", b"1e9"))
    return bytes(data)


def test_broken_configs_give_a_model_or_one_line(run, tmp_path):
    folder, rng, loaded = tmp_path / "model", random.Random(7), 0
    shutil.copytree(run.path / "best", folder)
    content = (folder / "config.json").read_bytes()
    for _ in range(120):
        (folder / "config.json").write_bytes(mutate(content, rng))
        try:
            load(folder)
        except VitrailError as error:
            assert str(folder) in str(error), error  # noqa: PT017
            assert "\n" not in str(error), error  # noqa: PT017
        else:
            loaded += 1
    assert 0 < loaded < 120, "a fuzz that breaks nothing, or everything, tests nothing"


@pytest.mark.slow
def test_two_processes_are_one_run(arrays, environment, tmp_path):
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vitrail"]
    line += [
        "pretrain",
        "--method",
        "mae",
        f"data={arrays}",
        "batch=16",
        "epochs=1",
        "workers=0",
        "mask_tokens=encoder",
        f"out={tmp_path / 'run'}",
    ]
    process = subprocess.Popen(
        line,
        env={**environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, err[-2000:]
    assert out.count("epoch   1/1") == 1, "one of them speaks"
    assert out.splitlines()[-1].startswith("test explained ")
    alone = vt.evaluate(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["explained"] == pytest.approx(
        alone["explained"], abs=1e-5
    )
