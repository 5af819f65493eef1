"""Batches of scans: masks by (seed, epoch, slice), the same from any batch on, slices of one size together."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.mri.masks import Sampling
from vitrail.data.mri.slices import Slice
from vitrail.errors import VitrailError
from vitrail.nn.functional.fourier import sense_adjoint, sense_forward
from vitrail.tasks.mri.data import scan_loader


def make_slices(count, size=(12, 16), coils=3, *, maps=True, seed=0):
    generator = np.random.default_rng(seed)

    def draw(*shape):
        return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(np.complex64)

    made = []
    for index in range(count):
        sees = draw(coils, 1, 1) + 0.1 * draw(coils, *size)
        sees = sees / np.sqrt((np.abs(sees) ** 2).sum(0))
        image = draw(*size)
        kspace = sense_forward(torch.from_numpy(image)[None], torch.from_numpy(sees)[None])[0].numpy()
        made.append(Slice(kspace=kspace, maps=sees if maps else None, target=image if maps else None, name=f"slice {index}"))
    return made


def test_a_batch_is_what_the_scanner_would_have_measured():
    slices = make_slices(3)
    (batch,) = scan_loader(slices, Sampling(acceleration=2.0), batch=3).batches()
    for n, one in enumerate(slices):
        mask = batch.mask[n, 0]
        assert mask.sum() == 8
        assert_close(batch.kspace[n][..., mask], torch.from_numpy(one.kspace)[..., mask])
        assert not batch.kspace[n][..., ~mask].any()
    assert_close(batch.target, torch.from_numpy(np.stack([one.target for one in slices])))
    assert batch.indices.tolist() == [0, 1, 2]


def test_training_draws_new_masks_each_pass_and_validation_does_not():
    slices = make_slices(4)
    training = scan_loader(slices, Sampling(), batch=4, shuffle=True, passes=2)

    def masks(epoch):
        return [dict(zip(b.indices.tolist(), b.mask, strict=True)) for b in training.batches(epoch)]

    first, second = masks(0)
    third, _ = masks(1)
    assert len(training) == 2
    assert any(not torch.equal(first[i], second[i]) for i in range(4))
    assert any(not torch.equal(second[i], third[i]) for i in range(4))
    validation = scan_loader(slices, Sampling(), batch=3)
    one, other = (torch.cat([b.mask for b in validation.batches(epoch)]) for epoch in (0, 5))
    assert torch.equal(one, other)


def test_an_epoch_can_begin_at_any_batch():
    batches = scan_loader(make_slices(7), Sampling(kind="density"), batch=2, shuffle=True, passes=2, seed=3)
    whole = list(batches.batches(2))
    assert len(whole) == len(batches) == 6
    for start in range(len(whole)):
        for ours, theirs in zip(batches.batches(2, start), whole[start:], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_slices_of_different_sizes_are_never_in_one_batch():
    slices = [*make_slices(3), *make_slices(2, (10, 16)), *make_slices(1, coils=2)]
    batches = list(scan_loader(slices, Sampling(), batch=4).batches())
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(6))
    assert len(batches) == 3


def test_processes_share_every_batch():
    slices = make_slices(5)
    shares = [list(scan_loader(slices, Sampling(), batch=2, rank=rank, world=2).batches()) for rank in (0, 1)]
    seen = sorted(index for share in shares for batch in share for index in batch.indices.tolist())
    assert seen == list(range(5))
    with pytest.raises(VitrailError, match="a batch of 3"):
        scan_loader(slices, Sampling(), batch=3, shuffle=True, world=2)


def test_without_maps_they_are_estimated_from_the_center_lines_and_the_truth_is_that_of_all_lines():
    (one,) = make_slices(1, (24, 32), maps=False)
    (batch,) = scan_loader([one], Sampling(acceleration=2.0, center=0.25), batch=1).batches()
    assert_close((batch.maps.abs() ** 2).sum(1), torch.ones(1, 24, 32))
    assert_close(batch.target, sense_adjoint(torch.from_numpy(one.kspace)[None], batch.maps))
    outside = one.kspace.copy()
    outside[..., 0] = 1e3  # a line that is not in the center says nothing about the maps
    (again,) = scan_loader(
        [Slice(kspace=outside, maps=None, target=None, name="other")], Sampling(acceleration=2.0, center=0.25), batch=1
    ).batches()
    assert_close(again.maps, batch.maps)


def test_a_scan_that_left_lines_out_has_no_truth():
    (one,) = make_slices(1, maps=False)
    kspace = one.kspace.copy()
    kspace[..., 3] = 0
    with pytest.raises(VitrailError, match="lines are missing"):
        scan_loader([Slice(kspace=kspace, maps=None, target=None, name="fast")], Sampling(), batch=1)
    with pytest.raises(VitrailError, match="not one slice"):
        scan_loader([], Sampling(), batch=1)
