"""Reconstruction as a task: what is minimized, what is scored, and that learning without truth never looks at it."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.mri.masks import Sampling
from vitrail.data.mri.slices import Slice
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.models.reconstructor import ReconstructorConfig, build_reconstructor
from vitrail.nn.functional.fourier import sense_adjoint, sense_forward
from vitrail.tasks.metric import find_metric
from vitrail.tasks.mri.data import ScanBatch, scan_loader
from vitrail.tasks.mri.metrics import METRICS
from vitrail.tasks.mri.objective import Reconstruct, score

SIDE = 16


def make_slices(count=3, coils=2):
    """Disks of different sizes, seen by coils that differ from side to side."""
    rows, columns = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE), indexing="ij")
    maps = np.stack([np.cos(columns), np.sin(columns)])[:coils].astype(np.complex64)
    made = []
    for index in range(count):
        image = ((np.hypot(rows, columns) < 0.4 + 0.15 * index) * np.exp(1j * rows)).astype(np.complex64)
        kspace = sense_forward(torch.from_numpy(image)[None], torch.from_numpy(maps)[None])[0].numpy()
        made.append(Slice(kspace=kspace, maps=maps, target=image, name=f"disk {index}"))
    return made


def make_task(**options):
    torch.manual_seed(0)
    settings = {"width": 4, "levels": 1, "in_channels": 2, "out_channels": 2}
    model = build_reconstructor(ReconstructorConfig(network="unet", settings=settings))
    torch.nn.init.normal_(model.network.last.weight, std=0.1)
    return Reconstruct(model, **options)


@pytest.fixture
def batches():
    return list(scan_loader(make_slices(), Sampling(acceleration=3.0), batch=2).batches())


@pytest.mark.parametrize("objective", ["supervised", "equivariant"])
def test_it_is_a_task(objective, batches):
    task = make_task(objective=objective)
    assert isinstance(task, Objective)
    found = task.evaluate(batches)
    assert isinstance(found, Evaluation)
    assert {"loss", task.score, "psnr", "ssim", "psnr_zero_filled"} <= found.metrics.keys()
    loss = task.loss(batches[0])
    loss.backward()
    assert all(parameter.grad is not None for parameter in task.model.parameters())
    assert find_metric(METRICS, task.score).format(33.659) == "33.66 dB"


def test_the_loss_is_relative_to_the_truth(batches):
    task, batch = make_task(), batches[0]
    image = task.model(batch.kspace, batch.mask, batch.maps)
    d = torch.view_as_real(image - batch.target).abs()
    means = batch.target.abs().mean((1, 2))
    assert_close(task.loss(batch), (d.sum((1, 2, 3)) / SIDE**2 / means).mean())
    louder = batch._replace(kspace=7 * batch.kspace, target=7 * batch.target)
    assert_close(task.loss(louder), task.loss(batch))


def test_learning_without_truth_never_looks_at_it(batches):
    task, batch = make_task(objective="equivariant"), batches[0]
    blind = batch._replace(target=torch.full_like(batch.target, torch.nan))
    torch.manual_seed(3)
    loss = task.loss(blind)
    torch.manual_seed(3)
    assert torch.isfinite(loss)
    assert torch.equal(loss, task.loss(batch))
    assert task.score == "fit"  # nor is its best epoch chosen by it
    louder = batch._replace(kspace=1e3 * batch.kspace)
    torch.manual_seed(3)
    assert_close(task.loss(louder), loss, rtol=1e-3, atol=1e-5)


def test_scores_are_those_of_each_slice_whatever_its_batch():
    slices, task = make_slices(), make_task(shown=[0, 2])
    together, apart = (
        task.evaluate(scan_loader(slices, Sampling(acceleration=3.0), batch=batch).batches()) for batch in (3, 1)
    )
    np.testing.assert_allclose(together.rows, apart.rows, rtol=1e-4, atol=1e-5)
    assert [one.number for one in together.examples] == [0, 2]
    example = together.examples[1]
    found = score(example.reconstructed, example.truth)
    np.testing.assert_allclose([together.column("psnr")[2], together.column("ssim")[2]], found, rtol=1e-5)
    assert score(example.zero_filled, example.truth)[0] == pytest.approx(together.column("psnr_zero_filled")[2], rel=1e-5)


def test_psnr_has_the_largest_of_the_truth_for_white():
    truth = np.zeros((12, 12), dtype=np.float32)
    truth[3, 4] = 5.0
    assert score(truth + np.float32(0.05), truth)[0] == pytest.approx(40.0, abs=1e-3)  # 5 / 0.05 is a hundred
    assert score(truth, truth) == (200.0, pytest.approx(1.0))


def test_the_error_is_of_the_gain_not_of_the_slices():
    task = make_task()
    torch.nn.init.zeros_(task.model.network.last.weight)  # a model that changes nothing
    torch.nn.init.zeros_(task.model.network.last.bias)
    found = task.evaluate(scan_loader(make_slices(), Sampling(acceleration=3.0), batch=3).batches())
    assert found.column("psnr").std() > 0.1
    assert found.error == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("objective", ["supervised", "equivariant"])
def test_a_few_steps_lower_the_loss(objective):
    batch = next(iter(scan_loader(make_slices(), Sampling(acceleration=2.0), batch=3).batches()))
    task = make_task(objective=objective)
    optimizer = torch.optim.Adam(task.model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        torch.manual_seed(0)
        loss = task.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_batches_are_named_tuples_that_steps_can_cut(batches):
    from vitrail.learn.training.step import cut

    parts = cut(batches[0], 2)
    assert [len(part.kspace) for part in parts] == [1, 1]
    assert isinstance(parts[0], ScanBatch)
    assert_close(
        sense_adjoint(parts[0].kspace, parts[0].maps, parts[0].mask), sense_adjoint(*(batches[0][i] for i in (0, 2, 1)))[:1]
    )
