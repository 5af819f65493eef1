"""Real digits and a few real training steps, for tests of what must hold after training too."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.data.digits import open_digits


def first_digits(count: int = 24) -> tuple[Tensor, Tensor]:
    split = open_digits()["train"]
    images = [torch.from_numpy(split.images[i]) for i in range(count)]
    return torch.stack(images).float()[:, None] / 255, torch.from_numpy(split.labels[:count]).long()


@pytest.fixture
def digits() -> Callable[..., tuple[Tensor, Tensor]]:
    """digits(count): the first images of the built-in training split, b 1 8 8 in [0, 1], and their labels."""
    return first_digits


@pytest.fixture
def train_briefly() -> Callable[[nn.Module], nn.Module]:
    """A few steps on digits, long enough to leave the initial weights behind; the loss must fall."""

    def train(model: nn.Module, steps: int = 5) -> nn.Module:
        images, labels = first_digits()
        optimizer = torch.optim.AdamW(model.train().parameters(), lr=5e-3)
        losses = []
        for _ in range(steps):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        return model.eval()

    return train
