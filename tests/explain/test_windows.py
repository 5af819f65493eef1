"""What windows read, back in the image's own cells."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import (
    attention_distance,
    attention_map,
    explain_map,
    head_entropy,
    image_weights,
    look,
    methods_for,
    position_similarity,
    received_map,
    record,
    six_steps,
)  # fmt: skip
from vitrail.explain.distances import distances
from vitrail.explain.windows import find_place, window_read, window_received
from vitrail.tokens import Windows

SIZE = (22, 38)  # on a grid of 11 x 19, then 6 x 10: padded to whole windows in both stages


@pytest.fixture(scope="module", params=["swin_nano_patch2_window4_32", "swinv2_nano_window4_32"])
def model(request):
    torch.manual_seed(0)
    made = vt.create_model(request.param, width=12, heads=(2, 3), depths=(2, 2), num_classes=3, image_size=SIZE).eval()
    for parameter in made.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return made


@pytest.fixture(scope="module")
def images():
    return torch.randn(2, 3, *SIZE)


def test_weights_times_values_are_the_output_and_rows_sum_to_one(model, images):
    with torch.no_grad(), record(model) as seen:
        model(images)
    assert [kept.windows for kept in seen.kept] == [
        Windows((11, 19), (4, 4)), Windows((11, 19), (4, 4), (2, 2)), Windows((6, 10), (4, 4)), Windows((6, 10), (4, 4), (2, 2))
    ]  # fmt: skip
    for weights, values, outputs in zip(seen.layers, seen.values, seen.outputs, strict=True):
        assert_close(weights @ values, outputs, atol=1e-5, rtol=1e-5)
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))


def test_one_query_is_a_row_of_all_pairs(model, images):
    seen = look(model, images)
    for layer, cell in ((1, (10, 18)), (1, (4, 7)), (3, (5, 0))):
        windows = seen.seen.kept[layer].windows
        whole = image_weights(seen.seen.layers[layer], windows)
        number = cell[0] * windows.grid[1] + cell[1]
        read = attention_map(seen, layer=layer, head=1, query=cell)
        assert_close(read.flatten(1), whole[:, 1, number])
        assert ((read > 0).sum((1, 2)) <= 16).all()
        assert (read[:, cell[0], cell[1]] > 0).all()
        assert_close(received_map(seen, layer=layer).flatten(1), whole.mean((1, 2)))


def test_nothing_is_read_from_afar(model, images):
    seen = look(model, images)
    for entry, weights in enumerate(seen.seen.layers):
        windows = seen.seen.kept[entry].windows
        whole = image_weights(weights, windows)
        rows = torch.arange(whole.shape[-1]) // windows.grid[1]
        columns = torch.arange(whole.shape[-1]) % windows.grid[1]
        far = ((rows[:, None] - rows).abs() > 3) | ((columns[:, None] - columns).abs() > 3)
        assert (whole[:, :, far] == 0).all()  # around the border of the shifted grid, too
        real = whole.sum(-1)
        assert (real <= 1 + 1e-5).all()
        assert_close(real[..., 0], torch.ones_like(real[..., 0]))  # a window without padding, with all of its weight


def test_a_coarser_grid_takes_the_mean_of_queries_and_the_sum_of_keys(model, images):
    seen = look(model, images, layers=[3])
    windows = seen.seen.kept[0].windows
    whole = image_weights(seen.seen.layers[0], windows).view(2, 3, 3, 2, 5, 2, 3, 2, 5, 2)
    coarse = image_weights(seen.seen.layers[0], windows, grid=(3, 5))
    assert_close(coarse, whole.mean((3, 5)).sum((5, 7)).reshape(2, 3, 15, 15))


def test_by_hand():
    """A line of 3 cells in windows of 2, shifted by 1: 1 2 | pad 0."""
    windows = Windows((1, 3), (1, 2), (0, 1))
    weights = torch.tensor([[[0.25, 0.75], [0.5, 0.5]], [[0.9, 0.1], [0.4, 0.6]]])
    assert find_place(windows, (0, 2)) == (0, 1)
    assert_close(window_read(weights, windows, (0, 1)), torch.tensor([[[0.0, 0.25, 0.75]]]))
    assert_close(window_read(weights, windows, (0, 0)), torch.tensor([[[0.6, 0.0, 0.0]]]))
    assert_close(window_received(weights, windows), torch.tensor([[[0.6, 0.75, 1.25]]]) / 3)
    whole = image_weights(weights[:, None], windows)[0, 0]
    assert_close(whole, torch.tensor([[0.6, 0.0, 0.0], [0.0, 0.25, 0.75], [0.0, 0.5, 0.5]]))
    with pytest.raises(vt.VitrailError, match=r"the query \(1, 0\) is not on the grid of 1 rows and 3 columns"):
        window_read(weights, windows, (1, 0))


def test_distance_is_that_of_all_pairs(model, images):
    seen = look(model, images)
    found = attention_distance(seen)
    assert found.shape == (4, 3)
    assert found[:2, 2].isnan().all()  # the first stage has two heads
    for entry, heads in enumerate((2, 2, 3, 3)):
        windows = seen.seen.kept[entry].windows
        whole = image_weights(seen.seen.layers[entry], windows)
        whole = whole / whole.sum(-1, keepdim=True)
        apart = distances(windows.grid, SIZE)
        assert_close(found[entry, :heads], (whole * apart).sum(-1).mean((0, 2)))
    assert head_entropy(seen).shape == (4, 3)


def test_six_steps_add_up(model, images):
    with torch.no_grad(), record(model) as seen:
        model(images[:1])
    for layer, cell in ((1, (10, 18)), (2, (0, 5))):
        steps = six_steps(model, images[:1], layer=layer, head=1, query=cell)
        window, place = find_place(seen.kept[layer].windows, cell)
        assert steps.asker == f"({cell[0]}, {cell[1]})"
        assert_close(steps.scaled.softmax(0), steps.weights, atol=1e-5, rtol=1e-5)
        assert_close(steps.weights, seen.layers[layer][window, 1, place], atol=1e-5, rtol=1e-5)
        assert_close(steps.weights @ steps.values, steps.output, atol=1e-5, rtol=1e-5)
        assert_close(steps.output, seen.outputs[layer][window, 1, place], atol=1e-5, rtol=1e-5)
        assert ("cos(q, k)" in steps.words) == (model.config.attention == "cosine")
    with pytest.raises(vt.VitrailError, match="no class token: choose a patch"):
        six_steps(model, images[:1])


def test_what_cannot_work_says_why(model, images):
    assert methods_for(model) == ("attention", "gradient", "occlusion")
    with pytest.raises(vt.VitrailError, match="rollout does not work here: Swin attends within windows"):
        explain_map(model, images, "rollout")
    assert "offsets within a window" in position_similarity(model)
    found = explain_map(model, images, "attention")
    assert found.shape == (2, 6, 10)
    assert_close(found.sum((1, 2)), torch.ones(2))
