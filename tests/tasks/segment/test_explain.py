"""`vitrail explain` on segmenters: the page, its files, and one line for what cannot be."""

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory):
    torch.manual_seed(0)
    model = vt.create_model("segmenter_mask_vit_micro_hybrid", num_classes=3, image_size=(26, 30))
    model.labels = ("sky", "road", "car")
    return vt.save(model, tmp_path_factory.mktemp("models") / "streets")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "one.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (52, 70, 3), np.uint8)).save(path)
    return path


def test_a_page_for_pixels(segmenter, image, command, tmp_path):
    out = tmp_path / "look"
    answer = command("explain", segmenter, image, "--out", out, "--target", "car", "--head", 1)
    assert (answer.code, answer.err) == (0, "")
    assert "1 of 1 images, explained by occlusion" in answer.out
    page, files = (out / "index.html").read_text(), {path.name for path in (out / "image_0").iterdir()}
    assert {"image.jpg", "answer.jpg", "unsure.jpg", "class_2_probability.jpg", "class_2_relevance.jpg"} <= files
    assert {"class_2_class_0.jpg", "class_2_encoder_0.jpg", "class_2_encoder_1_head_1.jpg"} <= files
    assert "class_2_encoder_1_head_0.jpg" not in files
    assert "car" in page
    assert "own query reads in the head" in page


@pytest.mark.parametrize(
    "words, message",
    [
        (("--target", "cat"), '--target "cat" is no class of this model: it knows sky, road, car; did you mean "car"?'),
        (("--method", "rollout"), "--method rollout does not work on pixels: choose from auto, occlusion, gradient"),
        (("--box", "1"), "--box is an option of --task detect only"),
        (("--layer", "7"), "layer 7 does not exist: the encoder has 2, 0 to 1"),
        (("--head", "max"), 'Invalid value for --head: unable to convert "max" into a whole number.'),
        (("--query", "50", "0"), "the query (50, 0) is not on the grid of"),
        (("--limit", "0"), "--limit must be at least 1, got 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words_for_pixels(segmenter, image, command, tmp_path, words, message):
    answer = command("explain", segmenter, image, "--out", tmp_path / "look", *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert message in answer.err
    assert not (tmp_path / "look").exists()
