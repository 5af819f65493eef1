"""Segmentation from end to end: a run from its folder to its report, again from its files, and images segmented by its model."""

import csv
import json

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail import train
from vitrail.data.formats.masks import read_mask
from vitrail.data.masked import annotations_of
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.world import World
from vitrail.run.prepare import prepare
from vitrail.tasks.registry import find
from vitrail.tasks.segment.data import count_pixels, pixel_weights
from vitrail.tasks.segment.options import Options
from vitrail.tasks.segment.task import choose_dense_size

MODEL = {"model": "vit_nano_patch4_32", "head": "linear"}
SHORT = {"epochs": 2, "batch_size": 4, "workers": 0, "device": "cpu", "quiet": True}
COLORS = [20, 20, 60, 220, 60, 40, 40, 200, 90]


def draw(generator, height, width):
    """A disk and a bar on a ground, in colors that tell them apart."""
    rows, columns = np.mgrid[:height, :width]
    mask = np.zeros((height, width), dtype=np.uint8)
    mask[(rows - generator.integers(6, height - 6)) ** 2 + (columns - generator.integers(6, width - 6)) ** 2 < 30] = 1
    mask[:, (left := int(generator.integers(0, width - 5))) : left + 4] = 2
    image = np.array(COLORS, dtype=np.uint8).reshape(3, 3)[mask].astype(int) + generator.integers(0, 30, (height, width, 3))
    return Image.fromarray(image.astype(np.uint8)), mask


