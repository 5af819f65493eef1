"""Models that learned without labels in the studio: their attention and tokens are shown, and no word is said of what an image is."""

import math

import pytest

import vitrail as vt
from vitrail.deploy.studio.pages.attention.facts import AttentionFacts, find_backbone
from vitrail.deploy.studio.pages.masks.page import MaskFacts
from vitrail.errors import VitrailError
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.preprocessing import Preprocessing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of a backbone with a class token, on images without labels."""
    place = tmp_path_factory.mktemp("backbones")
    model = vt.create_model("vit_nano_patch4_32", image_size=(12, 20), num_classes=0, pool="class", prefix=1, depth=2)
    model.preprocessing = Preprocessing(size=(12, 20), channels=3, fit="squash")
    vt.save(model, place / "features" / "best")
    (place / "features" / "config.yaml").write_text("data: digits\nseed: 0\ntask: dino\n")
    return place


def test_a_backbone_is_looked_into_without_predictions(folder, browse_studio, encode, photo):
    client = browse_studio(folder)
    [model] = client.get("/api/models").json()
    assert (model["task"], model["labels"], model["lens"], model["attention"]) == ("classify", [], False, True)
    assert {method["name"] for method in model["methods"]} == {"rollout", "attention"}
    image = client.post("/api/images", files={"file": ("photo.png", encode(photo))}).json()["id"]
    look = client.post("/api/classify/look", json={"model": model["id"], "image": image, "erased": [2]}).json()
    assert (look["predictions"], look["grid"], look["layers"]) == ([], [3, 5], 2)
    row = client.get(f"/api/classify/attention?look={look['id']}&query=class").json()
    assert math.isclose(sum(row["cells"]) + row["sum_prefix"], 1.0, abs_tol=1e-3)
    for view in ("map?method=rollout", "colors", "steps?query=class", "tokens?query=3"):
        assert client.get(f"/api/classify/{view}{'&' if '?' in view else '?'}look={look['id']}").status_code == 200
    for view in ("map?method=relevance", "lens"):
        answer = client.get(f"/api/classify/{view}{'&' if '?' in view else '?'}look={look['id']}")
        assert answer.status_code == 422
        assert answer.json()["error"].startswith("This model cannot show that")
    assert len(client.get(f"/api/models/{model['id']}/samples").json()) > 3


def test_of_what_learned_without_labels_the_backbone_is_shown_and_a_masked_autoencoder_as_it_is():
    small = {"width": 12, "depth": 1, "heads": 3, "patch": 4, "image_size": (8, 8)}
    model = build_mae(MAEConfig(backbone=small, decoder_width=8, decoder_depth=1, decoder_heads=2))
    assert find_backbone(model) is model.backbone
    assert find_backbone(model.backbone) is model.backbone
    assert AttentionFacts.open_model(None, model) is model.backbone
    assert MaskFacts.open_model(None, model) is model


def test_without_labels_and_attention_there_is_one_line(tmp_path, find_models):
    vt.save(vt.create_model("resnet8_32", num_classes=0), tmp_path / "convolutional")
    with pytest.raises(VitrailError, match="neither labels nor attention") as caught:
        find_models(tmp_path / "convolutional")
    assert "\n" not in str(caught.value)
