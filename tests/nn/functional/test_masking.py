"""Which patches are hidden: as many as asked, drawn anew and drawn again, none twice."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.nn.functional.masking import draw_kept, hidden_from, keep_lowest


@settings(max_examples=60)
@given(batch=st.integers(1, 5), cells=st.integers(2, 67), hide=st.floats(0.01, 0.99))
def test_the_share_is_reached_exactly(batch, cells, hide):
    kept = draw_kept(batch, cells, hide)
    hidden = hidden_from(kept, cells)
    assert kept.diff(dim=1).gt(0).all(), "in raster order, none twice"
    assert hidden.shape == (batch, cells)
    asked = cells - round((1.0 - hide) * cells)
    assert hidden.sum(1).tolist() == [min(max(asked, 1), cells - 1)] * batch
    assert not hidden.gather(1, kept).any()


def test_the_published_count():
    """75 % of 14x14 patches: 49 are kept  [He+ 2022, figure 1: 25 %]."""
    assert draw_kept(2, 196, 0.75).shape == (2, 49)


def test_the_lowest_numbers_are_kept_in_raster_order():
    numbers = torch.tensor([[0.9, 0.1, 0.5, 0.3, 0.7], [0.2, 0.4, 0.1, 0.9, 0.8]])
    assert keep_lowest(numbers, 0.6).tolist() == [[1, 3], [0, 2]]


def test_a_generator_draws_the_same_again_and_each_image_its_own():
    first, again = (draw_kept(7, 23, 0.6, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert len({tuple(row) for row in first.tolist()}) == 7
    state = torch.get_rng_state()
    draw_kept(7, 23, 0.6, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.get_rng_state(), state), "the generator alone is drawn from"


def test_every_cell_is_hidden_equally_often():
    hidden = hidden_from(draw_kept(4000, 13, 0.6, generator=torch.Generator().manual_seed(0)), 13)
    assert hidden.float().mean(0).tolist() == pytest.approx([8 / 13] * 13, abs=0.04)
