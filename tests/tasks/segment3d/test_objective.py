"""Labels of volumes as a task: a tiny volume is learned by heart, scores are of the files' own voxels, and the loss falls to nothing."""

import math

import numpy as np
import pytest
import torch

from vitrail.data.volumes.cases import Loaded
from vitrail.models.convolution_free import ConvolutionFreeConfig, build_convolution_free
from vitrail.models.unetr import UNETRConfig, build_unetr
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.segment3d.data import crop_loader, volume_loader
from vitrail.tasks.segment3d.objective import Segment3d, VolumeScores, score_volume

pytest.importorskip("scipy")
SIZE = (16, 16, 8)
SHARED = {"image_size": SIZE, "num_classes": 3}


@pytest.fixture
def load():
    """A bright box and a less bright one, in noise."""
    classes = np.zeros(SIZE, np.int16)
    classes[2:9, 3:8, 1:6], classes[10:14, 6:13, 2:7] = 1, 2
    image = np.array([0.1, 0.9, 0.5], np.float32)[classes] + np.random.default_rng(0).normal(0, 0.1, SIZE).astype(np.float32)
    return lambda number: Loaded(image, classes, (1.0, 1.5, 2.0))


class Oracle(VolumeSegmenter):
    """Answers with the class whose brightness a voxel has: right where there is no noise."""

    num_classes, image_size = 3, (5, 7, 3)

    def __init__(self):
        super().__init__(UNETRConfig())

    def forward(self, volumes):
        return torch.cat([-(volumes - level).square() * 1000 for level in (0.0, 0.5, 1.0)], dim=1)


@pytest.mark.parametrize(
    "model",
    [
        lambda: build_unetr(UNETRConfig(width=24, depth=2, heads=2, patch=4, features=6, **SHARED)),
        lambda: build_convolution_free(ConvolutionFreeConfig(width=48, depth=2, heads=2, patch=4, **SHARED)),
    ],
    ids=["unetr", "convolution_free"],
)
def test_a_tiny_volume_is_learned_by_heart(model, load):
    torch.manual_seed(0)
    task = Segment3d(model(), distances=True)
    training = crop_loader(load, 1, crop=SIZE, count=4, batch=2)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=4e-3)
    task.model.train()
    for epoch in range(30):
        for batch in training.batches(epoch):
            optimizer.zero_grad()
            task.loss(batch).backward()
            optimizer.step()
    found = task.evaluate(volume_loader(load, 1).batches())
    assert found.metrics["dice"] > 0.9
    assert found.metrics["surface_mm"] < 1
    assert task.model.training


def whole(image, classes, spacing=(1.0, 2.0, 3.0)):
    return volume_loader(lambda number: Loaded(image, classes, spacing), 1).batches()


def test_a_perfect_answer():
    classes = np.random.default_rng(0).integers(0, 3, (11, 13, 7)).astype(np.int16)
    found = Segment3d(Oracle(), distances=True, shown=[0]).evaluate(whole(classes.astype(np.float32) / 2, classes))
    assert found.metrics["dice"] == 1
    assert (found.metrics["surface_mm"], found.metrics["hausdorff95_mm"]) == (0, 0)
    assert found.metrics["loss"] == pytest.approx(0, abs=1e-6)
    assert np.array_equal(found.examples[0].found, classes)
    assert found.truth_ml[0] == pytest.approx([np.sum(classes == number) * 6 / 1000 for number in range(3)])


def test_scores_are_of_the_files_own_voxels():
    """The image has half as many voxels a side as the labels."""
    coarse = np.zeros((6, 5, 4), np.int16)
    coarse[1:4, 2:4, 1:3] = 2
    fine = coarse.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    found = Segment3d(Oracle(), shown=[0]).evaluate(whole(coarse.astype(np.float32) / 2, fine))
    assert found.metrics["dice"] == 1
    assert found.examples[0].image.shape == found.examples[0].found.shape == fine.shape
    assert found.metrics["loss"] < 1e-6


def test_means_leave_out_what_is_nowhere():
    row = score_volume(np.array([[[0, 1]]]), np.array([[[1, 1]]]), (1.0, 1.0, 1.0), classes=3, distances=False)
    assert row[:2] == [0, pytest.approx(2 / 3)]
    assert math.isnan(row[2])
    nothing = np.full((1, 3), np.nan)
    scores = VolumeScores(
        losses=np.zeros(1), dice=np.array([[0, 2 / 3, np.nan]]), mean_distance=nothing, most_distance=nothing,
        found_ml=nothing, truth_ml=nothing, indices=np.zeros(1, int),
    )  # fmt: skip
    assert scores.metrics["dice"] == pytest.approx(2 / 3)
    assert "surface_mm" not in scores.metrics
    assert scores.error == 0
