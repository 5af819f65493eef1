"""Segmentation as a task: what it counts, what it keeps to be looked at, and that it learns."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from vitrail.data.annotations import IGNORE
from vitrail.data.dataset import Part
from vitrail.data.joint import Movement
from vitrail.data.masked import find_masked
from vitrail.learn.metrics.segmentation import mean_iou, pixel_confusion
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models.catalogue import create_model
from vitrail.models.dense_inference import Inference
from vitrail.models.segmenter import Segmenter
from vitrail.preprocessing import neutral
from vitrail.tasks.segment.data import DenseBatch, WholeBatch, WholeImage, crop_loader, whole_loader
from vitrail.tasks.segment.objective import WORST, Segment, surprise


class ByColor(Segmenter):
    """An honest little segmenter: the class of a pixel is its brightest channel."""

    num_classes, preprocessing, sharpness, auxiliary = 3, neutral((8, 8), 3), 40.0, ()

    def __init__(self):
        nn.Module.__init__(self)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images):
        return self.sharpness * self.scale * images


def image(index, *, height=8, width=11, wrong=0):
    """Colors that say their class, but for `wrong` pixels of the mask."""
    generator = np.random.default_rng(index)
    numbers = generator.integers(0, 3, (height, width))
    image = 2 * torch.eye(3)[torch.from_numpy(numbers)].permute(2, 0, 1)[None] - 1
    mask = numbers.copy()
    mask.ravel()[:wrong] = (mask.ravel()[:wrong] + 1) % 3
    mask[-1, -1] = IGNORE
    return WholeImage(image, torch.from_numpy(mask), index, f"{index}.png")


def batch(*images):
    return WholeBatch(list(images), torch.tensor([image.number for image in images]))


def test_rare_classes_count_more_in_the_loss():
    """A pixel of each class, all predicted alike, and one of them ten times as heavy."""
    masks, model = torch.tensor([[[0, 1, 2]]]), ByColor()
    images = torch.tensor([0.02, 0.0, -0.01])[None, :, None, None].expand(1, 3, 1, 3)
    logs = model(images)[0, :, 0, 0].log_softmax(0)
    for weights in (torch.ones(3), torch.tensor([1.0, 1.0, 10.0])):
        found = Segment(model, weights=weights).loss(DenseBatch(images, masks, torch.tensor([0])))
        assert found.item() == pytest.approx(-(weights * logs).sum().item() / weights.sum().item())


def test_it_is_a_task_and_a_perfect_model_has_perfect_scores():
    task = Segment(ByColor(), edges=True)
    assert isinstance(task, Objective)
    found = task.evaluate([batch(image(0), image(1, height=5)), batch(image(2))])
    assert isinstance(found, Evaluation)
    assert found.metrics == pytest.approx({"loss": 0, "miou": 1, "pixel_accuracy": 1, "boundary_f": 1}, abs=1e-6)
    assert found.indices.tolist() == [0, 1, 2]
    assert found.matrix.sum() == 8 * 11 + 5 * 11 + 8 * 11 - 3  # each has a pixel of no class


def test_scores_are_of_all_pixels_and_rows_of_each_image():
    images = [image(0, wrong=9), image(1, wrong=40), image(2)]
    found = Segment(ByColor()).evaluate([batch(*images)])
    said = [one.image[0].argmax(0).numpy() for one in images]
    matrices = [pixel_confusion(one.mask.numpy(), answer, 3) for one, answer in zip(images, said, strict=True)]
    assert found.metrics["miou"] == pytest.approx(mean_iou(sum(matrices)))
    assert found.rows[:, 1].tolist() == pytest.approx([mean_iou(matrix) for matrix in matrices])
    assert "boundary_f" not in found.metrics
    assert [example.name for example in found.worst] == ["1.png", "0.png", "2.png"]


def test_the_worst_are_kept_and_no_more_of_them():
    found = Segment(ByColor()).evaluate([batch(image(index, wrong=index)) for index in range(21)])
    assert [example.name for example in found.worst] == [f"{index}.png" for index in range(20, 20 - WORST, -1)]
    assert [example.name for example in found.examples] == [f"{index}.png" for index in range(8)]


def test_large_images_are_kept_small():
    (example,) = Segment(ByColor()).evaluate([batch(image(0, height=400, width=1000))]).examples
    assert example.image.shape == (154, 384, 3)
    assert example.truth.shape == example.predicted.shape == (154, 384)


def test_windows_scales_and_flips_do_not_move_what_is_plain():
    task = Segment(ByColor(), how=Inference(window=(5, 7), flip=True))
    assert task.evaluate([batch(image(0))]).metrics["miou"] == 1


def test_surprise_by_hand():
    chances = torch.tensor([[[0.5, 0.2]], [[0.5, 0.8]]])  # 2 1 2
    mask = torch.tensor([[0, 1], [0, IGNORE]])
    assert surprise(chances, mask[:1]) == pytest.approx(-(math.log(0.5) + math.log(0.8)) / 2)
    assert surprise(chances, mask[1:]) == pytest.approx(-math.log(0.5))
    assert math.isnan(surprise(chances, torch.full((1, 2), IGNORE)))


def test_auxiliary_heads_add_their_share():
    class Two(ByColor):
        auxiliary = nn.ModuleList([nn.Identity()])

        def forward_training(self, images):
            return self(images), (self(images.flip(1)),)

    one = image(0)
    batch = DenseBatch(one.image, one.mask[None], torch.tensor([0]))
    plain, both = Segment(ByColor()).loss(batch), Segment(Two()).loss(batch)
    other = Segment(ByColor()).loss(batch._replace(images=one.image.flip(1)))
    assert both.item() == pytest.approx(plain.item() + 0.4 * other.item())


@pytest.mark.slow
def test_it_overfits_32_shapes():
    """mIoU above 0.7 on what it was shown, in 5 s of one core."""
    torch.manual_seed(0)
    data = find_masked("shapes", image_size=(32, 32))
    split, steps = Part(data["train"], np.arange(32)), 80
    model = create_model("setr_pup_vit_micro_hybrid", num_classes=11, image_size=32).train()
    task = Segment(model)
    stepper = Stepper(task, Plan(epochs=1, lr=3e-3, weight_decay=0.0, warmup=0.0, clip=1.0), World())
    batches = list(crop_loader(split, model.preprocessing, classes=11, batch=16, how=Movement()).batches())
    for step in range(steps):
        rate = 3e-3 * min(1, (step + 1) / 10) * (1 + math.cos(math.pi * step / steps)) / 2
        stepper.take(batches[step % 2], rate)
    assert task.evaluate(whole_loader(split, model.preprocessing, classes=11).batches()).metrics["miou"] > 0.7
