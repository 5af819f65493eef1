"""Hidden patches in the studio: what comes back is what the model draws from those that are left, and nothing else is taken."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.data.transforms import to_bytes
from vitrail.deploy.studio.pages.masks.drawings import keep_all_but, keep_at_random
from vitrail.deploy.studio.pixels import prepare_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.errors import VitrailError
from vitrail.explain.masked_patches import reconstruct
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.preprocessing import Preprocessing

HIDDEN = [0, 3, 8, 14]


def tiny_mae(*, normalize=True, channels=3, size=(12, 20)):
    """A grid of 3 x 5."""
    torch.manual_seed(0)
    backbone = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "image_size": size, "in_channels": channels}
    config = MAEConfig(backbone=backbone, decoder_width=8, decoder_depth=1, decoder_heads=2, hide=0.6, normalize=normalize)
    model = build_mae(config).eval()
    model.preprocessing = Preprocessing(size=size, channels=channels, mean=(0.4,) * channels, std=(0.3,) * channels, fit="crop")
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs: `mae` with images of its own, `pixels` (not normalized), `gray` (on digits), `broken`, and one of labels."""
    place = tmp_path_factory.mktemp("mask")
    models = {
        "mae": tiny_mae(),
        "pixels": tiny_mae(normalize=False),
        "gray": tiny_mae(channels=1, size=(8, 8)),
        "broken": tiny_mae(),
        "labels": vt.create_model("vit_nano_patch4_32", num_classes=3),
    }
    for weight in models["broken"].parameters():
        weight.data.fill_(torch.nan)
    images = place / "images"
    images.mkdir()
    for number in range(12):
        Image.new("RGB", (20 + number, 16), (20 * number, 30, 60)).save(images / f"p{number}.png")
    for name, model in models.items():
        vt.save(model, place / name / "best")
        source = "digits" if name == "gray" else images
        (place / name / "config.yaml").write_text(f"data: {source}\nseed: 0\ntask: mae\n")
    return place


@pytest.fixture
def draw(ask):
    """Uploads an image and hides patches of it: draw("mae", share=0.5)."""
    return lambda model="mae", **options: ask("/api/mae/draw", model, **options)


def pixels(address):
    assert address.startswith("data:image/png;base64,")
    return np.atleast_3d(np.asarray(Image.open(io.BytesIO(base64.b64decode(address.split(",")[1])))))


def test_a_masked_autoencoder_says_how_it_learned(shop):
    _, models = shop
    mae = models["mae"]
    assert (mae["task"], mae["grid"], mae["patch"], mae["hide"], mae["normalize"]) == ("mae", [3, 5], [4, 4], 0.6, True)
    assert (mae["layers"], mae["decoder_layers"], mae["channels"]) == (2, 1, 3)
    assert models["pixels"]["normalize"] is False
    assert models["labels"]["task"] == "classify"


@pytest.mark.parametrize(("name", "statistics"), [("mae", "true"), ("mae", "seen"), ("pixels", "true")])
def test_what_is_drawn_is_what_the_model_draws(draw, folder, name, statistics):
    found = draw(name, hidden=HIDDEN, statistics=statistics).json()
    read = pixels(found["read"])
    assert read.shape == (12, 20, 3)  # of an image 40 wide and 30 high: as the model reads it
    model = vt.load(folder / name)
    kept = torch.tensor([[cell for cell in range(15) if cell not in HIDDEN]])
    images = prepare_pixels(read.copy(), model.preprocessing)
    expected = reconstruct(model, images, kept, statistics=statistics)
    assert (pixels(found["drawn"]) == to_bytes(expected.drawn, model.preprocessing)[0]).all()
    assert found["hidden"] == HIDDEN
    assert found["share"] == pytest.approx(4 / 15, abs=1e-5)
    assert found["explained"] == pytest.approx(float(expected.explained), rel=1e-4)
    assert found["ms"] > 0


def test_what_is_hidden_does_not_reach_the_drawing(draw, photo):
    hidden = [cell for cell in range(15) if cell % 5 >= 3]  # the right of the image, from column 24 of 40 on
    other = np.asarray(photo).copy()
    other[:, 30:] = 255 - other[:, 30:]  # so far off that resizing does not carry it over to what is seen
    one, two, three = (
        draw("pixels", image=Image.fromarray(array), hidden=hidden).json()
        for array in (np.asarray(photo), other, 255 - np.asarray(photo))
    )
    assert (pixels(one["read"]) != pixels(two["read"])).any()
    assert (pixels(one["drawn"]) == pixels(two["drawn"])).all()
    assert (pixels(one["drawn"]) != pixels(three["drawn"])).any()


