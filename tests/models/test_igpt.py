"""Image GPT: a probability over images that sums to 1, no look at what is to come, the published sizes."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.igpt import PRESETS, IGPTConfig, build_igpt
from vitrail.models.parts import POSITIONS

TINY = {"width": 24, "depth": 2, "heads": 3, "colors": 5, "image_size": (3, 4), "in_channels": 1}  # key width 8


def tiny(seed: int = 0, **options):
    """A model whose head is drawn too: a new one predicts nothing but the uniform distribution."""
    torch.manual_seed(seed)
    model = build_igpt(IGPTConfig(**{**TINY, **options})).eval()
    torch.nn.init.normal_(model.head.output.weight)
    for parameter in model.position.parameters():
        torch.nn.init.normal_(parameter)
    return model


def test_a_new_model_is_uniform():
    model = build_igpt(IGPTConfig(**TINY))
    ids = torch.randint(0, 5, (2, 12))
    bits = -model.log_likelihood(ids) / math.log(2) / 12
    assert_close(bits, torch.full((2,), math.log2(5)))


def test_probabilities_of_all_images_sum_to_one():
    model = tiny(colors=2, image_size=(2, 2))
    images = torch.tensor(list(itertools.product(range(2), repeat=4)))
    with torch.inference_mode():
        odds = model.log_likelihood(images).double().exp()
    assert odds.std() > 0.01  # far from uniform
    assert_close(odds.sum(), torch.tensor(1.0, dtype=torch.float64), atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("position", POSITIONS)
def test_no_pixel_sees_itself_or_what_comes_later(position):
    model = tiny(position=position)
    ids = torch.randint(0, 5, (2, 12))
    inputs = model.colors(ids).detach().requires_grad_()
    model.colors.register_forward_hook(lambda module, args, out: torch.cat([out[:, :1], inputs[:, :-1]], dim=1))
    for place in (0, 5, 11):
        gradient = torch.autograd.grad(model(ids)[:, place].square().sum(), inputs)[0].abs().sum((0, 2))
        assert gradient[place:].eq(0).all()
        assert gradient[:place].gt(0).all()


@pytest.mark.parametrize("position", POSITIONS)
def test_step_by_step_with_and_without_a_cache_is_the_whole_image(position):
    model, ids = tiny(position=position), torch.randint(0, 5, (2, 12))
    read = torch.cat([torch.full((2, 1), model.blank), ids], dim=1)
    with torch.inference_mode():
        expected = model(ids)
        for cached in (True, False):
            state = model.begin(None, cached=cached)
            for place in (4, 5, 6, 11):  # the first five places at once, as a prompt, and later several again
                assert_close(model.step(read[:, : place + 1], state), expected[:, place], atol=1e-5, rtol=1e-5)


def test_the_masked_variant_sees_all_but_what_is_hidden():
    model, ids = tiny(causal=False, position="conditional"), torch.randint(0, 5, (2, 12))
    hidden = torch.zeros(2, 12, dtype=torch.bool)
    hidden[:, 4] = True
    other = ids.clone()
    other[:, 4] = (ids[:, 4] + 1) % 5
    later = ids.clone()
    later[:, 9] = (ids[:, 9] + 1) % 5
    with torch.inference_mode():
        assert torch.equal(model(ids, hidden), model(other, hidden))
        assert not torch.equal(model(ids, hidden)[:, 4], model(later, hidden)[:, 4])


def test_intermediates_end_in_what_the_head_reads():
    model, ids = tiny(), torch.randint(0, 5, (2, 12))
    first, last = model.forward_intermediates(ids, [0, -1])
    assert (first.grid, tuple(first.x.shape)) == ((3, 4), (2, 12, 24))
    assert_close(model.head(last), model(ids))


@pytest.mark.parametrize("name, millions", [("igpt_small", 76), ("igpt_medium", 455), ("igpt_large", 1362)])
def test_published_sizes(name, millions):
    """[Chen+ 2020, section 3.2: 76 M, 455 M, 1362 M]; one million more where they round and count the start token otherwise."""
    with torch.device("meta"):
        assert abs(count_parameters(build_igpt(PRESETS[name])) / 1e6 - millions) < 2.0


@pytest.mark.parametrize(
    "options, words",
    [
        ({"colors": 1}, "from 2 to 65536 colors, got 1"),
        ({"colors": 10**9}, "from 2 to 65536 colors, got 1000000000"),
        ({"in_channels": 10**9}, "in_channels must be from 1 to 1000"),
        ({"image_size": (10**6, 10**6)}, "at most 1000000 pixels"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"image_size": (0, 4)}, "image_size must be positive"),
        ({"depth": 1001}, "depth must be at most 1000"),
        ({"heads": 5}, "multiple of the heads"),
        ({"hidden": 0}, "hidden must be at least 1"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        build_igpt(IGPTConfig(**{**TINY, **options}))


def test_refusals_while_running():
    model, ids = tiny(), torch.randint(0, 5, (2, 12))
    with pytest.raises(VitrailError, match="12 pixels has no place for 13"):
        model(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(VitrailError, match="causal=False"):
        model(ids, torch.zeros(2, 12, dtype=torch.bool))
    with pytest.raises(VitrailError, match="only a causal model gives images a likelihood"):
        tiny(causal=False).log_likelihood(ids)
