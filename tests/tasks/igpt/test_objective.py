"""Learning from pixels: the loss is the exact likelihood, evaluation does not depend on batches, and a few steps help."""

import math

import numpy as np
import pytest
import torch

from vitrail.data.digits import open_digits
from vitrail.data.image_source import image_loader
from vitrail.data.palette import learn_palette, some_images
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.models.igpt import IGPTConfig, build_igpt
from vitrail.tasks.igpt.objective import PixelModeling, PixelScores, choose_hidden

DIGITS = open_digits()


def digit_model(**options):
    torch.manual_seed(0)
    config = IGPTConfig(
        **{"width": 24, "depth": 2, "heads": 3, "colors": 17, "image_size": (8, 8), "in_channels": 1, **options}
    )
    model = build_igpt(config)
    palette = learn_palette(some_images(DIGITS["train"], model.preprocessing), 17)
    model.palette.copy_(torch.from_numpy(palette.colors))
    return model


def loader(model, split: str = "val", batch: int = 50):
    return image_loader(DIGITS[split], model.preprocessing, batch=batch)


def test_images_come_through_the_loader_exactly():
    model = digit_model()
    task, batch = PixelModeling(model), next(iter(loader(model).batches()))
    images = DIGITS["val"].images[batch.indices.numpy()]
    assert (task.palette.decode(task.encode(batch.images).numpy(), (8, 8))[..., 0] == images).all()


@pytest.mark.parametrize("causal", [True, False])
def test_a_new_model_has_the_bits_of_the_uniform_one(causal):
    model = digit_model(causal=causal)
    task = PixelModeling(model)
    assert isinstance(task, Objective)
    found = task.evaluate(loader(model).batches())
    assert isinstance(found, Evaluation)
    assert found.metrics["bits_per_pixel"] == pytest.approx(math.log2(17), abs=1e-5)
    assert found.metrics["likelihood"] == pytest.approx(1 / 17, abs=1e-6)
    assert found.error == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_a_few_steps_help_and_batches_do_not_matter(causal):
    model = digit_model(causal=causal)
    task, optimizer = PixelModeling(model), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(3):
        for batch in loader(model, "train", 120).batches():
            optimizer.zero_grad()
            task.loss(batch).backward()
            optimizer.step()
    one, other = (task.evaluate(loader(model, batch=size).batches()) for size in (50, 33))
    assert one.metrics["bits_per_pixel"] < 3.0
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-5)
    assert 0 < one.error < 0.05
    assert model.training
    if causal:
        batch = next(iter(loader(model).batches()))
        exact = -model.eval().log_likelihood(task.encode(batch.images)) / 64
        np.testing.assert_allclose(one.losses[:50], exact.detach().numpy(), atol=1e-5)
        assert task.loss(batch).item() == pytest.approx(exact.mean().item(), abs=1e-5)


def test_fifteen_in_a_hundred_are_hidden():
    assert choose_hidden(torch.rand(7, 100)).sum(1).tolist() == [15] * 7
    assert choose_hidden(torch.rand(3, 2)).sum(1).tolist() == [1] * 3
    hidden = choose_hidden(torch.tensor([[0.9, 0.1, 0.5, 0.2, 0.3, 0.8, 0.7, 0.6, 0.4, 0.95]]))  # 1.5 of 10, rounded to 2
    assert hidden.nonzero()[:, 1].tolist() == [1, 3]


def test_scores_by_hand():
    scores = PixelScores(losses=np.array([math.log(2), math.log(8)]))
    assert scores.metrics == pytest.approx({"loss": 2 * math.log(2), "bits_per_pixel": 2.0, "likelihood": 0.25})
    assert scores.error == pytest.approx(0.25 * math.log(2))  # half the distance of two is their standard error
