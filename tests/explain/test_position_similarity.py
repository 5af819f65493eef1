"""How alike places are: rows against a direct computation, the other schemes against what they do inside attention."""

import math

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.layer_inputs import layer_inputs
from vitrail.explain.positions import position_similarity
from vitrail.models.parts import POSITIONS
from vitrail.nn.positions.position import Position
from vitrail.tasks.classify.report_interior import show_positions

GRID = (3, 5)
IMAGES = torch.randn(2, 3, 24, 40, generator=torch.Generator().manual_seed(1))


def model_with(position, size=(24, 40), **options):
    torch.manual_seed(0)
    model = vt.create_model(
        "vit_tiny_patch16_224",
        image_size=size,
        patch=8,
        width=24,
        depth=2,
        heads=3,
        num_classes=5,
        position=position,
        **options,
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "table" in name:
                parameter.normal_()
    return model


@pytest.mark.parametrize("position", sorted(POSITIONS))
def test_every_scheme_has_maps_or_says_in_one_line_why_not(position):
    found = position_similarity(model_with(position), layer=1)
    if position in ("none", "conditional"):
        assert isinstance(found, str)
        assert "\n" not in found
        assert found in show_positions(found).note
    else:
        assert found.maps.shape == (*GRID, *GRID)
        assert found.maps.isfinite().all()
        assert 0 < float(found.maps.abs().max()) <= found.limit + 1e-9
        assert found.words in show_positions(found).note


@pytest.mark.parametrize("where", ["stem", "layers", "layers_apart"])
@pytest.mark.parametrize("position", ["learned_1d", "learned_2d", "sinusoidal_1d", "sinusoidal_2d"])
def test_a_cosine_is_symmetric_and_one_with_itself(position, where):
    found = position_similarity(model_with(position, position_where=where))
    flat = found.maps.reshape(15, 15)
    assert found.kind == "cosine"
    assert_close(flat.diagonal(), torch.ones(15, dtype=torch.float64))
    assert_close(flat, flat.T)
    assert flat.abs().max() <= 1


def test_sinusoidal_rows_by_hand():
    """Of a row of sines and cosines, cos(row i, row j) is the mean of cos(rate · (i - j)), here over both axes."""
    maps = position_similarity(model_with("sinusoidal_2d")).maps
    rates = [10_000 ** (-2 * t / 12) for t in range(6)]
    for i, j, k, l in [(0, 0, 2, 4), (1, 3, 1, 3), (2, 0, 0, 1)]:
        expected = sum(math.cos(rate * (i - k)) + math.cos(rate * (j - l)) for rate in rates) / 12
        assert float(maps[i, j, k, l]) == pytest.approx(expected, abs=1e-6)


def test_rows_by_hand():
    model = model_with("learned_1d", size=(8, 24))
    with torch.no_grad():
        model.position.table.zero_()
        model.position.table[0, 0] = 2.0
        model.position.table[1, :2] = 1.0  # 45 degrees from the first; the third row has no direction at all
    half = 0.5**0.5
    expected = torch.tensor([[1, half, 0], [half, 1, 0], [0, 0, 0]], dtype=torch.float64)
    assert_close(position_similarity(model).maps[0, :, 0], expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize(("position", "base"), [("rotary", 100.0), ("rotary_1d", 10_000.0)])
def test_the_rotary_kernel_is_the_product_of_turned_constants(position, base):
    found = position_similarity(model_with(position))
    assert found.kind == "kernel"
    for i, j, k, l in [(0, 0, 2, 4), (1, 3, 1, 3), (2, 0, 0, 1)]:
        if position == "rotary":
            expected = sum(math.cos(base ** (-t / 2) * apart) for apart in (i - k, j - l) for t in range(2)) / 4
        else:
            expected = sum(math.cos(base ** (-t / 4) * (5 * (i - k) + j - l)) for t in range(4)) / 4
        assert float(found.maps[i, j, k, l]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("position", ["alibi", "alibi_1d", "relative_table", "continuous_bias"])
@pytest.mark.parametrize("head", [None, 0, -1])
def test_a_fixed_bias_is_the_one_inside_attention(position, head):
    model = model_with(position)
    bias = layer_inputs(model, IMAGES, 1).bias().detach()[0, :, 1:, 1:]  # h c c
    expected = bias.mean(0) if head is None else bias[head]
    found = position_similarity(model, layer=1, head=head)
    assert found.kind == "bias"
    assert_close(found.maps.reshape(15, 15).float(), expected)
    assert found.limit == pytest.approx(float(expected.abs().max()))


@pytest.mark.parametrize("position", ["relative_shaw", "relative_shaw_1d", "relative_projected", "relative_projected_1d"])
def test_rows_that_queries_are_compared_with(position):
    model = model_with(position)
    inputs = layer_inputs(model, IMAGES, 1)
    mean = inputs.q[:, :, 1:].mean(dim=(0, 2), keepdim=True).expand(1, -1, 16, -1)
    with torch.no_grad():
        expected = inputs.scope.position.bias(mean, mean, inputs.scope)[0, :, 1:, 1:]
    assert_close(position_similarity(model, layer=1, images=IMAGES).maps.reshape(15, 15).float(), expected.mean(0))
    assert_close(position_similarity(model, layer=1, head=2, images=IMAGES).maps.reshape(15, 15).float(), expected[2])
    alone = position_similarity(model, layer=1)
    assert "points to its own place" in alone.words
    # A query of length 1 along r_0 has |r_0| / sqrt(d) at its own place, everywhere.
    own = alone.maps.reshape(15, 15).diagonal()
    assert_close(own, own[:1].expand(15))
    assert own[0] > 0


def test_each_layer_has_its_own_table():
    model = model_with("relative_table")
    assert not torch.allclose(position_similarity(model, layer=0).maps, position_similarity(model, layer=1).maps)
    assert torch.equal(position_similarity(model, layer=-1).maps, position_similarity(model, layer=1).maps)


def test_what_does_not_exist_is_refused():
    with pytest.raises(vt.VitrailError, match="layer 2 does not exist"):
        position_similarity(model_with("alibi"), layer=2)
    with pytest.raises(vt.VitrailError, match="head 3 does not exist"):
        position_similarity(model_with("alibi"), head=3)


def test_a_model_without_places_says_so():
    assert "(none)" in position_similarity(model_with("none"))
    assert "(gsa)" in position_similarity(vt.create_model("gsa_p4_small", width=8))
    assert "(resnet)" in position_similarity(vt.create_model(vt.list_models("resnet*")[0]))

    class Turning(Position):
        attends = True

    model = model_with("none")
    model.position = Turning()
    assert "(Turning)" in position_similarity(model)
