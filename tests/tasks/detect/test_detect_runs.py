"""Detection from end to end: a run from its boxes to its report, again from its files, and images searched by its model."""

import csv
import json

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import vitrail as vt
from vitrail import train
from vitrail.tasks.detect.data import renumber
from vitrail.tasks.detect.options import Options
from vitrail.tasks.detect.task import TASK, choose_box_size, choose_queries
from vitrail.tasks.stages import Opened

SHORT = {"epochs": 2, "batch_size": 4, "num_queries": 5, "image_size": (16, 24), "device": "cpu", "workers": 0, "quiet": True}
OBJECT = "<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"


def write_voc(path, count, *, names=("cell", "dust"), seed=0):
    """Gray images of 37x29 with bright rectangles; train, val and test by lists."""
    rng = np.random.default_rng(seed)
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (path / folder).mkdir(parents=True)
    for number in range(count):
        array, objects = rng.integers(0, 60, (29, 37), dtype=np.uint8), ""
        for thing in range(number % 3):
            x, y = (int(value) for value in rng.integers(0, 18, 2))
            array[y : y + 9, x : x + 13] = 200 + 50 * thing
            objects += OBJECT.format(names[(number + thing) % len(names)], int(number == 5), x + 1, y + 1, x + 13, y + 9)
        Image.fromarray(array).save(path / "JPEGImages" / f"{number:02}.png")
        size = "<size><width>37</width><height>29</height></size>"
        (path / "Annotations" / f"{number:02}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    stems = [f"{number:02}" for number in range(count)]
    for name, part in {"train": stems[:-8], "val": stems[-8:-4], "test": stems[-4:]}.items():
        (path / "ImageSets" / "Main" / f"{name}.txt").write_text("\n".join(part))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """VOC, with a file that is no image, one whose boxes are of another size, a box outside, and an empty annotation."""
    path = tmp_path_factory.mktemp("blood") / "blood"
    write_voc(path, 21)
    (path / "JPEGImages" / "02.png").write_bytes(b"no image")
    Image.new("L", (50, 50)).save(path / "JPEGImages" / "04.png")
    file = path / "Annotations" / "07.xml"
    file.write_text(file.read_text().replace("</annotation>", OBJECT.format("cell", 0, 300, 3, 310, 9) + "</annotation>"))
    return path


@pytest.fixture(scope="module", autouse=True)
def _no_report():
    """A report of its headline alone; the page has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
        yield


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "blood"
    return train(data=folder, task="detect", bad_files=0.2, out=out, **SHORT)


def test_a_run_from_boxes_to_report(run, folder):
    options = yaml.safe_load((run.path / "config.yaml").read_text())
    assert (options["model"], options["in_channels"], options["recipe"]) == ("detr_micro", 1, "tiny")
    assert (options["flip"], options["dihedral"], options["min_crop"], options["rotate"]) == (True, False, 0.5, 0.0)
    assert not {"mixup", "vocabulary", "degrade", "pack"} & options.keys()
    assert run.model.labels == ("cell", "dust")
    assert (run.model.config.queries, run.model.image_size, run.model.preprocessing.fit) == (5, (16, 24), "squash")
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert metrics["split"] == "test"
    assert 0 <= metrics["ap"] <= metrics["ap50"] == run.metrics["ap50"] <= 1
    with (run.path / "results.csv").open() as file:
        assert {"train_loss", "val_loss", "val_ap50", "val_ap"} <= next(csv.DictReader(file)).keys()
    answers = json.loads((run.path / "predictions.json").read_text())
    assert {answer["image_id"] for answer in answers} == {0, 1, 2, 3}
    assert {answer["file_name"] for answer in answers} == {"17.png", "18.png", "19.png", "20.png"}
    assert all(0 <= x <= x + w <= 37.01 and 0 <= y <= y + h <= 29.01 for x, y, w, h in (answer["bbox"] for answer in answers))
    with (run.path / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(answers)
    assert {row["label"] for row in rows} <= {"cell", "dust"}
    bad = (run.path / "bad_files.csv").read_text()
    assert "02.png,train," in bad
    assert '04.png,train,"its annotations were made for 37x29 pixels, it has 50x50",before' in bad
    assert (run.path / "report.html").read_text() == f"test AP50 {100 * metrics['ap50']:.2f} %"
    card = (run.path / "best" / "README.md").read_text()
    assert "pipeline_tag: object-detection" in card
    assert "Average precision at an overlap of 0.5 on test" in card


def test_scoring_it_again_and_on_other_data(run, tmp_path, command):
    answer = command("eval", run.path, "--batch", 4, "--workers", 0, "--bad-files", 0.2)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[-1] == f"test AP50 {100 * run.metrics['ap50']:.2f} %"
    write_voc(tmp_path / "other", 11, names=("dust",), seed=4)
    found = vt.evaluate(run.path, data=tmp_path / "other", workers=0, out=tmp_path / "scores")
    assert {"ap50", "ap", "loss"} <= found.keys()
    answers = json.loads((tmp_path / "scores" / "predictions.json").read_text())
    assert {answer["category_id"] for answer in answers} <= {0, None}  # dust is its only class; cells it has none
    write_voc(tmp_path / "strange", 11, names=("dusts", "cell"))
    wrong = command("eval", run.path, "--data", tmp_path / "strange", "--workers", 0)
    assert (wrong.code, 'knows no class "dusts"; did you mean "dust"' in wrong.err) == (2, True), wrong.err
    assert renumber(("b", "a"), ("a", "b", "c"), where="x") == [1, 0]
    assert renumber(("a", "b"), ("a", "b"), where="x") is None


def test_images_are_searched_and_drawn(run, folder, tmp_path, command):
    image = folder / "JPEGImages" / "20.png"
    detect = vt.pipeline("object-detection", run.path)
    found = detect(image, threshold=0.0)
    assert [row["score"] for row in found] == sorted((row["score"] for row in found), reverse=True)
    assert set(found[0]) == {"score", "label", "box"}
    assert set(found[0]["box"]) == {"xmin", "ymin", "xmax", "ymax"}
    assert detect([image], threshold=0.0) == [found]
    assert detect(image, threshold=1.0) == []
    with pytest.raises(vt.VitrailError, match="this model is no classifier: it is of the kind detr"):
        vt.pipeline("image-classification", run.path)
    answer = command("predict", run.path, image, folder / "JPEGImages" / "02.png", "--threshold", 0, "--out", tmp_path / "out")
    assert answer.code == 2  # one is no image
    assert f"{image}  {len(found)} found: " in answer.out
    assert Image.open(tmp_path / "out" / "20_boxes.png").size == (333, 261)  # enlarged, so that names can be read
    reported = json.loads(command("predict", run.path, image, "--threshold", 0, "--json").out)
    assert (
        reported == pytest.approx(found, rel=1e-5)
        if not found
        else [row["box"] for row in reported] == [row["box"] for row in found]
    )
    for words, message in (
        (("--threshold", 2), "--threshold must be at most 1, got 2"),
        (("--threshold", -1), "--threshold must be at least 0, got -1"),
        (("--merge", 2), "--merge is an option of --task classify only"),
    ):
        assert message in command("predict", run.path, image, *words).err


def test_weights_of_detectors_classifiers_and_others(run, folder, tmp_path):
    again = train(
        data=folder, task="detect", bad_files=0.2, weights=str(run.path), out=tmp_path / "again", **{**SHORT, "epochs": 1}
    )
    assert again.model.config.queries == 5
    classifier = vt.create_model("vit_nano_patch4_32", num_classes=7, image_size=(16, 24), in_channels=1)
    vt.save(classifier, tmp_path / "classifier")
    kept = classifier.encoder.blocks[0].mlp.state_dict()
    from_classifier = {
        "data": folder,
        "task": "detect",
        "bad_files": 0.2,
        "weights": str(tmp_path / "classifier"),
        "lr": 1e-9,
        "ema": 0.0,
    }
    on_it = train(**from_classifier, out=tmp_path / "on", **{**SHORT, "epochs": 1})
    found = on_it.model.backbone.encoder.blocks[0].mlp.state_dict()
    assert all(torch.allclose(found[name], kept[name], atol=1e-5) for name in kept)
    assert yaml.safe_load((on_it.path / "config.yaml").read_text())["recipe"] == "finetune"
    by_name = train(
        data=folder, task="detect", bad_files=0.2, model="vit_nano_patch4_32", out=tmp_path / "name", **{**SHORT, "epochs": 1}
    )
    assert by_name.model.config.network == "vit"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "digits"}, "no boxes are marked in its images"),
        ({"model": "unet_nano"}, "unet_nano finds no objects"),
        ({"mixup": 0.2}, "mixup is an option of --task classify"),
        ({"smoothing": 0.1}, "smoothing is an option of --task classify"),
        ({"shard": True}, "shard is an option of --task classify"),
        ({"cache": "disk"}, "--cache disk"),
        ({"num_queries": 0}, "--num-queries must be at least 1"),
        ({"min_crop": 0.0}, "--min-crop must be above 0"),
        ({"recipe": "large"}, "recipe: expected .*got 'large'"),
        ({"position": "rotary", "model": "detr_micro"}, "has no position to choose"),
        ({"bad_files": 0.01}, "1 of 21 images"),
    ],
)
def test_what_cannot_be_is_refused(folder, tmp_path, changes, message):
    options = {"data": folder, "task": "detect", "bad_files": 0.2, "out": tmp_path / "run", **SHORT, **changes}
    with pytest.raises(vt.VitrailError, match=message):
        train(**options)


def test_other_tasks_have_no_boxes(tmp_path, command):
    answer = command("train", "--data", "digits", "--num-queries", 7, "--out", tmp_path / "run")
    assert "--num-queries is an option of --task detect only" in answer.err


def test_sizes_and_queries_are_chosen_by_the_data():
    assert choose_queries(np.array([3, 1, 2])) == 20
    assert choose_queries(np.array([28])) == 60
    assert choose_queries(np.array([28]), most=36) == 36, "queries are chosen among the places of the image"
    assert choose_box_size([Image.new("L", (48, 40))] * 3) == (40, 48)
    assert choose_box_size([Image.new("L", (640, 480)), Image.new("L", (641, 480))]) == (240, 320)
    assert choose_box_size([Image.new("L", (100, 70)), Image.new("L", (102, 70))], step=32) == (64, 96)


def test_check_names_what_is_wrong_with_boxes(folder, command):
    answer = command("check", folder, "--task", "detect", "--json", "--workers", 0)
    assert answer.code == 1
    found = {finding["kind"]: finding for finding in json.loads(answer.out)["findings"]}
    assert {"unreadable", "foreign boxes", "corrupt label", "no boxes"} <= found.keys()
    assert found["foreign boxes"]["pictures"][0].endswith("04.png: its annotations were made for 37x29 pixels, it has 50x50")
    assert "07.xml: cell: the box (299, 2, 310, 9) lies outside the image: left out" in found["corrupt label"]["pictures"][0]
    assert "7 of 21 images have no box" in found["no boxes"]["text"]
    assert json.loads(answer.out)["suggestion"]["command"].startswith("vitrail train --task detect --data ")
    Image.new("L", (5, 5)).save(folder / "JPEGImages" / "lonely.png")
    reported = command("check", folder, "--task", "detect", "--workers", 0)
    (folder / "JPEGImages" / "lonely.png").unlink()
    assert "1 image without annotations, or in no list, is not used" in reported.out
    assert "no boxes are marked" in command("check", "digits", "--task", "detect").err
    assert "which has no boxes" in command("check", folder, "--task", "detect", "--fix", "x.csv").err


@pytest.fixture
def few_counted(monkeypatch):
    """Objects are counted in a few of the images that are drawn."""
    monkeypatch.setattr("vitrail.data.box_data.COUNTED", 30)


@pytest.mark.usefixtures("few_counted")
def test_queries_that_have_no_place_are_refused_before_a_run_begins(tmp_path, command):
    answer = command("train", "--task", "detect", "--data", "shapes", "--num-queries", 500, "--out", tmp_path / "run")
    assert answer.code == 2
    assert "--num-queries 500: an image of 64x64 has 64 places to begin at" in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("few_counted")
@pytest.mark.parametrize(("kind", "denoising"), [("learned", 0), ("anchor", 40)])
def test_a_kind_of_query_needs_no_other_word(kind, denoising):
    data = vt.open_data("shapes")
    resolved = TASK.resolve(Options(data="shapes", query_kind=kind), Opened(data=data), None, None)
    config = TASK.build(resolved, None).config
    assert (config.query_kind, config.denoising, config.guesses) == (kind, denoising, 1)
