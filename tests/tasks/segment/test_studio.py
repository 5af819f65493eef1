"""Segmenters in the studio: the mask is what `predict` gives, a pixel's probabilities are the model's, and nothing else is taken."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.deploy.studio.pixels import encode_numbers
from vitrail.explain.places import read_from_place
from vitrail.tasks.segment.predict import Pipeline
from vitrail.tasks.segment.studio import chances_at, shown_size

LABELS = ("ground", "cat", "dog", "cow")


def tiny_segmenter(name="segmenter_linear_vit_micro_hybrid", **options):
    torch.manual_seed(0)
    model = vt.create_model(name, num_classes=4, image_size=(24, 40), **options).eval()
    model.labels, model.colors = LABELS, ((1, 2, 3), (250, 0, 0), (0, 250, 0), (0, 0, 250))
    for weight in model.head.parameters():  # so that classes differ from place to place
        if weight.ndim > 1:
            weight.data.mul_(40)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `vit` on shapes, `resnet` (nothing attends), `broken`, and one of labels."""
    place = tmp_path_factory.mktemp("segment")
    models = {
        "vit": tiny_segmenter(),
        "resnet": vt.create_model("upernet_resnet20_96", num_classes=2, image_size=(24, 40)),
        "broken": tiny_segmenter(),
        "labels": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for weight in models["broken"].parameters():
        weight.data.fill_(torch.nan)
    for name, model in models.items():
        vt.save(model, place / name / "best")
        (place / name / "config.yaml").write_text("data: shapes\nseed: 0\ntask: segment\n")
    return place


@pytest.fixture
def segment(ask):
    """Uploads an image and asks for its classes: segment("vit")."""
    return lambda model="vit", **options: ask("/api/segment/find", model, **options)


def numbers_in(address):
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1])))).astype(np.int64)
    return pixels[:, :, 0] + 256 * pixels[:, :, 1]


def test_a_segmenter_says_what_it_is(shop):
    _, models = shop
    vit = models["vit"]
    assert (vit["task"], vit["labels"], vit["image_size"], vit["head"]) == ("segment", list(LABELS), [24, 40], "linear")
    assert vit["colors"][1] == [250, 0, 0]
    assert vit["attention"]
    assert not models["resnet"]["attention"]
    assert models["resnet"]["labels"] == ["LABEL_0", "LABEL_1"]


@pytest.mark.parametrize("name", ["vit", "resnet"])
def test_the_mask_is_what_predict_gives(segment, folder, photo, name):
    found = segment(name).json()
    assert (found["width"], found["height"]) == photo.size
    expected = Pipeline(vt.load(folder / name)).segment(photo)
    assert (numbers_in(found["mask"]) == expected.numbers).all()
    parts = vt.pipeline("image-segmentation", folder / name)(photo)
    labels = vt.load(folder / name).labels or ("LABEL_0", "LABEL_1")
    assert [labels[one["index"]] for one in found["classes"]] == [part["label"] for part in parts]
    for one, part in zip(found["classes"], parts, strict=True):
        assert one["score"] == pytest.approx(part["score"], abs=1e-4)
        assert one["share"] == pytest.approx((np.asarray(part["mask"]) == 255).mean(), abs=1e-5)


def test_a_pixels_probabilities_are_the_models(shop, segment, folder, photo):
    client, _ = shop
    found = segment().json()
    mask = numbers_in(found["mask"])
    chances = Pipeline(vt.load(folder / "vit")).look(photo).probabilities
    whole = torch.nn.functional.interpolate(chances[None], size=(30, 40), mode="bilinear")[0]
    for row, column in ((0, 0), (12, 27), (29, 39)):
        place = f"row={(row + 0.5) / 30}&column={(column + 0.5) / 40}"
        reported = client.get(f"/api/segment/place?answer={found['id']}&{place}").json()
        assert (reported["row"], reported["column"], reported["index"]) == (row, column, mask[row, column])
        assert sum(one["p"] for one in reported["classes"]) == pytest.approx(1, abs=1e-3)
        for one in reported["classes"]:
            assert one["p"] == pytest.approx(float(whole[one["index"], row, column]), abs=1e-3)


