"""Row A7, rotary: turned queries and keys whose products know differences only."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.positions.rotary import Rotary, rotary_angles, turn
from vitrail.scope import Scope
from vitrail.tokens import Places

WIDTH = 12


def turned(position, x, places):
    prepared = position.prepare(places, places)
    return position.rotate(x, x, Scope(queries=places, keys=places, position=position, prepared=prepared))[0]


@given(shift=st.tuples(st.integers(0, 9), st.integers(0, 9)), axes=st.integers(1, 2))
@settings(max_examples=20)
def test_products_depend_on_differences_only(shift, axes):
    q, k = torch.randn(2, 1, 1, 1, WIDTH, dtype=torch.float64)
    cells = torch.tensor([[2, 7], [5, 1]])

    def product(here, there):
        angles = [rotary_angles(cell[None, None, :axes], WIDTH, base=100.0)[:, None].double() for cell in (here, there)]
        return (turn(q, angles[0].cos(), angles[0].sin()) * turn(k, angles[1].cos(), angles[1].sin())).sum()

    moved = cells + torch.tensor(shift)
    assert_close(product(*moved), product(*cells), atol=1e-5, rtol=1e-5)


def test_a_turn_is_multiplication_by_a_complex_number():
    x, places = torch.randn(2, 3, 35, WIDTH), Places((5, 7))
    numbers = torch.complex(x[..., : WIDTH // 2], x[..., WIDTH // 2 :])
    coordinates = places.coordinates()[0].double()
    rates = 100.0 ** (-torch.arange(3, dtype=torch.float64) / 3)  # six pairs, three an axis
    angles = torch.cat([coordinates[:, :1] * rates, coordinates[:, 1:] * rates], dim=1)
    expected = numbers * torch.exp(1j * angles)
    assert_close(turned(Rotary(WIDTH, axes=2), x, places), torch.cat([expected.real, expected.imag], -1).float())


def test_on_a_line_it_is_the_rotary_of_transformers():
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=WIDTH * 3, num_attention_heads=3, head_dim=WIDTH)
    x = torch.randn(2, 3, 11, WIDTH)
    cosine, sine = llama.LlamaRotaryEmbedding(config)(x, torch.arange(11)[None])
    expected = llama.apply_rotary_pos_emb(x, x, cosine, sine)[0]
    assert_close(turned(Rotary(WIDTH, axes=1, line=True), x, Places((11,))), expected)


def test_prefix_tokens_are_not_turned_and_lengths_are_kept():
    x = torch.randn(2, 3, 2 + 15, WIDTH)
    out = turned(Rotary(WIDTH, axes=2), x, Places((3, 5), prefix=2))
    assert torch.equal(out[:, :, :2], x[:, :, :2])
    assert_close(out.norm(dim=-1), x.norm(dim=-1))
    assert_close(out[:, :, 2], x[:, :, 2])  # the first cell stands at (0, 0)
    assert (out[:, :, 3:] - x[:, :, 3:]).abs().amax((0, 1, 3)).min() > 1e-3


def test_pairs_left_over_are_not_turned():
    angles = rotary_angles(torch.ones(1, 1, 3, dtype=torch.long), 16, base=100.0)[0, 0]  # eight pairs, two an axis
    assert_close(angles, torch.tensor([1, 0.1, 1, 0.1, 1, 0.1, 0, 0]))


def test_widths_that_cannot_be_shared_are_refused():
    with pytest.raises(VitrailError, match="3 axes needs an even width of a head, at least 6, got 4"):
        Rotary(4, axes=3)
    with pytest.raises(VitrailError, match="got 7"):
        Rotary(7, axes=1)