@pytest.mark.parametrize(("share", "count"), [(0.05, 1), (0.5, 7), (0.75, 11), (0.95, 14)])
def test_a_share_is_hidden_at_random(draw, share, count):
    found = draw(share=share, seed=3).json()
    assert abs(len(found["hidden"]) - count) <= 1
    assert found["hidden"] == sorted(set(found["hidden"]))
    assert draw(share=share, seed=3).json()["hidden"] == found["hidden"]


def test_another_seed_is_another_mask_and_a_larger_share_hides_the_same_and_more():
    def hidden(share, seed):
        return set(range(64)).difference(keep_at_random(64, share, seed=seed).flatten().tolist())

    assert len(hidden(0.5, 0)) == len(hidden(0.5, 1)) == 32
    assert hidden(0.5, 0) != hidden(0.5, 1)
    assert hidden(0.25, 2) < hidden(0.5, 2) < hidden(0.9, 2)


def test_kept_are_all_that_are_not_named():
    assert keep_all_but(5, [3, 1, 3]).tolist() == [[0, 2, 4]]
    assert keep_all_but(2, []).tolist() == [[0, 1]]
    with pytest.raises(StudioError, match="0 to 4"):
        keep_all_but(5, [5])
    with pytest.raises(StudioError, match="at least one"):
        keep_all_but(2, [0, 1])


def test_where_there_is_nothing_to_explain_nothing_is_claimed(draw):
    assert draw(hidden=[]).json()["explained"] is None
    assert draw(hidden=HIDDEN, image=Image.new("RGB", (40, 30), (99, 99, 99))).json()["explained"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"share": 0.01}, "share"),
        ({"share": 1.0}, "share"),
        ({"share": "half"}, "share"),
        ({"seed": -1}, "seed"),
        ({"hidden": [15]}, "0 to 14"),
        ({"hidden": [-1]}, "0 to 14"),
        ({"hidden": [0.5]}, "hidden"),
        ({"hidden": list(range(15))}, "at least one"),
        ({"statistics": "mine"}, "statistics"),
        ({"more": 1}, "more"),
    ],
)
def test_what_cannot_be_hidden_is_refused_in_a_sentence(draw, options, words):
    answer = draw(**options)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_models_of_other_pages_and_broken_ones_are_reported(draw, shop):
    client, models = shop
    assert draw("labels").json()["error"] == "This model has not learned to draw hidden patches."
    assert "not finite" in draw("broken", hidden=[1]).json()["error"]
    assert draw("mae").status_code == 200
    image = client.post("/api/images", json={"model": models["gray"]["id"], "sample": 0}).json()["id"]
    answer = client.post("/api/classify/look", json={"model": models["mae"]["id"], "image": image})
    assert answer.json()["error"] == "This model draws hidden patches: it has no labels to tell."


def test_an_image_of_another_session_is_not_drawn(shop, browse_studio, folder, encode, photo):
    client, models = shop
    name = client.post("/api/images", files={"file": ("photo.png", encode(photo))}).json()["id"]
    order = {"model": models["mae"]["id"], "image": name}
    assert client.post("/api/mae/draw", json=order).status_code == 200
    client.cookies.clear()
    assert client.post("/api/mae/draw", json=order).status_code == 404
    assert client.post("/api/mae/draw", json=order, headers={"Origin": "http://evil.example"}).status_code == 403


def test_images_of_the_run_are_offered_with_labels_or_without(shop):
    client, models = shop
    plain = client.get(f"/api/models/{models['mae']['id']}/samples").json()
    assert [sample["label"].endswith(".png") for sample in plain] == [True]  # a tenth of twelve
    digits = client.get(f"/api/models/{models['gray']['id']}/samples").json()
    assert [sample["label"] for sample in digits[:3]] == ["0", "1", "2"]
    image = client.post("/api/images", json={"model": models["gray"]["id"], "sample": 4}).json()["id"]
    found = client.post("/api/mae/draw", json={"model": models["gray"]["id"], "image": image}).json()
    assert pixels(found["drawn"]).shape == (8, 8, 1)


def test_a_model_of_other_channels_has_no_page(tmp_path, find_models):
    vt.save(tiny_mae(channels=4), tmp_path / "four")
    with pytest.raises(VitrailError, match="1 or 3 channels"):
        find_models(tmp_path / "four")


def test_the_page_is_served_with_a_session(shop):
    client, _ = shop
    client.cookies.clear()
    answer = client.get("/mask")
    assert answer.headers["content-type"].startswith("text/html")
    assert "vitrail_session" in answer.headers["set-cookie"]
    assert '<body class="masks">' in answer.text
    assert "$" not in answer.text  # every part of the frame is filled
