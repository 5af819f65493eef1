import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.nn.functional.bicubic import resize_bicubic


def tiny(**options):
    torch.manual_seed(0)
    model = vt.create_model("unet_nano", **{"width": 3, "levels": 2, "in_channels": 2, "out_channels": 2, **options}).eval()
    torch.nn.init.normal_(model.last.weight)  # a new one that is added to its input begins with zeros
    return model


def test_the_published_size():
    """fastMRI's baseline of 32 channels and four levels: 7,756,097 [their code], no norm has weights."""
    with torch.device("meta"):
        model = vt.create_model("unet_fastmri")
    down = sum(9 * (before * width + width * width) for before, width in [(1, 32), (32, 64), (64, 128), (128, 256), (256, 512)])
    up = sum(4 * 2 * width * width + 9 * (2 * width * width + width * width) for width in (256, 128, 64, 32))
    assert count_parameters(model) == down + up + 33 == 7_756_097


def test_the_same_as_written_out():
    """[Zbontar+ 2018, section 6.2] with a norm of my own."""
    model = tiny()
    weights = model.state_dict()
    x = images = torch.rand(2, 2, 8, 12)

    def normed(x):
        y = (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
        return torch.where(y > 0, y, 0.2 * y)

    def double(name, x):
        for layer in ("first", "second"):
            x = normed(F.conv2d(x, weights[f"{name}.{layer}.weight"], padding=1))
        return x

    passed = []
    for level in range(2):
        x = double(f"down.{level}", x)
        passed.append(x)
        x = x.unfold(2, 2, 2).unfold(3, 2, 2).mean((4, 5))
    x = double("middle", x)
    for level in range(2):
        x = normed(F.conv_transpose2d(x, weights[f"up.{level}.enlarge.weight"], stride=2))
        x = double(f"joined.{level}", torch.cat([x, passed[1 - level]], 1))
    expected = images + F.conv2d(x, weights["last.weight"], weights["last.bias"])
    assert (expected - images).std() > 0.1
    assert_close(model(images), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (4, 4), (7, 13)])
@pytest.mark.parametrize("scale", [1, 2, 3])
def test_any_size_and_scale(size, scale):
    model = tiny(scale=scale)
    out = model(torch.rand(2, 2, *size))
    assert out.shape == (2, 2, scale * size[0], scale * size[1])
    assert out.isfinite().all()


def test_a_new_one_gives_what_it_was_given():
    images = torch.rand(1, 3, 9, 10)
    assert_close(vt.create_model("unet_nano")(images), images)
    assert_close(vt.create_model("unet_nano", scale=3)(images), resize_bicubic(images, 3.0))
    assert vt.create_model("unet_fastmri", levels=1)(torch.rand(1, 1, 8, 8)).std() > 0


def test_every_pixel_depends_on_all():
    """Norms over the image: its reach has no bound, and says so."""
    model, images = tiny(levels=1), torch.rand(1, 2, 40, 4).requires_grad_()
    assert model.reach is None
    model(images)[0, 0, 0, 0].backward()
    assert images.grad[0, :, -1].any()


def test_saved_and_loaded(tmp_path):
    model, images = tiny(degradation="noise25"), torch.rand(1, 2, 5, 6)
    loaded = vt.load(vt.save(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert loaded(images).equal(model(images))


def test_sizes_match_those_of_the_others():
    """The controls of the comparisons: near the counts of the ViT restorers and of SwinIR."""
    with torch.device("meta"):
        size = {
            name: count_parameters(vt.create_model(name)) for name in vt.list_models() if name.startswith(("unet", "vit_rest"))
        }
    for kind in ("nano", "tiny", "small"):
        assert abs(size[f"unet_{kind}"] / size[f"vit_restorer_{kind}"] - 1) < 0.15


@pytest.mark.parametrize(
    "options, words",
    [
        ({"levels": 0}, "levels from 1 to 8"),
        ({"width": 0}, "width must be at least 1"),
        ({"out_channels": 1}, "out_channels 1"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("unet_nano", **options)
