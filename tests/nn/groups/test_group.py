"""Rows G1, C1: the groups are groups, and act as such on offsets, images and maps."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.groups.group import GROUPS, PlaneGroup, find_group

ALL = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS.keys())


@ALL
def test_axioms(group):
    product, inverse, every = group.product(), group.inverse(), np.arange(group.order)
    assert (product[0] == every).all()
    assert (product[:, 0] == every).all()
    assert (product[inverse, every] == 0).all()
    assert (product[every, inverse] == 0).all()
    assert (product[product] == product[:, product]).all()  # (ab)c = a(bc)
    assert (group.relative()[product[:, :, None], product[:, None]] == group.relative()).all()  # (ca)^-1 (cb) = a^-1 b


@ALL
def test_matrices_multiply_as_the_elements_do(group):
    matrices = group.matrices()
    np.testing.assert_allclose(np.einsum("aij,bjk->abik", matrices, matrices), matrices[group.product()], atol=1e-14)
    assert len(np.unique(matrices.round(6), axis=0)) == group.order


def test_orders():
    assert {name: group.order for name, group in GROUPS.items()} == {"z2": 1, "p4": 4, "p4m": 8, "p8": 8, "p12": 12, "p16": 16}
    assert {name: len(group.exact) for name, group in GROUPS.items()} == {
        "z2": 1,
        "p4": 4,
        "p4m": 8,
        "p8": 4,
        "p12": 4,
        "p16": 4,
    }
    assert find_group("p12").exact == (0, 3, 6, 9)


@ALL
def test_acting_twice_is_acting_with_the_product(group):
    images, maps = torch.randn(2, 3, 5, 5), torch.randn(2, group.order, 3, 5, 5)
    for a in group.exact:
        for b in group.exact:
            both = int(group.product()[a, b])
            assert_close(group.act_on_images(group.act_on_images(images, b), a), group.act_on_images(images, both))
            assert_close(group.act_on_maps(group.act_on_maps(maps, b), a), group.act_on_maps(maps, both))


def test_a_quarter_turn_by_hand():
    group = find_group("p4m")
    assert group.act_on_images(torch.tensor([[1, 2], [3, 4]]), 1).tolist() == [[2, 4], [1, 3]]  # counterclockwise
    assert group.act_on_images(torch.tensor([[1, 2], [3, 4]]), 4).tolist() == [[2, 1], [4, 3]]
    seen = group.act_on_offsets(np.array([[0.0, 1.0]]))[:, 0].tolist()  # one to the right
    # Who is turned a quarter counterclockwise has it below, then left, then above; mirrored: left, and so on.
    assert seen == [[0, 1], [1, 0], [0, -1], [-1, 0], [0, -1], [1, 0], [0, 1], [-1, 0]]


@ALL
def test_images_and_offsets_agree(group):
    """A single bright pixel moves to where the matrix says."""
    for element in group.exact:
        image = torch.zeros(5, 5)
        image[1, 4] = 1  # the offset (-1, 2) from the center
        row, column = group.matrices()[element] @ [-1, 2]
        moved = group.act_on_images(image, element)
        assert moved[int(row) + 2, int(column) + 2] == 1


def test_finer_rotations_see_offsets_between_cells():
    seen = find_group("p8").act_on_offsets(np.array([[0.0, 1.0]]))[1, 0]
    np.testing.assert_allclose(seen, [0.5**0.5, 0.5**0.5], atol=1e-12)


def test_refusals():
    with pytest.raises(VitrailError, match="element 1 of p8 does not map the pixels onto pixels"):
        find_group("p8").act_on_images(torch.zeros(4, 4), 1)
    with pytest.raises(VitrailError, match="must be square; got 4x6"):
        find_group("p4").check_grid(4, 6)
    with pytest.raises(VitrailError, match='unknown group "p5": choose from z2, p4'):
        find_group("p5")
    find_group("z2").check_grid(4, 6)
    assert PlaneGroup("z2", 1).exact == (0,)
