"""Attention distance on matrices whose answer is known."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.distances import attention_distance, distances, even_distance
from vitrail.explain.look import Look, look
from vitrail.explain.record import Kept, Seen
from vitrail.tokens import Places, Tokens


def look_at(weights, *, grid, image_size, prefix=0):
    """A look made by hand, of one layer."""
    seen = Seen({})
    seen.layers = [weights]
    tokens = Tokens(torch.zeros(len(weights), weights.shape[2], 4), grid=grid, prefix=prefix)
    return Look(logits=torch.zeros(len(weights), 2), tokens=tokens, seen=seen, image_size=image_size)


def test_distances_are_between_the_centers_of_cells_in_pixels():
    apart = distances((2, 3), (20, 60))  # cells of 10 x 20 pixels
    assert apart.shape == (6, 6)
    assert_close(apart[0], torch.tensor([0, 20, 40, 10, 500**0.5, 1700**0.5]))
    assert_close(apart, apart.T)


def test_who_looks_at_itself_looks_no_distance_and_who_looks_at_its_neighbor_a_cell():
    itself, swapped = torch.eye(2), torch.eye(2).flip(0)
    found = attention_distance(look_at(torch.stack([itself, swapped])[None], grid=(1, 2), image_size=(8, 24)))
    assert_close(found, torch.tensor([[0.0, 12.0]]))


def test_what_goes_to_prefix_tokens_is_left_out_and_the_rest_made_whole():
    weights = torch.tensor([[1.0, 0, 0], [0.6, 0.1, 0.3], [0.0, 0.5, 0.5]])[None, None]  # class token, two patches
    found = attention_distance(look_at(weights, grid=(1, 2), image_size=(8, 16), prefix=1))
    assert_close(found, torch.tensor([[(0.75 * 8 + 0.5 * 8) / 2]]))


def test_even_attention_has_the_even_distance():
    found = attention_distance(look_at(torch.full((3, 2, 15, 15), 1 / 15), grid=(3, 5), image_size=(24, 40)))
    assert_close(found, torch.full((1, 2), even_distance((3, 5), (24, 40))))


def test_the_elements_of_a_group_stand_at_the_same_place():
    weights = torch.zeros(1, 1, 4, 4)  # two elements, two cells: each looks at the other element of its own cell
    weights[0, 0, [0, 1, 2, 3], [2, 3, 0, 1]] = 1
    assert float(attention_distance(look_at(weights, grid=(2, 1, 2), image_size=(8, 16)))) == 0
    lifting = torch.tensor([[0, 1.0], [1, 0], [1, 0], [1, 0]])[None, None]  # keys of one copy: 8, 8, 0, 8 pixels away
    found = look_at(lifting, grid=(2, 1, 2), image_size=(8, 16))
    found.seen.kept = [Kept([0], [0, 1, 2, 3], 1, 4, Places((2, 1, 2)), Places((1, 2)))]
    assert_close(attention_distance(found), torch.tensor([[6.0]]))


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "gsa_p4_small"])
def test_real_models_reach_from_nothing_to_the_diagonal(name):
    options = {"width": 24, "heads": 3, "depth": 2, "image_size": (32, 48)} if name.startswith("vit") else {"width": 8}
    model = vt.create_model(name, num_classes=3, **options)
    height, width = model.image_size
    images = torch.randn(2, model.config.in_channels, height, width)
    whole = attention_distance(look(model, images))
    assert whole.shape == (len(look(model, images).seen.layers), model.config.heads)
    assert ((whole > 0) & (whole < (height**2 + width**2) ** 0.5)).all()


def test_some_queries_are_enough_and_prefix_tokens_alone_are_not():
    model = vt.create_model("vit_tiny_patch16_224", width=24, heads=3, depth=2, image_size=(32, 48), num_classes=3)
    images = torch.randn(1, 3, 32, 48)
    each = torch.stack([attention_distance(look(model, images, queries=[token])) for token in range(1, 7)])
    assert_close(attention_distance(look(model, images)), each.mean(0))
    with pytest.raises(vt.VitrailError, match="no patch is among the recorded queries"):
        attention_distance(look(model, images, queries=[0]))
