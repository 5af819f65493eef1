"""A studio with four small models of random weights in run folders of their own, and two browsers."""

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from starlette.testclient import TestClient

import vitrail as vt
from vitrail.data.digits import open_digits
from vitrail.deploy.studio.app import make_app
from vitrail.deploy.studio.serve import bind
from vitrail.deploy.studio.studio import Studio
from vitrail.deploy.studio.studio_model import Models
from vitrail.preprocessing import Preprocessing
from vitrail.run.runs import figures_of

PORT = 8471
ADDRESS = f"http://127.0.0.1:{PORT}"
COLUMNS = "epoch,train_loss,val_loss,val_accuracy,lr,seconds\n"
GRAY = Preprocessing(size=(8, 8), channels=1, mean=(0.3,), std=(0.4,), fit="squash")
WIDE = Preprocessing(size=(12, 20), channels=3, fit="crop")


def write_run(folder: Path, model, *, data: str = "digits", finished: bool = True) -> Path:
    """What a training run leaves behind."""
    vt.save(model, folder / "best")
    folder.joinpath("config.yaml").write_text(
        yaml.safe_dump({"data": data, "seed": 0, "epochs": 3, "model": "x", "minutes": None})
    )
    folder.joinpath("results.csv").write_text(COLUMNS + "1,2.0,1.9,0.5,0.001,30\n2,1.0,nan,0.75,0.001,60\n")
    if finished:
        folder.joinpath("metrics.json").write_text(json.dumps({"accuracy": 0.98611, "loss": 0.1}))
    return folder


def gray_model(name: str, **options):
    torch.manual_seed(0)
    model = vt.create_model(name, image_size=(8, 8), in_channels=1, num_classes=10, **options)
    model.preprocessing, model.labels = GRAY, tuple("0123456789")
    for weight in model.parameters():  # so that attention is not even
        if weight.ndim > 1:
            weight.data.mul_(4)
    return model


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """runs/ with: `cls` (class token and a register), `wide` (3:5, color, 30 labels, mean), `resnet`, `group`."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    write_run(folder / "cls", gray_model("vit_nano_patch2_32", pool="class", prefix=2, depth=3))
    torch.manual_seed(1)
    wide = vt.create_model("vit_nano_patch4_32", image_size=(12, 20), num_classes=30, depth=2)
    wide.preprocessing = WIDE
    vt.save(wide, folder / "wide" / "best")
    folder.joinpath("wide", "config.yaml").write_text("data: gone/away\n")
    write_run(folder / "resnet", gray_model("resnet8_32"), finished=False)
    write_run(folder / "group", gray_model("gsa_p4_small", depths=(2,), patch=2, overlap=0))
    return folder


@pytest.fixture(scope="session")
def studio(runs) -> Studio:
    return Studio(Models([str(runs)], figures_of=figures_of), budget=64 << 20)


@pytest.fixture(scope="session")
def app(studio):
    return make_app(studio, port=PORT)


@pytest.fixture
def browse(app):
    """A new browser, with a session of its own."""

    def opened(**options) -> TestClient:
        client = TestClient(options.pop("app", app), base_url=ADDRESS, **options)
        assert client.get("/").status_code == 200
        return client

    return opened


@pytest.fixture
def page(browse) -> TestClient:
    return browse()


@pytest.fixture(scope="session")
def ids(app) -> dict[str, dict]:
    """Models by name."""
    return {model["name"]: model for model in TestClient(app, base_url=ADDRESS).get("/api/models").json()}


@pytest.fixture(scope="session")
def encode():
    """A picture as a file's bytes."""

    def write(picture: Image.Image, kind: str = "PNG", **options) -> bytes:
        stream = io.BytesIO()
        picture.save(stream, kind, **options)
        return stream.getvalue()

    return write


@pytest.fixture
def make_run():
    """A run of a small gray model with one layer; `change` may do something to the model before it is saved."""

    def make(folder: Path, change=lambda model: None, *, depth: int = 1, **options) -> Path:
        model = gray_model("vit_nano_patch2_32", depth=depth)
        change(model)
        return write_run(folder, model, **options)

    return make


@pytest.fixture
def browse_studio(browse):
    """A browser of another studio, on runs of the test's own."""

    def opened(folder: Path, *, budget: int = 8 << 20) -> TestClient:
        return browse(app=make_app(Studio(Models([str(folder)], figures_of=figures_of), budget=budget), port=PORT))

    return opened


@pytest.fixture
def shop(folder, browse_studio):
    """A browser of a studio with the models of a test file's own `folder`, and their facts by name."""
    client = browse_studio(folder)
    return client, {model["name"]: model for model in client.get("/api/models").json()}


@pytest.fixture
def ask(shop, encode, photo):
    """Uploads a picture and asks a model of `shop` about it: ask("/api/drawings", "mae", share=0.5)."""
    client, models = shop

    def make(address: str, model: str, *, picture: Image.Image = photo, **options):
        name = client.post("/api/pictures", files={"file": ("photo.png", encode(picture))}).json()["id"]
        return client.post(address, json={"model": models[model]["id"], "picture": name, **options})

    return make


@pytest.fixture(scope="session")
def digit() -> Image.Image:
    return open_digits()["test"].read(3)


@pytest.fixture(scope="session")
def photo() -> Image.Image:
    """Color, 40 wide and 30 high, no two quarters alike."""
    rows, columns = np.mgrid[0:30, 0:40]
    return Image.fromarray(np.stack([8 * rows, 6 * columns, (rows * columns) % 256], axis=-1).astype(np.uint8))


@pytest.fixture
def upload(page):
    def send(content: bytes, name: str = "picture.png", *, client: TestClient = page):
        return client.post("/api/pictures", files={"file": (name, content)})

    return send


@pytest.fixture
def look(page, upload, ids, digit, photo, encode):
    """A look of a model by name: look("cls", erased=[1])."""

    def make(model: str = "cls", *, client: TestClient = page, **options):
        picture = upload(encode(photo if model == "wide" else digit), client=client).json()["id"]
        return client.post("/api/looks", json={"model": ids[model]["id"], "picture": picture, **options}).json()

    return make


@pytest.fixture(scope="session")
def serve():
    """A real server, for tests in a browser: with serve(sources, budget=...) as its address."""
    uvicorn = pytest.importorskip("uvicorn", reason="the studio is NOT tested in a browser: uvicorn is missing")

    @contextlib.contextmanager
    def begin(sources, *, budget: int) -> Iterator[str]:
        with bind("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
            app = make_app(Studio(Models([str(source) for source in sources], figures_of=figures_of), budget=budget), port=port)
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            try:
                yield f"http://127.0.0.1:{port}/"
            finally:
                server.should_exit = True
                thread.join()

    return begin


@pytest.fixture
def visit(browser, site):
    """Opens a page of `site.address`; whatever it complains of or asks of another host fails the test.

    `forgiven`: a part of a browser's own complaint that is no fault, such as that a file was refused.
    """
    complaints, requests, contexts = [], [], []

    def opened(
        path: str = "",
        *,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        touch: bool = False,
        forgiven: str | None = None,
    ):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=touch,
            is_mobile=touch,
            reduced_motion="reduce",
        )
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.complaints = complaints
        tab.on("console", lambda message: (forgiven and forgiven in message.text) or complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(site.address + path)
        tab.wait_for_selector("body[data-ready]")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith((site.address, "data:", "blob:"))] == []
