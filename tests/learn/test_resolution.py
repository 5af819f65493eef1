"""Images grow from a share of their side to all of it, in whole patches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vitrail as vt
from vitrail.data.image_source import Batch
from vitrail.learn.training.resolution import GROWING, shrink, size_at

SHARES = st.floats(0.0, 1.0)


def test_by_hand():
    sizes = [size_at(done, (32, 48), start=0.5, multiple=8) for done in (0.0, 0.15, 0.3, 0.45, 0.6, 1.0)]
    # shares 0.5, 0.625, 0.75, 0.875, 1: 2, 2.5 (to even: 2), 3, 3.5 (4) of 4 patches; 3, 3.75, 4.5 (4), 5.25 of 6
    assert sizes == [(16, 24), (16, 32), (24, 32), (32, 40), (32, 48), (32, 48)]


@given(SHARES, SHARES, st.floats(0.05, 1.0), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 4, 16]))
def test_sizes_only_grow_and_are_whole_patches(one, other, start, rows, columns, multiple):
    full = (rows * multiple, columns * multiple)
    small, large = (size_at(done, full, start=start, multiple=multiple) for done in sorted((one, other)))
    assert all(0 < a <= b <= c for a, b, c in zip(small, large, full, strict=True))
    assert not any(side % multiple for side in small)
    assert size_at(GROWING, full, start=start, multiple=multiple) == full


def test_a_batch_keeps_its_labels_and_its_mean():
    batch = Batch(torch.rand(3, 1, 16, 16), torch.arange(3), torch.arange(3))
    assert shrink(batch, (16, 16)) is batch
    small = shrink(batch, (8, 8))
    assert small.images.shape == (3, 1, 8, 8)
    assert small.labels is batch.labels
    torch.testing.assert_close(small.images.mean(), batch.images.mean(), atol=0.02, rtol=0)


@pytest.mark.parametrize("name", ["vit_nano_conv", "vit_tiny_patch16_224", "gsa_p4_small", "gcnn_p4_small", "resnet8_32"])
def test_every_kind_of_model_takes_smaller_multiples(name):
    model = vt.create_model(name, depth=1) if name.startswith("vit") else vt.create_model(name)
    size = size_at(0.0, model.image_size, start=0.6, multiple=model.size_multiple)
    assert size < model.image_size
    assert model.eval()(torch.zeros(1, model.config.in_channels, *size)).shape == (1, model.num_classes)


def test_training_reads_small_images_first(tmp_path, monkeypatch):
    seen = []

    def spy(batch, size):
        seen.append(size)
        return shrink(batch, size)

    monkeypatch.setattr("vitrail.learn.training.loop.shrink", spy)
    vt.train(data="digits", epochs=2, batch=200, progressive=0.5, out=tmp_path / "run", quiet=True)
    assert seen[0] == (4, 4)
    assert (6, 6) in seen
    assert seen[-1] == (8, 8)
    assert seen == sorted(seen)
