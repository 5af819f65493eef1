"""Wrong marks of every kind in every format: `check` names them, batches come all the same; and files that rot while a run learns."""

import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.box_data import find_boxes
from vitrail.data.image_store import ImageStore
from vitrail.data.joint import Movement
from vitrail.data.masked import find_masked
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing
from vitrail.run.check import check
from vitrail.tasks.detect.data import BoxSource, box_loader
from vitrail.tasks.detect.task import Detection
from vitrail.tasks.segment.data import crop_loader
from vitrail.tasks.segment.task import Segmentation

PREPROCESSING = Preprocessing(size=(16, 16), mean=(0.5,) * 3, std=(0.5,) * 3)
SIDE, COUNT = 24, 12
FAULTS = {1: "size", 2: "class", 3: "outside", 4: "empty", 5: "unpaired", 6: "broken"}
OBJECT = "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"


def objects_of(fault, generator):
    """Class and corners of what is marked in an image."""
    if fault == "empty":
        return []
    x, y = generator.integers(1, 10, 2).tolist()
    good = (int(generator.integers(0, 2)), (x, y, x + 8, y + 6))
    wrong = {"class": [(7, (2, 2, 9, 9))], "outside": [(0, (300, 3, 310, 9))]}
    return [good, *wrong.get(fault, [])]


def write_images(folder, faults, generator):
    folder.mkdir(parents=True)
    for number in range(COUNT):
        fault, path = faults.get(number), folder / f"p{number:02}.png"
        side = SIDE + 7 if fault == "size" else SIDE
        if fault == "broken":
            path.write_bytes(b"\x89PNG\r\n\x1a\nno more")
        elif fault != "unpaired":
            Image.fromarray(generator.integers(0, 255, (side, side, 3), dtype=np.uint8)).save(path)


def write_masks(folder, faults, generator):
    write_images(folder / "images", faults, generator)
    (folder / "masks").mkdir()
    for number in range(COUNT):
        mask = generator.integers(0, 3, (SIDE, SIDE)).astype(np.uint8)
        mask[:4] = {"class": 77, "empty": 255}.get(faults.get(number), 0)
        mask[4:] = 255 if faults.get(number) == "empty" else mask[4:]
        Image.fromarray(mask).save(folder / "masks" / f"p{number:02}.png")
    (folder / "classes.txt").write_text("a\nb\nc\n")
    return folder


def write_coco(folder, faults, generator):
    write_images(folder / "images", faults, generator)
    record = {"images": [], "annotations": [], "categories": [{"id": 10, "name": "a"}, {"id": 11, "name": "b"}]}
    for number in range(COUNT):
        name = f"p{number:02}"
        record["images"].append({"id": number, "file_name": f"{name}.png", "width": SIDE, "height": SIDE})
        for kind, (x0, y0, x1, y1) in objects_of(faults.get(number), generator):
            outline = [[x0, y0, x1, y0, x1, y1, x0, y1]]
            entry = {"id": name, "image_id": number, "category_id": 10 + kind, "bbox": [x0, y0, x1 - x0, y1 - y0]}
            record["annotations"].append(entry | {"segmentation": outline})
    (folder / "annotations").mkdir()
    (folder / "annotations" / "instances_train.json").write_text(json.dumps(record))
    return folder


def write_voc(folder, faults, generator):
    write_images(folder / "JPEGImages", faults, generator)
    for part in ("Annotations", "SegmentationClass", "ImageSets/Main"):
        (folder / part).mkdir(parents=True)
    for number in range(COUNT):
        name, fault = f"p{number:02}", faults.get(number)
        marked = "".join(
            OBJECT.format("ab"[kind] if kind < 2 else "strange", *box) for kind, box in objects_of(fault, generator)
        )
        size = f"<size><width>{SIDE}</width><height>{SIDE}</height></size>"
        (folder / "Annotations" / f"{name}.xml").write_text(f"<annotation>{size}{marked}</annotation>")
        mask = generator.integers(0, 3, (SIDE, SIDE)).astype(np.uint8)
        mask[:] = 77 if fault == "class" else 255 if fault == "empty" else mask
        Image.fromarray(mask).save(folder / "SegmentationClass" / f"{name}.png")
    # What a class is, train says: the strange one is met in val.
    strange = [f"p{number:02}" for number in range(COUNT) if faults.get(number) == "class"]
    rest = [f"p{number:02}" for number in range(COUNT) if f"p{number:02}" not in strange]
    for split, names in {"train": rest, "val": [*strange, "p00"]}.items():
        (folder / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(names))
    return folder


