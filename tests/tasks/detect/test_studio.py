"""Detectors in the studio: the boxes are the pipeline's, what was read for one of them sums to 1, and nothing else is taken."""

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.transforms import prepare
from vitrail.explain.boxes import see_boxes
from vitrail.tasks.detect.studio import LEAST

LABELS = ("cat", "dog", "cow")


def tiny_detector(kind="detr_micro", **options):
    torch.manual_seed(0)
    model = vt.create_model(kind, num_classes=3, image_size=(40, 56), queries=7, **options).eval()
    model.labels = LABELS
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `focal` on shapes, `plain` (a softmax, an encoder of no blocks), `broken`, and one of labels."""
    place = tmp_path_factory.mktemp("detect")
    models = {
        "focal": tiny_detector(),
        "plain": tiny_detector("detr_micro_plain", depth=0),
        "broken": tiny_detector(),
        "labels": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for weight in models["broken"].parameters():
        weight.data.fill_(torch.nan)
    for model in models.values():
        if hasattr(model, "class_head"):
            torch.nn.init.normal_(model.class_head.weight, std=0.5)  # some sure, some not
            torch.nn.init.zeros_(model.class_head.bias)
    for name, model in models.items():
        vt.save(model, place / name / "best")
        (place / name / "config.yaml").write_text("data: shapes\nseed: 0\ntask: detect\n")
    return place


@pytest.fixture
def detect(ask):
    """Uploads an image and finds its boxes: detect("focal")."""
    return lambda model="focal", **options: ask("/api/detect/find", model, **options)


def test_a_detector_says_what_it_is(shop):
    _, models = shop
    focal, plain = models["focal"], models["plain"]
    assert (focal["task"], focal["labels"], focal["image_size"], focal["queries"]) == ("detect", list(LABELS), [40, 56], 7)
    assert (focal["threshold"], plain["threshold"]) == (0.3, 0.5)
    assert (focal["layers"], plain["layers"], plain["decoder_layers"]) == (1, 0, 3)
    assert focal["attention"]
    assert len(focal["colors"]) == 3


@pytest.mark.parametrize("name", ["focal", "plain"])
@pytest.mark.parametrize("threshold", [LEAST, 0.3])
def test_the_boxes_are_the_pipelines(detect, folder, photo, name, threshold):
    found = detect(name).json()
    assert (found["width"], found["height"]) == photo.size
    expected = vt.pipeline("object-detection", folder / name)(photo, threshold=threshold)
    boxes = [box for box in found["boxes"] if box["score"] >= threshold]
    assert expected or threshold > LEAST
    assert len(boxes) == len(expected)
    for one, other in zip(boxes, expected, strict=True):
        assert LABELS[one["label"]] == other["label"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-4)
        assert one["box"] == pytest.approx(list(other["box"].values()), abs=0.501)  # whole pixels there


@pytest.mark.parametrize(("name", "walls"), [("focal", ["decoder", "encoder"]), ("plain", ["decoder"])])
def test_what_is_read_for_a_box_is_the_models_own_and_sums_to_one(shop, detect, folder, photo, name, walls):
    client, _ = shop
    found = detect(name).json()
    number = len(found["boxes"]) - 1
    reading = client.get(f"/api/detect/reading?answer={found['id']}&box={number}").json()
    assert [wall["name"] for wall in reading["walls"]] == walls
    model = vt.load(folder / name).eval()
    sight = see_boxes(model, prepare([photo], model.preprocessing))
    query = found["boxes"][number]["query"]
    expected = {"decoder": list(sight.read_by_query(query)), "encoder": sight.read_from_middle(query)}
    for wall in reading["walls"]:
        assert wall["covers"] == [1, 1]
        assert len(wall["layers"]) == len(expected[wall["name"]])
        for layer, maps in zip(wall["layers"], expected[wall["name"]], strict=True):
            assert layer["grid"] == list(maps.shape[1:])
            assert np.array(layer["heads"]).sum(1) == pytest.approx(1, abs=1e-3)
            assert np.array(layer["heads"]) == pytest.approx(maps.flatten(1).numpy(), abs=1e-4)


def test_samples_are_of_the_runs_own_images(shop):
    client, models = shop
    samples = client.get(f"/api/models/{models['focal']['id']}/samples").json()
    assert len(samples) == 24
    assert client.get(samples[0]["url"]).headers["content-type"] == "image/png"


def test_what_cannot_be_answered_is_refused_in_a_sentence(shop, browse_studio, folder, detect):
    client, models = shop
    assert "finds no objects" in detect("labels").json()["error"]
    assert "not finite" in detect("broken").json()["error"]
    assert detect(threshold=0.5).status_code == 422
    found = detect().json()
    missing = client.get(f"/api/detect/reading?answer={found['id']}&box=400")
    assert (missing.status_code, missing.json()["error"]) == (
        404,
        f"There is no box 400: this image has {len(found['boxes'])}.",
    )
    assert browse_studio(folder).get(f"/api/detect/reading?answer={found['id']}&box=0").status_code == 404  # another's
    image = client.post("/api/images", json={"model": models["focal"]["id"], "sample": 0}).json()["id"]
    refused = client.post("/api/classify/look", json={"model": models["focal"]["id"], "image": image})
    assert (refused.status_code, "finds objects" in refused.json()["error"]) == (422, True)


def test_an_upright_image_is_meant(detect, encode, shop):
    client, models = shop
    turned = Image.new("RGB", (60, 20), (200, 10, 10))
    exif = turned.getexif()
    exif[0x0112] = 6  # lies on its side
    name = client.post("/api/images", files={"file": ("p.jpg", encode(turned, "JPEG", exif=exif))}).json()["id"]
    found = client.post("/api/detect/find", json={"model": models["focal"]["id"], "image": name}).json()
    assert (found["width"], found["height"]) == (20, 60)
