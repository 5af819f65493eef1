"""Where a detector looks for a box: shares that sum to 1, of the query that gave the box, on the finest grid."""

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain.boxes import find_token, look_at_boxes, on_finest
from vitrail.explain.record import record


@pytest.fixture(scope="module", params=["detr_micro", "detr_micro_plain"])
def model(request):
    torch.manual_seed(0)
    made = vt.create_model(request.param, num_classes=3, image_size=(40, 56), queries=7).eval()
    made.labels = ("a", "b", "c")
    return made


def test_maps_are_of_the_query_that_gave_the_box(model):
    image = torch.randn(1, 3, 40, 56)
    looks = look_at_boxes(model, image, threshold=0.0, most=4)
    assert [look.score for look in looks] == sorted((look.score for look in looks), reverse=True)
    assert len({look.query for look in looks}) == len(looks) == 4
    with record(model) as seen, torch.no_grad():
        detected = model(image)
    last = next(weights for name, weights in reversed(list(zip(seen.names, seen.layers, strict=True))) if "cross" in name)
    for look in looks:
        assert look.decoder.shape == (3, 4, 5, 7)
        assert look.decoder.sum((-2, -1)) == pytest.approx(1, abs=1e-5)
        assert look.encoder.sum((-2, -1)) == pytest.approx(1, abs=1e-5)
        assert look.decoder[-1].flatten(1) == pytest.approx(last[0, :, look.query], abs=1e-6)
        assert look.box == pytest.approx(detected.boxes[-1, 0, look.query].tolist(), abs=1e-5)
    assert look_at_boxes(model, image, threshold=1.0, most=4) == []
    with pytest.raises(VitrailError, match="one image at a time, got 2"):
        look_at_boxes(model, torch.randn(2, 3, 40, 56), threshold=0.0, most=1)


def test_levels_are_put_together_on_the_finest():
    grids = [(2, 3), (4, 6)]
    weights = torch.rand(5, 30).softmax(-1)
    found = on_finest(weights, grids)
    assert found.shape == (5, 4, 6)
    assert found.sum((-2, -1)) == pytest.approx(1, abs=1e-6)
    coarse = weights[:, :6].reshape(5, 2, 3)
    fine = weights[:, 6:].reshape(5, 4, 6)
    assert found[:, 3, 5] == pytest.approx(coarse[:, 1, 2] / 4 + fine[:, 3, 5], abs=1e-6)
    assert torch.equal(on_finest(weights[:, 6:], grids[1:]), fine)
    assert find_token(grids, 0.99, 0.99) == 29
    assert find_token(grids, 0.0, 0.26) == 6 + 6
    assert find_token([(4, 6)], 1.0, 1.0) == 23


def test_the_page_of_boxes(model, tmp_path, command):
    vt.save(model, tmp_path / "model")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (30, 44, 3), dtype=np.uint8)).save(tmp_path / "x.png")
    (tmp_path / "bad.png").write_bytes(b"no")
    answer = command(
        "explain", tmp_path / "model", tmp_path / "x.png", tmp_path / "bad.png", "--out", tmp_path / "look", "--box", 1
    )
    assert (answer.code, "1 of 2 images, explained by attention" in answer.out) == (2, True), answer.err
    files = sorted(path.name for path in (tmp_path / "look" / "image_0").iterdir())
    assert len(files) == 1 + 1 + 3 + 4  # the box, the encoder, three blocks, four heads of the last
    page = (tmp_path / "look" / "index.html").read_text()
    assert "What the query reads, block 2 of the decoder" in page
    for words, message in (
        (("--box", 99), "box 99 does not exist"),
        (("--layer", 3), "layer 3 does not exist: the decoder has 3"),
        (("--target", "d"), '--target "d" is no class of this model'),
        (("--method", "rollout"), "--method is an option of --task classify and segment only"),
    ):
        wrong = command("explain", tmp_path / "model", tmp_path / "x.png", "--out", tmp_path / "other", *words)
        assert (wrong.code, message in wrong.err) == (2, True), wrong.err