def write_yolo(folder, faults, generator):
    write_images(folder / "images", faults, generator)
    (folder / "labels").mkdir()
    for number in range(COUNT):
        lines = []
        for kind, (x0, y0, x1, y1) in objects_of(faults.get(number), generator):
            shares = [(x0 + x1) / 2 / SIDE, (y0 + y1) / 2 / SIDE, (x1 - x0) / SIDE, (y1 - y0) / SIDE]
            lines.append(" ".join(map(str, (kind, *shares))))
        (folder / "labels" / f"p{number:02}.txt").write_text("\n".join(lines))
    (folder / "classes.txt").write_text("a\nb\n")
    return folder


FORMATS = {
    ("segment", "masks"): (write_masks, {"outside"}),  # a mask has no box
    ("segment", "coco"): (write_coco, {"empty"}),  # an image without objects is ground
    ("segment", "voc"): (write_voc, set()),
    ("detect", "coco"): (write_coco, set()),
    ("detect", "voc"): (write_voc, set()),
    ("detect", "yolo"): (write_yolo, {"size"}),  # shares fit every size
}


def batches_of(task, data, met):
    split = data["train"]
    if task == "segment":
        settings = {"classes": len(data.classes), "batch": 8, "how": Movement(flip=True, rotate=5.0), "zoom": 0.4}
        return crop_loader(split, PREPROCESSING, **settings, on_bad=met.append)
    images = BoxSource(ImageStore(split, channels=3, budget=0), PREPROCESSING, how=Movement(flip=True), window=0.5)
    return box_loader(images, batch=8, shuffle=True, on_bad=met.append)


@pytest.mark.parametrize(("task", "kind"), FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_every_fault_is_named_and_batches_come_all_the_same(tmp_path, monkeypatch, task, kind, seed):
    """Faults in other images each time; the good ones, one of each class at least, stay."""

    def no_forecast(*words, **options):
        raise VitrailError("not here")

    monkeypatch.setattr("vitrail.run.check.suggest", no_forecast)
    write, harmless = FORMATS[task, kind]
    generator = np.random.default_rng(seed)
    places = generator.permutation(np.arange(1, COUNT))[: len(FAULTS)].tolist()
    faults = {place: fault for place, fault in zip(places, FAULTS.values(), strict=True) if fault not in harmless}
    folder = write(tmp_path / "data", faults, generator)
    found = check(folder, task=task, workers=0)
    reported = " ".join(f"{finding.text} {' '.join(finding.pictures)}" for finding in found.findings)
    for place, fault in faults.items():
        assert f"p{place:02}" in reported, f"{fault}: p{place:02}"
    assert found.serious
    data = find_masked(str(folder)) if task == "segment" else find_boxes(str(folder))
    met = []
    for epoch in range(3):
        for batch in batches_of(task, data, met).batches(epoch):
            assert torch.isfinite(batch.images).all()
            numbers = batch.masks if task == "segment" else batch.classes
            assert -1 <= numbers.min() <= numbers.max() < len(data.classes)
            if task == "detect":
                assert 0 <= batch.boxes.min() <= batch.boxes.max() <= 1
    assert all("\n" not in str(error) for error in met)


@pytest.fixture
def rotting(monkeypatch):
    """Files that are gone, or cut off, between the first look at them and the first batch."""

    monkeypatch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))

    def rotting(task, *files):
        plain = task.loaders

        def loaders(self, setup, world):
            for number, file in enumerate(files):
                file.write_bytes(file.read_bytes()[:60]) if number % 2 else file.unlink()
            return plain(self, setup, world)

        monkeypatch.setattr(task, "loaders", loaders)

    return rotting


def read_during(run):
    with (run.path / "bad_files.csv").open() as file:
        return [row["picture"] for row in csv.DictReader(file) if row["met"] == "during"]


SHORT = {"epochs": 1, "workers": 0, "device": "cpu", "bad_files": 0.6, "quiet": True}


def test_masks_and_images_that_rot_while_a_run_learns_from_them(tmp_path, rotting):
    folder = write_masks(tmp_path / "data", {}, np.random.default_rng(0))
    parts = (folder / "images" / "p01.png", folder / "masks" / "p04.png", folder / "masks" / "p07.png")
    rotting(Segmentation, *parts)
    model = {"model": "vit_nano_patch4_32", "head": "linear", "image_size": 16, "batch_size": 5}
    run = vt.train(data=folder, task="segment", out=tmp_path / "run", **model, **SHORT)
    assert {name[-7:-4] for name in read_during(run)} == {"p01", "p04", "p07"}
    assert run.metrics


def test_images_with_boxes_that_rot_while_a_run_learns_from_them(tmp_path, rotting):
    folder = write_yolo(tmp_path / "data", {}, np.random.default_rng(0))
    rotting(Detection, folder / "images" / "p01.png", folder / "images" / "p04.png")
    model = {"model": "detr_micro", "image_size": 16, "num_queries": 4, "batch_size": 5, "cache": "off"}
    run = vt.train(data=folder, task="detect", out=tmp_path / "run", **model, **SHORT)
    assert {name[-7:-4] for name in read_during(run)} == {"p01", "p04"}