def test_probabilities_at_a_pixel_are_those_of_the_stretched_map():
    torch.manual_seed(0)
    chances = torch.rand(3, 5, 7)
    for size in ((5, 7), (11, 13), (3, 2)):
        whole = torch.nn.functional.interpolate(chances[None], size=size, mode="bilinear")[0]
        for pixel in ((0, 0), (size[0] - 1, size[1] - 1), (size[0] // 2, 1)):
            assert chances_at(chances, pixel, size) == pytest.approx(whole[:, pixel[0], pixel[1]], abs=1e-5)


def test_what_a_place_attends_to_is_the_encoders_own(shop, segment, folder, photo):
    client, _ = shop
    found = segment().json()
    [wall] = client.get(f"/api/segment/attention?answer={found['id']}&row=0.4&column=0.9").json()["walls"]
    model = vt.load(folder / "vit").eval()
    images = Pipeline(model).look(photo).images.clone()
    expected = read_from_place(model, images, (0.4, 0.9))
    assert wall["covers"] == pytest.approx(expected.covers, abs=1e-4)
    for layer, maps in zip(wall["layers"], expected.layers, strict=True):
        assert layer["grid"] == list(maps.shape[1:])
        heads = np.array(layer["heads"])
        assert heads == pytest.approx(maps.flatten(1).numpy(), abs=1e-4)
        assert heads.sum(1) == pytest.approx(1, abs=1e-3)  # of an encoder without prefix tokens


def test_numbers_of_two_bytes_survive_and_large_images_are_shown_smaller():
    numbers = np.array([[0, 255, 256], [9999, 513, 1]])
    pixels = np.asarray(Image.open(io.BytesIO(encode_numbers(numbers)))).astype(np.int64)
    assert (pixels[:, :, 0] + 256 * pixels[:, :, 1] == numbers).all()
    assert shown_size((30, 1024)) == (30, 1024)
    assert shown_size((4096, 2)) == (1024, 1)
    assert shown_size((1, 5000)) == (1, 1024)


def test_without_room_there_are_no_probabilities_and_it_is_said(folder, browse_studio, encode, photo):
    client = browse_studio(folder, budget=30_000)
    [model] = [one for one in client.get("/api/models").json() if one["name"] == "vit"]
    name = client.post("/api/images", files={"file": ("photo.png", encode(photo))}).json()["id"]
    found = client.post("/api/segment/find", json={"model": model["id"], "image": name}).json()
    assert found["kept"] is False
    refused = client.get(f"/api/segment/place?answer={found['id']}&row=0&column=0")
    assert (refused.status_code, "--memory" in refused.json()["error"]) == (422, True)


def test_what_cannot_be_answered_is_refused_in_a_sentence(shop, folder, browse_studio, segment):
    client, models = shop
    assert "gives no classes to pixels" in segment("labels").json()["error"]
    assert "not finite" in segment("broken").json()["error"]
    assert segment(opacity=1).status_code == 422
    found = segment("resnet").json()
    for kind, place in (("place", "row=1&column=0"), ("attention", "row=0&column=nan"), ("place", "row=-0.1&column=0")):
        refused = client.get(f"/api/segment/{kind}?answer={found['id']}&{place}")
        assert (refused.status_code, "from 0 to 1" in refused.json()["error"]) == (422, True)
    refused = client.get(f"/api/segment/attention?answer={found['id']}&row=0&column=0")
    assert (refused.status_code, list(refused.json())) == (422, ["error"])
    assert browse_studio(folder).get(f"/api/segment/place?answer={found['id']}&row=0&column=0").status_code == 404
    assert len(client.get(f"/api/models/{models['vit']['id']}/samples").json()) == 24
