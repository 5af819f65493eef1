"""Principal filters of a projection in which directions were planted."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.filters import principal_filters


def unit(image):
    return image / image.norm()


def test_planted_directions_come_back_in_order_with_their_shares():
    model = vt.create_model("vit_tiny_patch16_224", image_size=(16, 24), patch=8, width=24, heads=3, depth=1, num_classes=2)
    stripes = torch.zeros(3, 8, 8)
    stripes[0, ::2] = 1.0
    spot = torch.zeros(3, 8, 8)
    spot[1, 3:5, 3:5] = -1.0
    first = torch.randn(24, generator=torch.Generator().manual_seed(0))
    first -= first.mean()
    second = torch.randn(24, generator=torch.Generator().manual_seed(1))
    second -= second.mean()
    second -= first * (second @ first) / (first @ first)
    with torch.no_grad():
        weight = 3 * unit(first)[:, None] * unit(stripes).flatten() + unit(second)[:, None] * unit(spot).flatten()
        model.tokenizer.project.weight.copy_(weight + 0.5)  # what all filters share is no direction among them
    found = principal_filters(model, count=3)
    assert found.images.shape == (3, 3, 8, 8)
    assert_close(found.images[0], unit(stripes), atol=1e-5, rtol=0)
    assert_close(found.images[1], -unit(spot), atol=1e-5, rtol=0)  # the largest weight is positive
    assert_close(found.shares, torch.tensor([0.9, 0.1, 0.0]), atol=1e-5, rtol=0)


def test_shares_of_all_filters_sum_to_one_and_no_more_are_given_than_there_are():
    model = vt.create_model("vit_nano_patch2_32", num_classes=2, in_channels=1, image_size=8)
    found = principal_filters(model, count=100)
    assert found.images.shape == (4, 1, 2, 2)  # a patch of 4 pixels has 4 directions
    assert_close(found.shares.sum(), torch.tensor(1.0))
    assert_close(found.images.flatten(1) @ found.images.flatten(1).T, torch.eye(4), atol=1e-5, rtol=0)


def test_kernels_of_a_convolution_strongest_first():
    model = vt.create_model("vit_nano_conv", image_size=8, in_channels=1, num_classes=2)
    with torch.no_grad():
        kernels = model.tokenizer.stages[0].weight
        kernels.mul_(0.01)
        kernels[5].fill_(2.0)
    found = principal_filters(model, count=4)
    assert found.images.shape == (4, 1, 3, 3)
    assert_close(found.images[0], torch.full((1, 3, 3), 2.0))
    assert found.shares[0] > 0.99
    assert found.shares.tolist() == sorted(found.shares.tolist(), reverse=True)


@pytest.mark.parametrize(
    ("name", "side"), [("gsa_p4_small", 8), ("gcnn_p4_small", 3), ("resnet20_soft", 3), ("vit_nano_hybrid", 3)]
)
def test_every_family_has_some(name, side):
    names = vt.list_models(name) or vt.list_models(name.split("_")[0] + "*")
    found = principal_filters(vt.create_model(names[0]), count=5)
    assert found.images.shape[0] == 5
    assert found.images.shape[2:] == (side, side)


def test_a_model_that_projects_each_pixel_alone_says_so():
    with pytest.raises(vt.VitrailError, match="each pixel is projected alone"):
        principal_filters(vt.create_model("gsa_p4_small", lift="attention", overlap=0, width=8, image_size=(8, 8), patch=2))