def write_folder(path, *, count=20, seed=0):
    generator = np.random.default_rng(seed)
    for part in ("images", "masks"):
        (path / part).mkdir(parents=True)
    for number in range(count):
        image, mask = draw(generator, 24, 28 if number % 3 else 24)
        mask[:2] = 255  # nobody has decided
        image.save(path / "images" / f"{number:02}.png")
        file = Image.fromarray(mask).convert("P")
        file.putpalette([*COLORS, *([0] * 700)])
        file.save(path / "masks" / f"{number:02}.png")
    (path / "classes.txt").write_text("ground\ndisk\nbar\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With one mask of another size."""
    path = write_folder(tmp_path_factory.mktemp("marked") / "marked", count=21)
    Image.new("L", (5, 6)).save(path / "masks" / "20.png")
    return path


@pytest.fixture(scope="module", autouse=True)
def _no_report():
    """A report of its headline alone, whose figures take longer than these runs; the page has a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.tasks.segment.report.sections", lambda scored, setup, rows: len(scored.evaluation.examples))
        patch.setattr("vitrail.report.frame.write_page", lambda path, frame, some: path.write_text(f"{frame.headline} {some}"))
        yield


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    return train(data=folder, task="segment", out=tmp_path_factory.mktemp("runs") / "marked", **MODEL, **SHORT)


def test_a_run_from_folder_to_report(run):
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (options["head"], options["loss"], options["in_channels"], options["flip"]) == ("linear", "ce", 3, True)
    assert (options["recipe"], options["color_jitter"], options["zoom"], options["image_size"]) == ("tiny", 0.2, 0.6, [16, 16])
    assert not {"mixup", "vocabulary", "degrade", "window"} & options.keys()
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["split"] == "test"
    assert {"loss", "miou", "pixel_accuracy", "boundary_f"} <= metrics.keys()
    assert 0 < metrics["miou"] == run.metrics["miou"] < 1
    with (run.path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"train_loss", "val_loss", "val_miou", "val_pixel_accuracy"} <= rows[0].keys()
    with (run.path / "predictions.csv").open() as file:
        scored = list(csv.DictReader(file))
    assert len(scored) == 2
    assert scored[0].keys() == {"picture", "loss", "miou", "pixel_accuracy", "boundary"}
    with (run.path / "classes.csv").open() as file:
        classes = list(csv.DictReader(file))
    assert [row["class"] for row in classes] == ["ground", "disk", "bar"]
    assert np.mean([float(row["iou"]) for row in classes]) == pytest.approx(metrics["miou"], abs=1e-5)
    assert (run.path / "report.html").read_text() == f"test mIoU {100 * metrics['miou']:.2f} % 2"
    bad = (run.path / "bad_files.csv").read_text()
    assert "20.png" in bad
    assert "made for 5x6 pixels" in bad
    assert run.model.labels == ("ground", "disk", "bar")
    assert run.model.colors == ((20, 20, 60), (220, 60, 40), (40, 200, 90))
    card = (run.path / "best" / "README.md").read_text()
    assert "pipeline_tag: image-segmentation" in card
    assert f"Mean intersection over union on test: **{100 * metrics['miou']:.2f} %**" in card


def test_scoring_it_again_in_several_ways_and_on_other_images(run, tmp_path, command):
    answer = command("eval", run.path)
    assert answer.out.splitlines()[-1] == f"test mIoU {100 * run.metrics['miou']:.2f} %"
    assert "the weakest class is" in answer.out
    assert command("eval", run.path, "--window", 400, 400).out.splitlines()[-1] == answer.out.splitlines()[-1]
    ways = ("--flip-test", "--scales", 0.75, 1, 1.25, "--window", 12, 16, "--json")
    found = json.loads(command("eval", run.path, *ways).out)
    assert found["split"] == "test"
    assert found["loss"] != run.metrics["loss"]
    other = write_folder(tmp_path / "other", count=3, seed=5)
    answer = command("eval", run.path, "--data", other, "--out", tmp_path / "scores")
    assert answer.code == 0, answer.err
    assert len((tmp_path / "scores" / "predictions.csv").read_text().splitlines()) == 4
    (other / "classes.txt").write_text("ground\nbar\ndisk\n")
    answer = command("eval", run.path, "--data", other)
    assert answer.code == 2
    assert "its class 'bar' has the number of 'disk' in the model" in answer.err
    assert command("eval", run.path, "--scales", 99).err.strip().endswith("scales are factors from 0.1 to 10, got 99.0")


def test_predicting_masks_and_overlays(run, folder, tmp_path, command):
    images = [folder / "images" / f"{number:02}.png" for number in (0, 1)]
    (tmp_path / "broken.png").write_bytes(b"no image")
    answer = command("predict", run.path, *images, tmp_path / "broken.png", "--out", tmp_path / "masks", "--json")
    assert answer.code == 2
    assert "broken.png" in answer.err
    first, second, none = json.loads(answer.out)
    assert none is None
    assert sum(row["share"] for row in first) == pytest.approx(1)
    assert {row["label"] for row in second} <= {"ground", "disk", "bar"}
    mask = Image.open(tmp_path / "masks" / "01_mask.png")
    assert (mask.mode, mask.size, mask.getpalette()[:9]) == ("P", (28, 24), COLORS)
    assert Image.open(tmp_path / "masks" / "01_overlay.png").mode == "RGB"
    segment = vt.pipeline("image-segmentation", run.path)
    parts = segment(images[1])
    numbers = read_mask(tmp_path / "masks" / "01_mask.png")
    for part in parts:
        assert (part["mask"].mode, part["mask"].size) == ("L", (28, 24))
        assert 0 < part["score"] <= 1
        where = np.asarray(part["mask"]) == 255
        assert (where == (numbers == run.model.labels.index(part["label"]))).all()
    assert [len(found) for found in segment([images[0], np.zeros((9, 11, 3), dtype=np.uint8)])] == [len(segment(images[0])), len(segment(np.zeros((9, 11, 3), dtype=np.uint8)))]  # fmt: skip
    plain = command("predict", run.path, images[0], "--top-k", 1)
    assert plain.out.split()[-1] == "%"
    assert "--merge is an option of --task classify only" in command("predict", run.path, images[0], "--merge", 2).err


def test_weights_go_on_as_encoder_and_whole(run, folder, tmp_path):
    """From a segmenter of these classes all weights, from one of others the encoder and what of the head fits."""
    options = {"task": "segment", "weights": str(run.path), **SHORT, "epochs": 1, "lr": 1e-12}
    again = train(data=folder, out=tmp_path / "again", **options)
    for name, weight in again.model.state_dict().items():
        if weight.is_floating_point() and "running" not in name:
            assert torch.allclose(weight, run.model.state_dict()[name], atol=1e-6), name
    stored = yaml.safe_load((again.path / "config.yaml").read_text())
    assert (stored["recipe"], stored["head"], stored["layer_decay"]) == ("finetune", "linear", 0.8)
    other = write_folder(tmp_path / "other", count=6, seed=7)
    (other / "classes.txt").write_text("a\nb\nc\nd\n")
    found = train(data=other, out=tmp_path / "other_run", bad_files=0.5, **options, image_size=24)
    assert (found.model.num_classes, found.model.image_size) == (4, (24, 24))


def test_weights_of_a_classifier_become_the_encoder(folder, tmp_path):
    classifier = vt.create_model("vit_nano_patch4_32", num_classes=7, image_size=16)
    vt.save(classifier, tmp_path / "classifier")
    options = {
        "task": "segment",
        "weights": str(tmp_path / "classifier"),
        "head": "setr_naive",
        **SHORT,
        "epochs": 1,
        "lr": 1e-12,
    }
    found = train(data=folder, out=tmp_path / "run", freeze="encoder", loss="ce+dice", class_weights="balanced", **options)
    own = classifier.state_dict()
    assert all(
        torch.equal(weight, own[name])
        for name, weight in found.model.backbone.state_dict().items()
        if name in own and "head" not in name
    )
    assert found.model.config.head == "setr_naive"


def test_numbers_of_no_class_and_a_share_for_validation_are_kept_with_the_run(folder, tmp_path, command):
    out = tmp_path / "run"
    options = {
        "data": folder,
        "task": "segment",
        "out": out,
        "ignore_index": 0,
        "val_split": 0.3,
        **MODEL,
        **SHORT,
        "epochs": 1,
    }
    run = train(**options)
    stored = yaml.safe_load((out / "config.yaml").read_text())
    assert (stored["ignore_index"], stored["val_split"]) == ([0], 0.3)
    assert run.model.labels == ("disk", "bar")
    assert run.model.colors == ((220, 60, 40), (40, 200, 90))
    with (out / "classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ["disk", "bar"]
    with (out / "predictions.csv").open() as file:
        tested = [int(row["picture"][-6:-4]) for row in csv.DictReader(file)]
    masks = [read_mask(folder / "masks" / f"{number:02}.png") for number in tested]
    assert [int(row["pixels"]) for row in rows] == [sum(int((mask == number).sum()) for mask in masks) for number in (1, 2)]
    answer = command("eval", out)
    assert answer.out.splitlines()[-1] == f"test mIoU {100 * run.metrics['miou']:.2f} %"
    assert command("eval", out, "--split", "val", "--json", "--out", tmp_path / "val").code == 0
    assert len((tmp_path / "val" / "predictions.csv").read_text().splitlines()) == 1 + 5  # 30 % of 18
    assert train(**options, resume=True).metrics == run.metrics
    with pytest.raises(vt.VitrailError, match=r"--ignore-index \(1,\) differs from the run's own \(\(0,\)\)"):
        train(**(options | {"ignore_index": 1}), resume=True)
    answer = command("eval", out, "--data", write_folder(tmp_path / "other", count=3, seed=5), "--ignore-index", 255)
    assert "its class 'ground' has the number of 'disk' in the model" in answer.err


def test_masks_that_count_from_one_are_scored_and_written_by_their_numbers(tmp_path, command):
    """A set of which no mask has 0, and another one by the same numbers, of which some have: of the model's classes it has no 0."""
    one, other = (write_folder(tmp_path / name, count=9, seed=3) for name in ("one", "other"))
    for folder in (one, other):
        (folder / "classes.txt").unlink()
    for file in (one / "masks").glob("*.png"):
        mask = Image.fromarray((read_mask(file) + 1).clip(max=255).astype(np.uint8)).convert("P")
        mask.putpalette([9, 9, 9, *COLORS, *([0] * 700)])
        mask.save(file)
    run = train(data=one, task="segment", out=tmp_path / "run", **MODEL, **SHORT | {"epochs": 1})
    assert run.model.labels == ("1", "2", "3")
    assert yaml.safe_load((run.path / "config.yaml").read_text())["ignore_index"] == [0]
    assert run.model.config.values == vt.load(run.path).config.values == (1, 2, 3)
    images = sorted((one / "images").glob("*.png"))[:3]
    answer = json.loads(command("predict", run.path, *images, "--out", tmp_path / "masks", "--json").out)
    for image, rows in zip(images, answer, strict=True):
        assert all(row["value"] == int(row["label"]) for row in rows)
        written = tmp_path / "masks" / f"{image.stem}_mask.png"
        numbers = read_mask(written)
        assert set(np.unique(numbers).tolist()) == {row["value"] for row in rows} <= {1, 2, 3}
        assert np.array_equal(np.asarray(Image.open(written).convert("RGB")), np.array(COLORS).reshape(3, 3)[numbers - 1])
    for source in (run.path, run.path / "best"):
        answer = command("eval", source, "--data", other, "--split", "train", "--out", tmp_path / "scores")
        assert answer.code == 0, answer.err
        with (tmp_path / "scores" / "classes.csv").open() as file:
            assert [row["class"] for row in csv.DictReader(file) if row["pixels"] != "0"] == ["1", "2"]


def test_wrong_wishes_in_one_line(folder, tmp_path, command):
    def refusal(*words):
        answer = command("train", "--task", "segment", "--data", folder, "--out", tmp_path / "no", *words)
        assert answer.code == 2
        assert answer.err.count("\n") == 1, answer.err
        return answer.err

    assert "neither a segmenter nor an encoder" in refusal("--model", "unet_nano")
    assert "head" in refusal("--model", "vit_nano_patch4_32", "--head", "upernett")
    assert "--mixup is an option of --task classify" in refusal("--mixup", 0.2)
    assert "--color-jitter must be in [0, 1)" in refusal("--color-jitter", 3)
    assert 'Invalid value "large" for --recipe' in refusal("--recipe", "large")
    assert "--bad-files" in refusal("--bad-files", 0)
    assert "--ignore-index takes numbers of masks, from 0 to 65535, got 70000" in refusal("--ignore-index", 3, 70000)
    assert "--val-split must be between 0 and 1, got 1" in refusal("--val-split", 1)
    assert "needs at least two classes, found only 'bar'" in refusal("--ignore-index", 0, 1)
    answer = command("train", "--data", "digits", "--loss", "dice")
    assert "--loss is an option of --task segment only" in answer.err
    assert "--ignore-index is about masks: --task classify" in command("check", "digits", "--ignore-index", 3).err
    answer = command("train", "--task", "segment", "--data", "digits")
    assert "images without masks" in answer.err


def test_the_size_follows_the_images():
    assert choose_dense_size([Image.new("L", (240, 180))] * 3) == (180, 240)
    assert choose_dense_size([Image.new("L", (640, 480))] * 3) == (224, 224)
    assert choose_dense_size([Image.new("L", (120, 90)), Image.new("L", (100, 90))]) == (80, 80)


def test_check_names_every_fault_of_masks_and_suggests_a_training(tmp_path, command, monkeypatch):
    monkeypatch.setattr("vitrail.run.forecast.SECONDS", 1e-9)  # two steps
    folder = write_folder(tmp_path / "marked", count=8)
    Image.new("L", (5, 6)).save(folder / "masks" / "01.png")
    Image.fromarray(np.full((24, 28), 9, dtype=np.uint8)).save(folder / "masks" / "02.png")
    Image.fromarray(np.full((24, 24), 255, dtype=np.uint8)).save(folder / "masks" / "03.png")
    (folder / "masks" / "04.png").unlink()
    answer = command("check", folder, "--task", "segment", "--workers", 0)
    assert answer.code == 1
    for words in ("MASK SIZE: 1 file with", "CLASS OUT OF RANGE: 1 file", "EMPTY MASK: 1 file", "UNPAIRED: 1 file"):
        assert words in answer.out
    assert "images/04.png: has no mask" in answer.out
    assert "--fix" not in answer.out
    reported = " ".join(answer.out.split())
    assert "suggested: setr_pup_vit_micro_hybrid" in reported
    words = "--model setr_pup_vit_micro_hybrid --image-size 16 --batch-size 1 --recipe tiny --epochs 60"
    assert reported.endswith(f"vitrail train --task segment --data {folder} {words}")
    good = write_folder(tmp_path / "good", count=8)
    found = json.loads(command("check", good, "--task", "segment", "--workers", 0, "--ignore-index", 0, "--json").out)
    assert found["classes"].keys() == {"disk", "bar"}
    assert found["suggestion"]["command"].endswith("--ignore-index 0")


@pytest.mark.slow
def test_export_to_onnx_answers_as_the_model_does(run, tmp_path, command):
    pytest.importorskip("onnxscript")
    answer = command("export", run.path, "--format", "onnx", "--out", tmp_path / "model.onnx", "--check", 4)
    assert answer.code == 0, answer.err
    assert "differs by at most" in answer.out


def test_the_pixels_of_a_mask_are_counted_once(tmp_path, monkeypatch):
    """For the choice of weights and for the weights; all else is read elsewhere."""
    from vitrail.tasks.segment import data as module

    folder, counted = write_folder(tmp_path / "rare", count=10), []
    for file in (folder / "masks").glob("*.png"):
        mask = np.zeros((24, 24 if int(file.stem) % 3 == 0 else 28), dtype=np.uint8)
        mask[5, 5:9], mask[9] = 1, 2
        Image.fromarray(mask).save(file)
    monkeypatch.setattr(
        module,
        "annotations_of",
        lambda split, index: counted.append(split.name(index)) or annotations_of(split, index),
    )
    options = Options(data=str(folder), workers=0, device="cpu", **MODEL)
    setup = prepare(options, ProgressBar(quiet=True), resumed=None)
    assert setup.options.class_weights == "softened"
    assert setup.extras is not None
    assert setup.extras.tolist() == pytest.approx(
        pixel_weights("softened", lambda: count_pixels(setup.data["train"], 3)).tolist()
    )
    assert len(set(setup.extras.tolist())) == 3
    objective = find("segment").objective(setup, device="cpu", world=World())
    assert objective.weights is setup.extras
    del counted[len(counted) // 2 :]  # the second half is this test's own
    assert len(counted) == len(set(counted)) == len(setup.data["train"])


def test_rare_classes_are_weighed_by_themselves(tmp_path):
    from vitrail.data.masked import find_masked
    from vitrail.tasks.segment.data import choose_weights, counts_of

    for name, border in (("rare", 1), ("even", 4)):
        for index in range(3):
            numbers = np.zeros((8, 8), dtype=np.uint8)
            numbers[:border, :4] = 1
            for part, kind in (("images", "RGB"), ("masks", "L")):
                (tmp_path / name / part).mkdir(parents=True, exist_ok=True)
                Image.fromarray(numbers).convert(kind).save(tmp_path / name / part / f"{index}.png")
    found = {name: choose_weights(counts_of(find_masked(str(tmp_path / name)))) for name in ("rare", "even")}
    assert found == {"rare": "softened", "even": "none"}  # 60 pixels to 4, 48 to 16
