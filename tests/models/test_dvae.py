"""The discrete VAE: sizes, codes that come back from a file, strides, and what is refused."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.dvae import DVAEConfig, build_dvae, gumbel_noise
from vitrail.records import from_record, to_record
from vitrail.run.card import card


def small(**options):
    torch.manual_seed(0)
    return build_dvae(
        DVAEConfig(**{"width": 6, "depth": 1, "codes": 11, "image_size": (12, 20), "stride": 4, **options})
    ).eval()


@pytest.mark.parametrize(("side", "stride"), [(8, 2), (16, 2), (32, 4), (64, 8), (224, 16)])
def test_the_stride_follows_the_images(side, stride):
    assert build_dvae(DVAEConfig(width=4, image_size=(side, side))).config.stride == stride


@pytest.mark.parametrize("stride", [1, 2, 4, 8, 16])
def test_images_go_to_codes_and_back_at_any_size(stride):
    model = small(stride=stride, image_size=(16, 16), width=5, in_channels=1)
    images = torch.randn(2, 1, 32, 48)
    codes = model.codes(images)
    assert codes.shape == (2, 32 * 48 // stride**2)
    assert int(codes.max()) < 11
    assert model.decode(codes, grid=model.grid((32, 48))).shape == images.shape


def test_at_a_low_temperature_the_image_is_that_of_the_codes():
    model, images = small(), torch.randn(2, 3, 12, 20)
    with torch.no_grad():
        drawn, logits = model(images, torch.zeros(2, 11, 3, 5), 1e-7)
        assert_close(drawn, model.decode(model.codes(images)), atol=1e-5, rtol=1e-5)
        assert torch.equal(logits.argmax(1).flatten(1), model.codes(images))
        choice = F.one_hot(model.codes(images), 11).mT.unflatten(2, (3, 5)).float()
        assert_close(model.draw(choice), model.decode(model.codes(images)), atol=1e-5, rtol=1e-5)


def test_everything_learns():
    model = small().train()
    images = torch.randn(2, 3, 12, 20)
    drawn, _ = model(images, gumbel_noise(torch.empty(2, 11, 3, 5)), torch.tensor(1.0))
    drawn.square().mean().backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert all(".first." in name for name in still), still  # behind a layer that begins at 0


def test_a_cell_does_not_depend_on_other_images_of_the_batch():
    model, images = small(), torch.randn(3, 3, 12, 20)
    assert torch.equal(model.codes(images)[1:2], model.codes(images[1:2]))


def test_codes_come_back_from_a_file(tmp_path):
    model, images = small(), torch.randn(2, 3, 12, 20)
    again = vt.load(vt.save(model, tmp_path / "dvae"))
    assert again.config == model.config
    assert torch.equal(again.codes(images), model.codes(images))
    assert torch.equal(again.decode(again.codes(images)), model.decode(model.codes(images)))
    assert "model.codes(images)" in card(model, task="dvae")
    for text in (card(model, task="dvae"), (tmp_path / "dvae" / "README.md").read_text()):
        assert "backbone" not in text


def test_the_config_survives_json():
    config = small().config
    assert from_record(DVAEConfig, json.loads(json.dumps(to_record(config))), what="x") == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 3}, "one of 1, 2, 4, 8, 16, 32, got 3"),
        ({"codes": 1}, "from 2 to 65536 codes, got 1"),
        ({"image_size": (12, 18)}, "multiples of the stride 4, got 12x18"),
        ({"width": 0}, "width and in_channels must be at least 1"),
        ({"depth": -1}, "depth from 0 to 1000"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(VitrailError, match=message):
        small(**options)


def test_wrong_images_and_codes():
    model = small()
    with pytest.raises(VitrailError, match=r"expected images of shape \(b, 3, h, w\)"):
        model.codes(torch.randn(2, 1, 12, 20))
    with pytest.raises(VitrailError, match="multiples of the stride 4, got 12x22"):
        model.codes(torch.randn(2, 3, 12, 22))
    with pytest.raises(VitrailError, match="a grid of 3x5 has 15 codes, got 14"):
        model.decode(torch.zeros(2, 14, dtype=torch.int64))
