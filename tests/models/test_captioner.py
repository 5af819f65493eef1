"""The captioner: what it computes, that it does not look ahead, and where it looks.

Sizes: 3 images of 2 channels, 17 words, 7 tokens.
"""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.captioner import PRESETS, Captioner, CaptionerConfig, build_captioner
from vitrail.models.catalogue import create_model
from vitrail.models.decoding import beam_search, greedy
from vitrail.special_tokens import BEGIN, PAD

TINY = CaptionerConfig(
    encoder="vit_nano_conv", image_size=(24, 16), in_channels=2, vocabulary=17, width=24, decoder_depth=2, heads=3, hidden=40,
    longest=13,
)  # fmt: skip


def make(**changes: object) -> Captioner:
    torch.manual_seed(0)
    return build_captioner(replace(TINY, **changes)).eval()  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> Captioner:
    return make()


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randn(3, 2, 24, 16, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def words() -> torch.Tensor:
    ids = torch.randint(5, 17, (3, 7), generator=torch.Generator().manual_seed(2))
    ids[:, 0] = BEGIN
    return ids


def test_no_word_knows_what_comes_after_it(model: Captioner, images: torch.Tensor, words: torch.Tensor) -> None:
    other = words.clone()
    other[:, 4:] = 9
    assert_close(model(images, words)[:, :4], model(images, other)[:, :4])
    assert not torch.allclose(model(images, words)[:, 4:], model(images, other)[:, 4:])


def test_every_word_depends_on_the_whole_image(model: Captioner, images: torch.Tensor, words: torch.Tensor) -> None:
    given = images.clone().requires_grad_()
    model(given, words)[0, 0].logsumexp(0).backward()
    assert given.grad is not None
    assert (given.grad[0].abs().sum(0) > 0).all()  # each pixel
    assert (given.grad[1:] == 0).all()  # no other image


def test_padding_and_the_order_of_a_batch_change_nothing(model: Captioner, images: torch.Tensor, words: torch.Tensor) -> None:
    padded = torch.cat([words, torch.full((3, 2), PAD)], dim=1)
    assert_close(model(images, padded)[:, :7], model(images, words), atol=1e-5, rtol=1e-5)
    order = torch.tensor([2, 0, 1])
    assert_close(model(images[order], words[order]), model(images, words)[order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("position", ["sinusoidal_1d", "learned_1d", "rotary_1d"])
def test_step_by_step_gives_the_same_scores_with_and_without_a_cache(
    position: str, images: torch.Tensor, words: torch.Tensor
) -> None:
    model = make(position=position)
    whole = model(images, words)
    for cached in (True, False):
        state = model.begin(images, cached=cached)
        for length in (1, 2, 5, 7):  # several words at once, too
            assert_close(model.step(words[:, :length], state), whole[:, length - 1], atol=1e-5, rtol=1e-5)
    assert torch.equal(greedy(model, images, longest=9), greedy(model, images, longest=9, cached=False))
    assert torch.equal(beam_search(model, images, beams=1, longest=9).ids, greedy(model, images, longest=9))


def test_attention_over_the_image_sums_to_one_and_is_what_the_layer_used(
    model: Captioner, images: torch.Tensor, words: torch.Tensor
) -> None:
    maps = model.attention_maps(images, words)
    assert maps.shape == (3, 7, *model.encode(images).grid)
    assert_close(maps.sum((-1, -2)), torch.ones(3, 7))
    assert_close(maps[:, :3], model.attention_maps(images, words[:, :3]))  # those of a beginning do not change
    # By hand: one head, whose keys are all 0, looks everywhere alike.
    plain = make(heads=1)
    layer = plain.decoder.blocks[-1].cross_attention
    torch.nn.init.zeros_(layer.key.weight)
    even = plain.attention_maps(images, words)
    assert_close(even, torch.full_like(even, 1 / even[0, 0].numel()))


def test_prefix_tokens_are_looked_at_too_and_are_no_place(words: torch.Tensor) -> None:
    model = make(encoder="vit_nano_patch4_32", in_channels=3, image_size=(16, 12))
    small = torch.randn(3, 3, 16, 12)
    assert model.attention_maps(small, words).shape == (3, 7, 4, 3)
    classed = make(encoder="vit_tiny_patch16_224", in_channels=3, image_size=(32, 48))
    maps = classed.attention_maps(torch.randn(3, 3, 32, 48), words)
    assert maps.shape == (3, 7, 2, 3)
    assert (maps.sum((-1, -2)) < 1).all()  # the class token has the rest


def test_all_parameters_learn(images: torch.Tensor, words: torch.Tensor) -> None:
    model = make(dropout=0.0).train()
    model(images, words).square().mean().backward()
    still = {name for name, p in model.named_parameters() if p.grad is None or float(p.grad.abs().sum()) == 0.0}
    assert still == set()


def test_sizes_and_rules() -> None:
    with torch.device("meta"):
        counts = {name: sum(p.numel() for p in create_model(name).parameters()) for name in PRESETS}
    assert 0.9e6 < counts["captioner_micro"] < 1.2e6
    with pytest.raises(VitrailError, match='unknown encoder "vit_huge_conv"'):
        build_captioner(replace(TINY, encoder="vit_huge_conv"))
    with pytest.raises(VitrailError, match="decoder_depth must be at least 1, got 0"):
        build_captioner(replace(TINY, decoder_depth=0))
    with pytest.raises(VitrailError, match="too long: the model's longest is 13"):
        make()(torch.zeros(1, 2, 24, 16), torch.full((1, 14), 5))
