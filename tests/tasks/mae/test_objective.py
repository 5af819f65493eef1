"""Drawing hidden patches as a task: scores of a split whatever the batches, and images of what is drawn."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.image_source import Batch
from vitrail.explain.masked_patches import reconstruct, spread_seen
from vitrail.learn.losses.masked_pixels import masked_pixel_losses, normalize_patches
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.nn.functional.masking import draw_kept, hidden_from
from vitrail.nn.functional.patches import patchify
from vitrail.tasks.mae.objective import DrawnPatches, MaskedAutoencoding

SIZE = (6, 10)  # 3x5 cells


def tiny(**options):
    torch.manual_seed(0)
    backbone = {
        "width": 12,
        "depth": 1,
        "heads": 2,
        "patch": 2,
        "image_size": SIZE,
        "in_channels": 3,
        "prefix": 0,
        "pool": "mean",
    }
    return build_mae(
        MAEConfig(backbone=backbone, decoder_width=8, decoder_depth=1, decoder_heads=2, **{"hide": 0.6, **options})
    )


def batch_of(images, indices):
    return Batch(images=images[indices], labels=torch.zeros(len(indices), dtype=torch.int64), indices=torch.tensor(indices))


@pytest.fixture
def images():
    return torch.randn(7, 3, *SIZE, generator=torch.Generator().manual_seed(3))


def test_scores_do_not_depend_on_batches_and_training_mode_comes_back(images):
    task = MaskedAutoencoding(tiny(), seed=5)
    whole = task.evaluate([batch_of(images, [0, 1, 2, 3, 4, 5, 6])])
    parts = task.evaluate([batch_of(images, [5]), batch_of(images, [2, 0]), batch_of(images, [6, 1, 4, 3])])
    assert task.model.training
    assert_close(np.sort(parts.losses), np.sort(whole.losses), atol=1e-6, rtol=1e-5)
    assert parts.metrics == pytest.approx(whole.metrics, abs=1e-6)
    again = task.evaluate([batch_of(images, [0, 1, 2, 3, 4, 5, 6])])
    assert again.metrics == whole.metrics
    other = MaskedAutoencoding(task.model, seed=6).evaluate([batch_of(images, [0, 1, 2, 3, 4, 5, 6])])
    assert other.metrics != whole.metrics, "other patches are hidden"
    assert 0 < whole.error < 1


def test_other_patches_are_hidden_at_each_step_and_the_same_again_from_a_seed(images):
    task, batch = MaskedAutoencoding(tiny()), batch_of(images, [0, 1, 2])
    torch.manual_seed(4)
    first, second = task.loss(batch).item(), task.loss(batch).item()
    torch.manual_seed(4)
    assert task.loss(batch).item() == first != second


def test_what_a_perfect_and_a_flat_drawing_explain():
    target = torch.randn(1, 5, 7)
    flat = float((target - target.mean(-1, keepdim=True)).square().mean())
    found = DrawnPatches(losses=np.array([0.0, flat]), flat=np.array([flat, flat]))
    assert found.metrics["explained"] == pytest.approx(0.5)
    assert DrawnPatches(losses=np.zeros(0), flat=np.zeros(0)).metrics == {"loss": math.inf, "explained": -math.inf}
    assert DrawnPatches(losses=np.zeros(1), flat=np.zeros(1)).metrics["explained"] == 0.0  # images of one color


@pytest.mark.parametrize("normalize", [True, False])
def test_drawn_images_have_the_error_that_the_loss_counts(images, normalize):
    model = tiny(normalize=normalize).eval()
    kept = draw_kept(7, 15, 0.6, generator=torch.Generator().manual_seed(1))
    found = reconstruct(model, images, kept)
    patches, hidden = model.patches(images), hidden_from(kept, 15)
    assert torch.equal(found.hidden, hidden)
    with torch.no_grad():
        target = normalize_patches(patches) if normalize else patches
        expected = masked_pixel_losses(model(images, kept), target, hidden)
    scale = (patches.var(-1, keepdim=True) + 1e-6).sqrt() if normalize else torch.ones(7, 15, 1)
    errors = ((patchify(found.drawn, (2, 2)) - patches) / scale).square().mean(-1)
    assert_close((errors * hidden).sum(1) / hidden.sum(1), expected, atol=1e-5, rtol=1e-4)
    flat = ((patches - patches.mean(-1, keepdim=True)) / scale).square().mean(-1)
    assert_close(found.explained, 1 - expected / ((flat * hidden).sum(1) / hidden.sum(1)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_shown_images_are_drawn_where_hidden_and_themselves_where_seen(images, normalize):
    model, kept = tiny(normalize=normalize).train(), draw_kept(7, 15, 0.6)
    found = reconstruct(model, images, kept, statistics="seen")
    assert model.training, "as it was"
    drawn, shown, given = (patchify(x, (2, 2)) for x in (found.drawn, found.shown, images))
    assert torch.equal(shown[found.hidden], drawn[found.hidden])
    assert torch.equal(shown[~found.hidden], given[~found.hidden])


def test_with_the_statistics_of_what_was_seen_nothing_hidden_is_in_the_drawing(images):
    model, kept = tiny(), draw_kept(7, 15, 0.6)
    hidden = hidden_from(kept, 15)
    where = hidden.view(7, 1, 3, 5).repeat_interleave(2, 2).repeat_interleave(2, 3)
    other = torch.where(where, torch.randn(images.shape), images)
    assert_close(*(reconstruct(model, x, kept, statistics="seen").shown[~where.expand_as(images)] for x in (images, other)))
    assert torch.equal(*(reconstruct(model, x, kept, statistics="seen").drawn for x in (images, other)))
    assert not torch.equal(*(reconstruct(model, x, kept, statistics="true").drawn for x in (images, other)))


@pytest.mark.parametrize("count", [1, 14])
def test_any_number_of_cells_can_be_kept(images, count):
    found = reconstruct(tiny(), images, torch.arange(count).expand(7, -1), statistics="seen")
    assert found.hidden.sum(1).tolist() == [15 - count] * 7
    assert found.drawn.isfinite().all()


def test_seen_numbers_stay_and_others_are_means_weighted_by_nearness():
    numbers, kept = torch.tensor([[[1.0], [50.0], [70.0], [4.0]]]), torch.tensor([[0, 3]])
    found = spread_seen(numbers, kept, (4,))[0, :, 0]
    near = (1.0 * 1 + 4.0 / 16) / (1 + 1 / 16)  # distances 1 and 2, to the power of 4
    assert_close(found, torch.tensor([1.0, near, 5.0 - near, 4.0]))
    assert_close(spread_seen(torch.full((2, 15, 1), 3.0), draw_kept(2, 15, 0.8), (3, 5)), torch.full((2, 15, 1), 3.0))
