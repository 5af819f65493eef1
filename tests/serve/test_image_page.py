"""A task whose studio part is one short file: its page shows an image and what came of it, without a line of JavaScript."""

import io
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.tasks import registry

STUDIO = """
import numpy as np

from vitrail.data.transforms import prepare
from vitrail.deploy.studio.action import Action, ImageOrder
from vitrail.deploy.studio.facts import describe_image_model as describe
from vitrail.deploy.studio.pages.image.page import opened
from vitrail.deploy.studio.pixels import encode_pixels, png_address

PAGE = "image"


def run(context, order):
    with opened(context, order) as (model, image):
        count = float(model(prepare([image], model.preprocessing))[0, 0])
    return {"objects": count, "<b>size</b>": list(image.size), "image": png_address(encode_pixels(np.asarray(image)))}


def draw(context, order):
    with opened(context, order) as (_, image):
        return encode_pixels(np.asarray(image.convert("L")))


ACTIONS = {"run": Action(function=run, order=ImageOrder), "draw": Action(function=draw, order=ImageOrder, output="png")}
"""
METRICS = 'from vitrail.tasks.metric import Metric\n\nMETRICS = (Metric(key="mae", title="Error", short="error", unit=""),)\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models of one architecture: one of a task of the test's own, and one of labels."""
    place = tmp_path_factory.mktemp("toy")
    home = place / "modules" / "toy_counter"
    home.mkdir(parents=True)
    for name, text in (("__init__", ""), ("studio", STUDIO), ("metrics", METRICS)):
        (home / f"{name}.py").write_text(text)
    for name, task in (("counter", "toy_counter"), ("labels", "classify")):
        torch.manual_seed(0)
        model = vt.create_model("vit_nano_patch4_32", num_classes=1)
        registry.name_task(model, task)
        vt.save(model, place / "runs" / name / "best")
        (place / "runs" / name / "config.yaml").write_text(f"data: shapes\nseed: 0\ntask: {task}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place / "modules"))
        patch.setitem(registry.TASKS, "toy_counter", registry.Entry("a toy", home="toy_counter"))
        yield place / "runs"


def test_its_action_is_an_address_and_other_models_are_refused(ask, shop, photo):
    client, models = shop
    assert (models["counter"]["task"], models["counter"]["page"]) == ("toy_counter", "/image")
    assert (models["labels"]["task"], models["labels"]["page"]) == ("classify", "/")
    found = ask("/api/toy_counter/run", "counter").json()
    assert found["<b>size</b>"] == list(photo.size)
    assert isinstance(found["objects"], float)
    assert found["image"].startswith("data:image/png;base64,")
    drawn = ask("/api/toy_counter/draw", "counter")
    assert drawn.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(drawn.content)).size == photo.size
    refused = ask("/api/toy_counter/run", "labels")
    assert (refused.status_code, list(refused.json())) == (422, ["error"])
    assert ask("/api/toy_counter/run", "counter", more=1).status_code == 422
    reported = client.get("/api/tasks").json()
    assert {"address": "/image", "title": "Results"}.items() <= reported["pages"][-1].items()
    assert "vitrail train --task toy_counter" in reported["pages"][-1]["missing"]
    assert reported["tasks"][-1]["metrics"][0]["short"] == "error"


@pytest.fixture(scope="module")
def site(serve, folder):
    with serve([folder / "counter", folder / "labels"], budget=16 << 20) as address:
        yield SimpleNamespace(address=address)


def test_the_page_shows_the_image_and_the_result(visit, tmp_path, photo):
    tab = visit()
    assert "/image" in tab.url
    photo.save(tmp_path / "photo.png")
    tab.set_input_files("#file", tmp_path / "photo.png")
    tab.wait_for_selector("#answer:not([hidden])")
    tab.get_by_role("cell", name="40, 30").wait_for()  # a sample's result may stand there for a moment
    assert tab.locator("#shown img").get_attribute("alt") == "photo.png"
    assert tab.locator("#answer th").all_inner_texts() == ["objects", "<b>size</b>", "image"]
    assert tab.locator("#answer td").nth(1).inner_text() == "40, 30"
    assert tab.locator("#answer td img").evaluate("image => [image.naturalWidth, image.naturalHeight]") == [40, 30]
    assert [label.strip() for label in tab.locator("#model optgroup").evaluate_all("all => all.map(one => one.label)")] == [
        "Images"
    ]
