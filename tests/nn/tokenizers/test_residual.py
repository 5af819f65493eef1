"""The residual stem: beside plain convolutions written out, its grids, its norms and its fine map."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.nn.tokenizers.residual import ResidualTokenizer


def small(norm="group", depths=(1, 2, 1)):
    torch.manual_seed(0)
    made = ResidualTokenizer(3, 48, widths=(16, 32), depths=depths, norm=norm)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "norm" in name or ".1." in name:
                parameter.add_(0.3 * torch.randn_like(parameter))  # else the second norm of a block hides it
    return made


def by_hand(weights, images):
    """The definition over weights by name: group norm of 16 channels a group."""
    found, stage = images, 0
    while f"stages.{stage}.0.0.weight" in weights:
        at = f"stages.{stage}."
        found = F.conv2d(found, weights[at + "0.0.weight"], stride=2, padding=1)
        found = normed(found, weights, at + "0.1").relu()
        block = 1
        while f"{at}{block}.conv1.weight" in weights:
            inside = f"{at}{block}."
            inner = normed(F.conv2d(found, weights[inside + "conv1.weight"], padding=1), weights, inside + "norm1").relu()
            inner = normed(F.conv2d(inner, weights[inside + "conv2.weight"], padding=1), weights, inside + "norm2")
            found, block = (found + inner).relu(), block + 1
        stage += 1
    return found


def normed(maps, weights, name):
    count, channels, height, width = maps.shape
    groups = maps.reshape(count, channels // 16, -1)
    groups = (groups - groups.mean(2, keepdim=True)) / (groups.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return (
        groups.view(count, channels, height, width) * weights[name + ".weight"][:, None, None]
        + weights[name + ".bias"][:, None, None]
    )


@pytest.mark.parametrize("size", [(32, 32), (24, 40), (33, 17)])
def test_as_written_out(size):
    made, images = small().double(), torch.randn(2, 3, *size).double()
    fine, tokens = made.forward_fine(images)
    expected = by_hand(made.state_dict(), images)
    assert tokens.grid == made.grid(size) == tuple(expected.shape[2:])
    assert_close(tokens.x, expected.flatten(2).transpose(1, 2))
    assert fine.shape[1] == made.fine_width == 32
    assert max(side / cells for side, cells in zip(size, fine.shape[2:], strict=True)) <= 4
    assert_close(made(images).x, tokens.x)


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_an_image_does_not_depend_on_its_batch(norm):
    made, images = small(norm).double(), torch.randn(3, 3, 24, 24).double()
    made.train()
    assert_close(made(images).x[1:2], made(images[1:2]).x)


def test_batch_norm_does():
    made, images = small("batch").double(), torch.randn(3, 3, 24, 24).double()
    made.train()
    assert not torch.allclose(made(images).x[1:2], made(images[1:2]).x)


def test_a_new_block_passes_on_what_it_reads():
    torch.manual_seed(0)
    deep, images = ResidualTokenizer(3, 32, widths=(16,), depths=(2, 3)), torch.randn(1, 3, 16, 16)
    shallow = ResidualTokenizer(3, 32, widths=(16,), depths=(0, 0))
    for one, other in zip(shallow.stages, deep.stages, strict=True):
        one[0].load_state_dict(other[0].state_dict())
    assert_close(deep(images).x, shallow(images).x)


def test_wrong_sizes_are_refused():
    with pytest.raises(VitrailError, match="a depth for each stage, one more than widths"):
        ResidualTokenizer(3, 32, widths=(16,), depths=(1, 1, 1))
    with pytest.raises(VitrailError, match="4x9 is smaller than the tokenizer's stride 8"):
        small().grid((4, 9))
    with pytest.raises(VitrailError, match="a stride of 16, and patch is 8"):
        vt.create_model("vitrail_small", patch=8)
