"""Completions: what is given stays, the rest follows the model's probabilities, with and without a cache."""

import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.models.completion import complete
from vitrail.models.igpt import IGPTConfig, build_igpt


def drawn_model(**options):
    torch.manual_seed(0)
    model = build_igpt(
        IGPTConfig(**{"width": 16, "depth": 2, "heads": 2, "colors": 7, "image_size": (3, 4), "in_channels": 1, **options})
    ).eval()
    torch.nn.init.normal_(model.head.output.weight, std=0.5)
    return model


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_cache_changes_nothing_and_the_beginning_is_kept():
    model, given = drawn_model(), torch.randint(0, 7, (2, 5))
    images = complete(model, given, count=3, generator=generator())
    assert images.shape == (2, 3, 12)
    assert (images[..., :5] == given[:, None]).all()
    assert images.min() >= 0
    assert images.max() < 7
    assert torch.equal(complete(model, given, count=3, generator=generator(), cached=False), images)
    assert not torch.equal(complete(model, given, count=3, generator=generator(1)), images)


def test_without_warmth_the_likeliest_color_follows():
    model, given = drawn_model(), torch.randint(0, 7, (2, 5))
    image = complete(model, given, generator=generator(), temperature=0.0)[:, 0]
    assert torch.equal(model(image)[:, 5:].argmax(-1), image[:, 5:])
    assert torch.equal(complete(model, given, generator=generator(), top_k=1)[:, 0], image)


def test_fair_samples():
    """All images of two colors and three pixels: frequencies are the model's own probabilities."""
    model = drawn_model(colors=2, image_size=(1, 3))
    drawn = complete(model, torch.empty(1, 0, dtype=torch.int64), count=4000, generator=generator())[0]
    frequencies = torch.bincount(drawn @ torch.tensor([4, 2, 1]), minlength=8) / 4000
    images = torch.tensor([[number >> 2 & 1, number >> 1 & 1, number & 1] for number in range(8)])
    odds = model.log_likelihood(images).exp().detach()
    assert odds.std() > 0.02
    torch.testing.assert_close(frequencies, odds, atol=0.03, rtol=0.0)  # four standard errors of a half


def test_refusals():
    with pytest.raises(VitrailError, match="12 pixels are given of 12"):
        complete(drawn_model(), torch.zeros(1, 12, dtype=torch.int64), generator=generator())
    with pytest.raises(VitrailError, match="only a causal model completes images"):
        complete(drawn_model(causal=False), torch.zeros(1, 3, dtype=torch.int64), generator=generator())
