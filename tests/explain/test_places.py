"""What a place of an image reads in a segmenter's encoder: the encoder's own rows, for plain and windowed attention, padded or not."""

import pytest
import torch

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain.places import find_cell, read_from_place
from vitrail.explain.record import record
from vitrail.explain.windows import image_weights


def test_a_plain_encoder_gives_the_rows_of_the_cell_with_padding():
    torch.manual_seed(0)
    model = vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=3, image_size=(45, 61)).eval()  # cells of 8 pixels
    image = torch.randn(1, 3, 45, 61)
    found = read_from_place(model, image, (0.99, 0.5))
    assert found.covers == pytest.approx((48 / 45, 64 / 61))
    with record(model.backbone) as seen, torch.no_grad():
        model(image)
    prefix = model.backbone.config.prefix
    cell = prefix + 5 * 8 + 3  # the 31st pixel of 64, in the last row
    assert len(found.layers) == len(seen.layers)
    for maps, weights in zip(found.layers, seen.layers, strict=True):
        assert maps.shape == (weights.shape[1], 6, 8)
        assert maps.flatten(1) == pytest.approx(weights[0, :, cell, prefix:], abs=1e-6)


def test_windows_are_read_within_and_each_stage_has_its_own_grid():
    torch.manual_seed(0)
    model = vt.create_model("upernet_swin_micro_96", num_classes=3).eval()
    image = torch.randn(1, 3, 96, 96)
    found = read_from_place(model, image, (0.3, 0.8))
    assert len({maps.shape[1:] for maps in found.layers}) > 1
    with record(model.backbone) as seen, torch.no_grad():
        model(image)
    for maps, weights, kept in zip(found.layers, seen.layers, seen.kept, strict=True):
        rows, columns = maps.shape[1:]
        cell = int(0.3 * rows) * columns + int(0.8 * columns)
        assert maps.flatten(1) == pytest.approx(image_weights(weights, kept.windows)[0, :, cell], abs=1e-6)


def test_a_place_is_within_the_image():
    assert find_cell((0.0, 0.999), (1.0, 1.0), (3, 5)) == (0, 4)
    assert find_cell((0.999, 0.999), (1.5, 1.25), (3, 5)) == (1, 3)
    model = vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=3, image_size=48).eval()
    with pytest.raises(VitrailError, match="from 0 to 1"):
        read_from_place(model, torch.zeros(1, 3, 48, 48), (1.0, 0.5))
