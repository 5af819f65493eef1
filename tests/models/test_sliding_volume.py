"""Streamed windows give what windows over the whole volume give, in order, with only a window's slices in memory."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.sliding import slide
from vitrail.models.sliding_volume import stream
from vitrail.models.unetr import UNETRConfig, build_unetr


def by_place(volumes):
    """Depends on where in its window a voxel stands, so that blending shows."""
    ramp = torch.linspace(0, 1, volumes[0, 0].numel()).reshape(volumes.shape[2:])
    return torch.cat([volumes * (1 + ramp), volumes.square() - ramp, -volumes], dim=1)


@pytest.mark.parametrize("blend", ["gaussian", "uniform"])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.5, 0.75])
@pytest.mark.parametrize("window", [(5, 7, 3), (11, 13, 17), (4, 20, 6), (3, 3, 17)])
def test_streaming_is_sliding(window, overlap, blend):
    volume = torch.randn(1, 11, 13, 17, generator=torch.Generator().manual_seed(0))
    expected = slide(by_place, volume[None], window=window, overlap=overlap, blend=blend)[0]
    asked = []

    def read(begin, end):
        asked.append(end - begin)
        return volume[..., begin:end]

    slabs = list(stream(by_place, read, size=(11, 13, 17), window=window, overlap=overlap, blend=blend, batch=3))
    assert [slab.begin for slab in slabs] == [0, *(slab.end for slab in slabs[:-1])]
    assert slabs[-1].end == 17
    assert max(asked) <= window[2]
    assert_close(torch.cat([slab.scores for slab in slabs], -1), expected, atol=1e-5, rtol=1e-5)


def test_one_window_is_the_whole():
    model = build_unetr(
        UNETRConfig(width=6, depth=2, heads=2, patch=4, features=3, image_size=(8, 12, 4), num_classes=2)
    ).eval()
    volume = torch.randn(1, 8, 12, 4)
    with torch.no_grad():
        (slab,) = stream(model, lambda begin, end: volume[..., begin:end], size=(8, 12, 4), window=(8, 12, 4))
        assert_close(slab.scores, model(volume[None])[0], atol=1e-5, rtol=1e-5)


def test_refusals():
    with pytest.raises(VitrailError, match="three sides"):
        next(stream(by_place, lambda begin, end: None, size=(3, 5), window=(3, 5)))
