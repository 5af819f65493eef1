"""Runs that restore: from images to its report, again from its files, and images restored by its model."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.run.prepare import prepare
from vitrail.run.train import train
from vitrail.tasks.restore import predict
from vitrail.tasks.restore.data import damage_of
from vitrail.tasks.restore.layers import open_layers
from vitrail.tasks.restore.options import Options
from vitrail.tasks.restore.predict import Pipeline
from vitrail.tasks.restore.task import TASK, choose_restorer

SHORT = {"epochs": 2, "batch_size": 4, "patch_size": 8, "patches": 1, "model": "unet_nano", "device": "cpu", "quiet": True}


def draw(generator, height, width):
    """A smooth image in color."""
    small = Image.fromarray(generator.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of several sizes, one that cannot be read."""
    path, generator = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for number in range(20):
        draw(generator, 24 + number, 30 - number // 2).save(path / f"{number:02}.png")
    (path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    return path


@pytest.fixture(scope="module", autouse=True)
def _no_report():
    """A report of its headline alone, whose figures take longer than these runs; the page has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.tasks.restore.report.sections", lambda scored, setup, rows: len(scored.evaluation.examples))
        patch.setattr(
            "vitrail.report.frame.write_page",
            lambda path, frame, some: path.write_text(f"{frame.headline} {frame.certainty} {some}"),
        )
        yield


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    return train(data=folder, task="restore", degrade="sr2", out=tmp_path_factory.mktemp("runs") / "photos", **SHORT)


def test_a_run_from_images_to_report(run, folder):
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (options["degrade"], options["model"], options["in_channels"], options["flip"]) == ("sr2", "unet_nano", 3, True)
    assert (options["recipe"], options["weight_decay"], options["ema"], options["workers"]) == ("small", 0.0, 0.999, 0)
    assert not {"image_size", "mixup", "vocabulary"} & options.keys()
    assert (run.model.scale, run.model.config.degradation) == (2, "sr2")
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["split"] == "val"  # there is no test split
    assert metrics["psnr"] == run.metrics["psnr"] >= metrics["psnr_given"] - 0.5
    with (run.path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert {"train_loss", "val_psnr", "val_ssim", "val_psnr_given"} <= rows[0].keys()
    with (run.path / "predictions.csv").open() as file:
        scored = list(csv.DictReader(file))
    assert len(scored) == 2
    assert np.mean([float(row["psnr"]) for row in scored]) == pytest.approx(metrics["psnr"], abs=1e-3)
    assert (run.path / "report.html").read_text().startswith(f"val PSNR {metrics['psnr']:.2f} dB bicubic ")
    assert "broken.png" in (run.path / "bad_files.csv").read_text()
    card = (run.path / "best" / "README.md").read_text()
    assert "pipeline_tag: image-to-image" in card
    assert "It enlarges images 2 times." in card
    assert f"PSNR on val: **{metrics['psnr']:.2f} dB**" in card


def test_the_last_line_and_the_epochs_are_in_decibels(folder, tmp_path, command):
    words = ("--task", "restore", "--degrade", "noise25", "--in-channels", 1, "--patch-size", 8, "--patches", 1, "--epochs", 1)
    answer = command("train", "--data", folder, *words, "--model", "unet_nano", "--batch", 4, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[-1].startswith("val PSNR ")
    assert lines[-1].endswith(" dB")
    assert any(line.startswith("epoch   1/1") and " dB  *" in line for line in lines)
    assert "takes away Gaussian noise of 25 levels" in " ".join(answer.out.split()), "the block is wrapped"
    assert vt.load(tmp_path / "run").config.in_channels == 1
    listed = command("runs", tmp_path)
    value = lines[-1].removeprefix("val ").removesuffix(" dB").removeprefix("PSNR ")
    assert listed.out.splitlines()[1].split("1/1")[1].split()[:4] == [value, "dB", "PSNR", "-"]  # no test split


def test_a_test_folder_is_read_at_the_end(tmp_path):
    generator = np.random.default_rng(3)
    for name in ("train/1.png", "train/2.png", "val/3.png", "test/4.png"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        draw(generator, 20, 22).convert("L").save(tmp_path / "data" / name)
    run = train(data=tmp_path / "data", task="restore", degrade="jpeg10", out=tmp_path / "run", **{**SHORT, "batch_size": 2})
    assert json.loads((run.path / "metrics.json").read_text())["split"] == "test"
    assert run.model.config.in_channels == 1  # as the images are
    assert (run.path / "report.html").read_text().startswith("test PSNR ")


def test_scoring_it_again_and_on_other_images(run, tmp_path, command):
    answer = command("eval", run.path, "--split", "val")
    assert answer.out.splitlines()[-1] == f"val PSNR {run.metrics['psnr']:.2f} dB"
    assert f"psnr_given         {run.metrics['psnr_given']:.4f}" in answer.out
    generator = np.random.default_rng(9)
    for number in range(3):
        (tmp_path / "other").mkdir(exist_ok=True)
        draw(generator, 21, 27).save(tmp_path / "other" / f"{number}.png")
    answer = command("eval", run.path, "--data", tmp_path / "other", "--out", tmp_path / "scores")
    assert answer.out.splitlines()[-1].startswith("test PSNR ")
    assert len((tmp_path / "scores" / "predictions.csv").read_text().splitlines()) == 4
    assert (
        vt.evaluate(run.path, data=tmp_path / "other", degrade="real2")["psnr"]
        < vt.evaluate(run.path, data=tmp_path / "other")["psnr"]
    )
    wrong = command("eval", run.path, "--data", tmp_path / "other", "--degrade", "sr4")
    assert (wrong.code, "makes images 4 times smaller" in wrong.err) == (2, True)
    again = json.loads(command("eval", run.path, "--json").out)  # without test, validation stands for it, as in training
    assert again["psnr"] == pytest.approx(run.metrics["psnr"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"degrade": None}, "--task restore needs --degrade"),
        ({"degrade": "sr5"}, "there is no sr of 5"),
        ({"model": "swinir_nano_x4"}, "enlarges 4 times, --degrade sr2 needs 2: swinir_nano_x2 does"),
        ({"model": "vit_nano_conv"}, "restores no images; swinir_nano_x2 does"),
        ({"mixup": 0.2}, "mixup is an option of --task classify"),
        ({"smoothing": 0.1}, "smoothing is an option of --task classify"),
        ({"cache": "disk"}, "--cache disk"),
        ({"patch_size": 0}, "--patch-size must be at least 1"),
        ({"recipe": "large"}, "recipe: expected .*got 'large'"),
        ({"position": "rotary"}, "has no position to choose"),
    ],
)
def test_what_cannot_be_is_refused(folder, tmp_path, changes, message):
    options = {"data": folder, "task": "restore", "degrade": "sr2", "out": tmp_path / "run", **SHORT, **changes}
    with pytest.raises(vt.VitrailError, match=message):
        train(**options)


def test_other_tasks_have_no_degradation(folder, tmp_path, command):
    answer = command("train", "--data", "digits", "--degrade", "sr2", "--out", tmp_path / "run")
    assert "--degrade is an option of --task restore only" in answer.err


@pytest.mark.parametrize(
    ("name", "model"),
    [("sr2", "swinir_nano_x2"), ("sr8", "swinir_nano_x4"), ("real1", "swinir_nano"), ("jpeg10", "swinir_nano")],
)
def test_a_model_is_chosen_by_the_damage(folder, tmp_path, name, model):
    setup = prepare(Options(data=str(folder), degrade=name), ProgressBar(quiet=True), resumed=None)
    assert (setup.options.model, setup.options.patch_size, setup.options.batch_size) == (model, 32, 8)
    assert setup.options.patches == 178  # 3200 patches of 18 images
    assert setup.model.scale == damage_of(setup.options).scale
    assert choose_restorer(damage_of(setup.options)) == model


@pytest.mark.parametrize("warned", [False, True])
def test_images_smaller_than_a_patch_are_reported(folder, warned):
    setup = prepare(Options(data=str(folder), degrade="sr2"), ProgressBar(quiet=True), resumed=None)
    smallest = min(min(setup.data["train"].read(index).size) for index in range(len(setup.data["train"])))
    options = replace(setup.options, patch_size=smallest // 2 + warned)  # of which the true patch is twice as large
    lines = TASK.describe(replace(setup, options=options))
    assert any("pixels a side is smaller than a patch of" in line for line in lines) == warned


def test_weights_go_on_with_another_damage_of_the_scale(run, folder, tmp_path):
    options = {"data": folder, "task": "restore", "weights": run.path, **SHORT, "epochs": 1, "workers": 0}
    options.pop("model")
    other = train(**options, degrade="real2", out=tmp_path / "a")
    assert (other.model.config.degradation, other.model.scale) == ("real2", 2)
    assert yaml.safe_load((other.path / "config.yaml").read_text())["recipe"] == "finetune"
    with pytest.raises(vt.VitrailError, match="enlarges 2 times; --degrade noise25 needs 1"):
        train(**options, degrade="noise25", out=tmp_path / "b")


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "I;16", "1", "CMYK"])
def test_images_of_every_mode_are_restored(run, tmp_path, mode, command):
    image = draw(np.random.default_rng(1), 12, 15)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    elif mode in ("RGBA", "LA"):
        image = image.convert(mode)
        image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, 15, dtype=np.uint8), (12, 1))))
    else:
        image = image.convert(mode)
    path = tmp_path / ("a.tif" if mode in ("CMYK",) else "a.png")
    image.save(path)
    before = path.read_bytes()
    answer = command("restore", run.path, path, "--device", "cpu")
    assert (answer.code, answer.out) == (0, f"{path} -> {tmp_path / 'a_restored.png'}\n")
    assert path.read_bytes() == before
    with Image.open(tmp_path / "a_restored.png") as restored:
        assert restored.size == (30, 24)
        assert restored.mode == {"P": "RGB", "I;16": "L", "1": "L", "CMYK": "RGB"}.get(mode, mode)
        if "A" in mode:
            alpha = np.asarray(restored.getchannel("A")).astype(int)
            assert (alpha[:, 0].max(), alpha[:, -1].min()) == (0, 255)
            assert (np.diff(alpha[5]) >= 0).all()
    again = command("restore", run.path, path)
    assert again.out.endswith("a_restored_2.png\n")  # nothing is overwritten


def test_orientation_is_honored(run, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    draw(np.random.default_rng(1), 12, 15).save(tmp_path / "a.jpg", exif=exif)
    draw(np.random.default_rng(1), 12, 15).convert("RGBA").save(tmp_path / "b.png", exif=exif)
    restore = vt.pipeline("image-to-image", run.path)
    assert restore(tmp_path / "a.jpg").size == (24, 30)
    assert restore(str(tmp_path / "b.png")).size == (24, 30)
    assert [image.size for image in restore([Image.open(tmp_path / "a.jpg"), np.zeros((3, 4), np.uint8)])] == [
        (24, 30),
        (8, 6),
    ]
    with pytest.raises(vt.VitrailError, match="must be uint8"):
        restore(np.zeros((3, 4)))


def test_bad_files_are_a_line_each_and_the_rest_goes_on(run, folder, tmp_path, command):
    answer = command(
        "restore", run.path, folder / "00.png", folder / "broken.png", folder / "01.png", "--out", tmp_path / "out"
    )
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert "broken.png" in answer.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["00_restored.png", "01_restored.png"]
    assert OutputFolder(tmp_path / "out").free_name(folder / "00.png", ending="_restored.png").name == "00_restored_2.png"


def test_tiles_give_what_the_whole_does(folder, monkeypatch):
    torch.manual_seed(0)
    model = vt.create_model("swinir_nano_x2", depths=(1,), width=8, heads=2, window=4, degradation="sr2")
    torch.nn.init.normal_(model.get_submodule(model.last_layer).weight, std=0.05)
    restore, layers = Pipeline(model), open_layers(folder / "19.png")
    seen = []
    whole = np.asarray(restore.restore(layers)).astype(int)
    tiled = np.asarray(restore.restore(layers, tile=24, overlap=8, on_tile=lambda *at: seen.append(at))).astype(int)
    assert whole.shape == (86, 42, 3)
    assert np.abs(whole - tiled).max() <= 1
    assert seen[-1][0] == seen[-1][1] > 2
    monkeypatch.setattr(predict, "WHOLE", 20)
    monkeypatch.setattr(predict, "TILE", 32)
    sides = []
    model.register_forward_pre_hook(lambda _, given: sides.append(max(given[0].shape[-2:])))
    restore.restore(layers)
    assert max(sides) == 32 < 43  # a large image is cut by itself


def test_a_gray_model_restores_the_brightness_of_color(folder):
    model = vt.create_model("unet_nano", in_channels=1, out_channels=1, degradation="noise25")  # untrained: changes nothing
    image = Image.open(folder / "00.png")
    restored = Pipeline(model)(image)
    assert restored.mode == "RGB"
    assert np.abs(np.asarray(restored).astype(int) - np.asarray(image)).max() <= 3  # YCbCr and back
    assert Pipeline(model)(image.convert("L")).mode == "L"


def test_other_models_and_wrong_numbers_are_refused(run, folder, command):
    with pytest.raises(vt.VitrailError, match="this model restores no images"):
        vt.pipeline("image-to-image", vt.create_model("vit_nano_conv", num_classes=2))
    for words, message in ((("--tile", 0), "--tile must be at least 1"), (("--overlap", -1), "--overlap must be at least 0")):
        assert message in command("restore", run.path, folder / "00.png", *words).err
    assert (
        "a tile has an overlap on both sides"
        in command("restore", run.path, folder / "00.png", "--tile", 8, "--overlap", 8).err
    )
