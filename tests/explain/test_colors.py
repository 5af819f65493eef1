"""Colors of tokens that lie where we put them."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.colors import token_colors
from vitrail.tokens import Tokens


def on_a_plane(count=100):
    """Tokens at (s, t) on a plane in five dimensions, s spread three times as wide as t, on a grid of 10 x 10."""
    s, t = torch.linspace(-3, 3, 10).repeat_interleave(10), torch.linspace(-1, 1, 10).repeat(10)
    x = torch.zeros(1, 100, 5)
    x[0, :, 3], x[0, :, 1] = s + 7, t - 2
    return Tokens(x, grid=(10, 10))


def test_red_follows_the_widest_direction_green_the_next_and_nothing_is_gray():
    colors = token_colors(on_a_plane())
    assert colors.shape == (1, 10, 10, 3)
    down, across = torch.linspace(0, 1, 10)[:, None].expand(10, 10), torch.linspace(0, 1, 10).expand(10, 10)
    assert_close(colors[0, ..., 0], down, atol=1e-5, rtol=0)
    assert_close(colors[0, ..., 1], across, atol=1e-5, rtol=0)
    assert_close(colors[0, ..., 2], torch.full((10, 10), 0.5))


def test_one_wild_token_does_not_take_the_whole_scale():
    tokens = on_a_plane()
    x = tokens.x.repeat(1, 4, 1)
    x[0, 0, 3] = 1000.0
    colors = token_colors([Tokens(x, grid=(20, 20))])
    assert colors[0, 0, 0, 0] == 1
    assert colors.min() >= 0
    assert colors.max() <= 1


def test_images_together_share_their_colors_and_prefix_tokens_have_none():
    one = torch.randn(2, 13, 6, generator=torch.Generator().manual_seed(0))
    one[:, 0] = 1e6  # a class token far away
    both = token_colors([Tokens(one[:1], grid=(3, 4), prefix=1), Tokens(one[1:], grid=(3, 4), prefix=1)])
    assert both.shape == (2, 3, 4, 3)
    assert torch.equal(both, token_colors(Tokens(one, grid=(3, 4), prefix=1)))
    assert torch.equal(both, token_colors(Tokens(one[:, 1:], grid=(3, 4))))


def test_the_elements_of_a_group_are_averaged():
    x = torch.randn(1, 12, 6, generator=torch.Generator().manual_seed(0))
    lifted = torch.cat([x + 1, x - 1], dim=1)
    assert_close(token_colors(Tokens(lifted, grid=(2, 3, 4))), token_colors(Tokens(x, grid=(3, 4))), atol=1e-5, rtol=0)


def test_what_cannot_be_colored_is_said():
    with pytest.raises(vt.VitrailError, match="one grid"):
        token_colors([on_a_plane(), Tokens(torch.zeros(1, 6, 5), grid=(2, 3))])
    with pytest.raises(vt.VitrailError, match="no two axes"):
        token_colors(Tokens(torch.zeros(1, 6, 5), grid=(6,)))
    assert (token_colors(Tokens(torch.zeros(1, 6, 2), grid=(2, 3))) == 0.5).all()
