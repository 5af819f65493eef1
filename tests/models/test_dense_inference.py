"""Asking a segmenter in several ways: what must not change does not."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.dense_inference import Inference, infer, name_pixels


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Conv2d(3, 5, 3, padding=1)


@pytest.fixture
def images():
    return torch.randn(2, 3, 17, 23, generator=torch.Generator().manual_seed(1))


def test_one_window_that_is_the_image_is_the_whole_image(model, images):
    whole = infer(model, images, Inference())
    assert_close(whole, model(images).softmax(1))
    for window in ((17, 23), (31, 37)):
        assert_close(infer(model, images, Inference(window=window)), whole, rtol=0, atol=0)


def test_windows_of_a_model_that_sees_one_pixel_are_the_whole_image(images):
    model = nn.Conv2d(3, 5, 1)
    assert_close(infer(model, images, Inference(window=(7, 11))), infer(model, images, Inference()))


def test_flips_commute_with_the_mirror(model, images):
    how = Inference(flip=True, scales=(1.0, 1.5))
    assert_close(infer(model, images.flip(-1), how), infer(model, images, how).flip(-1))
    assert not torch.allclose(infer(model, images.flip(-1), Inference()), infer(model, images, Inference()).flip(-1))


def test_several_scales_are_the_mean_of_each(model, images):
    both = infer(model, images, Inference(scales=(0.5, 2.0)))
    each = [infer(model, images, Inference(scales=(scale,))) for scale in (0.5, 2.0)]
    assert_close(both, (each[0] + each[1]) / 2)
    assert_close(both.sum(1), torch.ones(2, 17, 23))


def test_pixels_are_named_as_if_all_classes_were_enlarged_at_once():
    chances = torch.rand(5, 7, 11).softmax(0)
    numbers, scores = name_pixels(chances, (29, 31))
    best = F.interpolate(chances[None], size=(29, 31), mode="bilinear")[0].max(0)
    assert (numbers == best.indices).all()
    assert_close(scores, best.values)
    assert (name_pixels(chances, (7, 11))[0] == chances.argmax(0)).all()


@pytest.mark.parametrize(
    ("wish", "message"), [({"window": (0, 3)}, "at least 1"), ({"scales": ()}, "got none"), ({"scales": (0.01,)}, "0.1 to 10")]
)
def test_wishes_that_make_no_sense(wish, message):
    with pytest.raises(VitrailError, match=message):
        Inference(**wish)
