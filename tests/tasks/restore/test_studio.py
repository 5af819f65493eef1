"""Restoring in the studio: what comes out is what the model gives, watched tile by tile, within limits and for nobody else's eyes."""

import io
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.degradation import degrade, parse_degradation
from vitrail.data.images import read_image
from vitrail.learn.metrics.psnr import psnr, to_luma
from vitrail.models.tiling import restore_tiled
from vitrail.report.compare import differing_square
from vitrail.tasks.restore import studio as restorations
from vitrail.tasks.restore.predict import Pipeline

SMALL = {"width": 8, "depths": (1,), "heads": 2, "window": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `twice` (color, sr2), `noise` (gray, noise25), `new` (does not say what it undoes), `broken`, and one of labels."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("restore")
    gray = {"in_channels": 1, "out_channels": 1}
    models = {
        "twice": vt.create_model("swinir_nano_x2", **SMALL, degradation="sr2"),
        "noise": vt.create_model("swinir_nano", **SMALL, **gray, degradation="noise25"),
        "new": vt.create_model("swinir_nano", **SMALL),
        "broken": vt.create_model("swinir_nano", **SMALL),
        "labels": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for weight in models["broken"].parameters():
        weight.data.fill_(torch.nan)
    images = place / "images"
    images.mkdir()
    for number in range(12):
        Image.new("RGB", (20 + number, 16), (20 * number, 30, 60)).save(images / f"p{number}.png")
    for name, model in models.items():
        vt.save(model.eval(), place / name / "best")
        (place / name / "config.yaml").write_text(f"data: {images}\nseed: 0\ntask: restore\n")
    return place


@pytest.fixture(scope="module")
def scene():
    rows, columns = np.mgrid[0:47, 0:61]
    return Image.fromarray(np.stack([5 * rows, 4 * columns, (rows * columns) % 256], axis=-1).astype(np.uint8))


@pytest.fixture
def restore(shop, encode, scene):
    """Uploads the scene, restores it and waits: restore("twice", degrade=True)."""
    client, models = shop

    def make(model, *, image=scene, wait=True, **options):
        content = image if isinstance(image, bytes) else encode(image)
        name = client.post("/api/images", files={"file": ("scene.png", content)}).json()["id"]
        found = client.post("/api/restore/run", json={"model": models[model]["id"], "image": name, **options}).json()
        return finish(client, found) if wait else found

    return make


def finish(client, found):
    until = time.monotonic() + 60
    while found["state"] in ("waiting", "running"):
        assert time.monotonic() < until
        time.sleep(0.01)
        found = client.get(f"/api/restore/run/{found['id']}").json()
    return found


def pixels(client, found, which):
    answer = client.get(f"/api/restore/image?answer={found['id']}&which={which}")
    assert answer.headers["content-type"] == "image/png"
    return np.atleast_3d(np.asarray(Image.open(io.BytesIO(answer.content))))


def test_models_that_restore_say_what_they_undo(shop):
    _, models = shop
    twice, gray, new = models["twice"], models["noise"], models["new"]
    assert (twice["task"], twice["scale"], twice["channels"], twice["degradation"]) == ("restore", 2, 3, "sr2")
    assert twice["degraded"] == "made 2 times smaller"
    assert (gray["scale"], gray["channels"]) == (1, 1)
    assert new["degradation"] is None
    assert models["labels"]["task"] == "classify"


def test_as_it_is_comes_out_what_the_command_gives(shop, restore, folder, scene):
    client, _ = shop
    found = restore("twice")
    assert found["state"] == "done"
    assert (found["done"], found["of"]) == (1, 1)
    assert (found["width"], found["height"], found["given"]) == (122, 94, [47, 61])
    assert found["images"] == ["given", "restored"]
    assert found["scores"] == {}
    expected = np.asarray(Pipeline(vt.load(folder / "twice"))(scene))
    assert (pixels(client, found, "restored") == expected).all()
    given = pixels(client, found, "given")
    assert given.shape == (94, 122, 3)
    square = differing_square(given, expected, side=restorations.SQUARE)
    assert found["square"] == {"top": square.top, "left": square.left, "side": square.side}
    assert client.get(f"/api/restore/image?answer={found['id']}&which=truth").status_code == 404


def test_made_worse_first_there_is_a_truth_and_its_scores(shop, restore, folder, scene):
    client, _ = shop
    found = restore("twice", degrade=True)
    truth = np.asarray(scene)[:46, :60]  # whole multiples of the scale, from the middle
    assert (pixels(client, found, "truth") == truth).all()
    images = torch.from_numpy(truth.copy()).permute(2, 0, 1)[None].float() / 255
    small = degrade(images, parse_degradation("sr2"), seed=0, epoch=0, indices=np.array([0]))
    out = restore_tiled(vt.load(folder / "twice"), small, tile=256)[0].permute(1, 2, 0).numpy()
    restored = np.floor(255 * out + 0.5).clip(0, 255).astype(np.uint8)
    assert (pixels(client, found, "restored") == restored).all()
    assert found["given"] == [23, 30]
    for which in ("given", "restored"):
        expected = psnr(to_luma(pixels(client, found, which)), to_luma(truth), border=2)
        assert found["scores"][f"psnr_{which}"] == pytest.approx(expected, rel=1e-4)


def test_a_gray_model_keeps_colors_as_they_are_and_learns_in_gray(shop, restore):
    client, _ = shop
    assert pixels(client, restore("noise"), "restored").shape == (47, 61, 3)
    worse = restore("noise", degrade=True)
    assert pixels(client, worse, "restored").shape == (47, 61, 1)
    assert worse["scores"]["psnr_given"] == pytest.approx(20.2, abs=0.6)
    other = restore("noise", degrade=True, seed=1)
    assert (pixels(client, other, "given") != pixels(client, worse, "given")).any()
    assert (pixels(client, other, "truth") == pixels(client, worse, "truth")).all()


def test_progress_is_reported_tile_by_tile_and_a_large_image_is_cut(restore, monkeypatch):
    monkeypatch.setattr(restorations, "TILE", 16)
    monkeypatch.setattr(restorations, "MOST_MADE", 4_000)
    found = restore("twice")
    assert found["done"] == found["of"] > 2
    assert found["width"] * found["height"] <= 4_000
    assert found["width"] / found["height"] == pytest.approx(61 / 47, rel=0.1)
    assert found["notes"][0].startswith("The middle 36 × 27 of 61 × 47 pixels")
    worse = restore("twice", degrade=True, image=Image.new("RGB", (100, 90)))
    assert (worse["width"] % 2, worse["height"] % 2) == (0, 0)
    assert worse["width"] * worse["height"] <= 4_000


@pytest.fixture
def slow(monkeypatch):
    """Every tile waits for a sign."""
    sign, started = threading.Semaphore(0), threading.Event()
    monkeypatch.setattr(restorations, "TILE", 16)
    tiled = restorations.restore_tiled

    def wait(model, images, *, on_tile, **options):
        def reported(done, of):
            started.set()
            assert sign.acquire(timeout=60)
            on_tile(done, of)

        return tiled(model, images, on_tile=reported, **options)

    monkeypatch.setattr(restorations, "restore_tiled", wait)
    return sign, started


def test_it_can_be_stopped_and_a_newer_wish_stops_the_older(shop, restore, slow):
    client, _ = shop
    sign, started = slow
    older = restore("twice", degrade=True, wait=False)
    assert started.wait(60)
    newer = restore("twice", degrade=True, wait=False)
    assert client.get(f"/api/restore/run/{newer['id']}").json()["state"] == "waiting"
    sign.release()
    assert finish(client, older)["state"] == "stopped"
    assert client.post(f"/api/restore/run/{newer['id']}/stop", json={}).status_code == 200
    sign.release(100)
    stopped = finish(client, newer)
    assert stopped["state"] == "stopped"
    assert client.get(f"/api/restore/image?answer={newer['id']}&which=restored").status_code == 404


def test_what_cannot_be_done_is_reported_in_one_line(shop, restore, encode):
    client, models = shop
    broken = restore("broken")
    assert (broken["state"], broken["error"].count("\n")) == ("failed", 0)
    assert "finite" in broken["error"]
    tiny = restore("twice", degrade=True, image=Image.new("RGB", (1, 9)))
    assert "cannot be made 2 times smaller" in tiny["error"]
    assert restore("twice", image=Image.new("RGB", (1, 1)))["state"] == "done"
    image = client.post("/api/images", files={"file": ("a.png", encode(Image.new("L", (9, 9))))}).json()["id"]

    def ask(**order):
        answer = client.post("/api/restore/run", json={"image": image, **order})
        return answer.status_code, answer.json()["error"]

    assert ask(model=models["labels"]["id"]) == (422, "This model does not restore images.")
    assert ask(model="gone")[0] == 404
    assert ask(model=models["new"]["id"], degrade=True)[1].startswith("This model does not say what it learned to undo")
    assert ask(model=models["new"]["id"], degrade="yes")[0] == 422
    assert ask(model=models["new"]["id"], image="gone")[0] == 404
    look = client.post("/api/classify/look", json={"model": models["twice"]["id"], "image": image})
    assert (look.status_code, look.json()["error"]) == (422, "This model restores images: it has no labels to tell.")
    text = client.post("/api/translate/read", json={"model": models["twice"]["id"], "text": "a"})
    assert text.status_code == 422


def test_others_do_not_see_it(shop, restore):
    client, _ = shop
    found = restore("new")
    stranger = client.__class__(client.app, base_url=client.base_url)
    stranger.get("/")
    for path in (f"run/{found['id']}", f"image?answer={found['id']}&which=restored"):
        assert stranger.get(f"/api/restore/{path}").status_code == 404
    assert stranger.post(f"/api/restore/run/{found['id']}/stop", json={}).status_code == 404
    assert client.get(f"/api/restore/run/{found['id']}").status_code == 200


def test_what_no_longer_fits_the_memory_goes(folder, browse_studio, encode, scene):
    client = browse_studio(folder, budget=60_000)
    model = next(model["id"] for model in client.get("/api/models").json() if model["name"] == "twice")
    image = client.post("/api/images", files={"file": ("a.png", encode(scene))}).json()["id"]
    names = []
    for _ in range(4):
        answer = client.post("/api/restore/run", json={"model": model, "image": image})
        if answer.status_code == 410:  # the image itself had to go
            break
        names.append(finish(client, answer.json())["id"])
    assert client.get(f"/api/restore/run/{names[0]}").status_code == 410


def test_the_images_of_the_run_that_were_not_trained_on_are_offered(shop, folder):
    client, models = shop
    name = models["twice"]["id"]
    [sample] = client.get(f"/api/models/{name}/samples").json()  # a tenth of twelve
    assert sample["label"].endswith(".png")
    assert client.get(sample["url"]).status_code == 200
    image = client.post("/api/images", json={"model": name, "sample": 0}).json()
    found = read_image(folder / "images" / sample["label"])
    assert (image["width"], image["height"]) == found.size


def test_the_page_and_the_reports_slider_are_served(shop):
    client, _ = shop
    for path, kind in (
        ("/restore", "text/html"),
        ("/static/tasks/restore/before_after.js", "text/javascript"),
        ("/static/tasks/restore/before_after.css", "text/css"),
    ):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
    assert client.get("/static/tasks/restore/before_after.py").status_code == 404
