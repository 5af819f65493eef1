"""Learning from measurements alone: what each term of the loss sees and what it cannot."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.learn.losses.equivariant_imaging import draw_rotation, equivariant_imaging, rotate

SIDE = 11


def draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


def fourier(x):
    return torch.fft.fft2(x, norm="ortho")


def inverse(k):
    return torch.fft.ifft2(k, norm="ortho")


MASK = torch.arange(SIDE) % 3 == 0  # columns of k-space that are measured


def measure(x):
    return fourier(x) * MASK


def unseen(x):
    """The part of an image in the null space of `measure`."""
    return inverse(fourier(x) * ~MASK)


def quarter(x):
    return torch.rot90(x, 1, dims=(-2, -1))


def test_a_perfect_inverse_costs_nothing():
    loss = equivariant_imaging(fourier(draw(3, SIDE, SIDE)), reconstruct=inverse, measure=fourier, transform=quarter)
    assert_close(loss, torch.zeros(3), atol=1e-9, rtol=0)


def test_both_terms_are_the_formula():
    x = draw(2, SIDE, SIDE)

    def reconstruct(y):
        return 0.5 * inverse(y)

    image = reconstruct(measure(x))
    first = (measure(image) - measure(x)).abs().square().sum((1, 2)) / SIDE**2
    second = (quarter(image) - reconstruct(measure(quarter(image)))).abs().square().sum((1, 2)) / SIDE**2
    found = equivariant_imaging(measure(x), reconstruct=reconstruct, measure=measure, transform=quarter, alpha=3.0)
    assert_close(found, first + 3 * second)


def gradient(alpha):
    """Of the loss by an image that `reconstruct` always answers with, whatever it is given."""
    answer = draw(1, SIDE, SIDE, seed=1).requires_grad_()
    y = measure(draw(1, SIDE, SIDE))
    loss = equivariant_imaging(y, reconstruct=lambda _: answer, measure=measure, transform=quarter, alpha=alpha)
    (found,) = torch.autograd.grad(loss.sum(), answer)
    return found


def test_the_measurements_alone_say_nothing_of_the_null_space():
    found = gradient(0.0)
    assert found.abs().max() > 1e-3
    assert_close(unseen(found), torch.zeros_like(found), atol=1e-8, rtol=0)


def test_equivariance_does():
    assert unseen(gradient(1.0)).abs().max() > 1e-3


def test_what_the_zero_filled_image_misses_costs_something_only_with_equivariance():
    y = measure(draw(1, SIDE, SIDE))
    loss = {
        alpha: equivariant_imaging(y, reconstruct=inverse, measure=measure, transform=quarter, alpha=alpha).item()
        for alpha in (0.0, 1.0)
    }
    assert loss[0.0] == pytest.approx(0.0, abs=1e-9)
    assert loss[1.0] > 1e-2


def test_gradients_reach_the_weights_and_stay_finite_at_zero():
    weight = torch.tensor(0.7, requires_grad=True)
    loss = equivariant_imaging(
        torch.zeros(1, SIDE, SIDE, dtype=torch.complex64),
        reconstruct=lambda y: weight * inverse(y),
        measure=measure,
        transform=quarter,
    )
    loss.sum().backward()
    assert weight.grad is not None
    assert torch.isfinite(weight.grad)


@pytest.mark.parametrize(("degrees", "turns"), [(0.0, 0), (90.0, 1), (180.0, 2), (270.0, 3)])
def test_right_angles_lose_nothing(degrees, turns):
    x = draw(2, 8, 8)
    assert_close(rotate(x, degrees), torch.rot90(x, turns, dims=(-2, -1)), atol=1e-5, rtol=0)


def test_a_turn_keeps_distances_where_the_sides_differ():
    """A disk about the middle of a wide image stays a disk."""
    rows, columns = torch.meshgrid(torch.arange(21) - 10.0, torch.arange(35) - 17.0, indexing="ij")
    disk = torch.exp(-(rows**2 + columns**2) / 18)[None].to(torch.complex64)
    assert_close(rotate(disk, 37.0), disk, atol=0.03, rtol=0)
    spot = torch.exp(-(rows**2 + (columns - 7) ** 2) / 4)[None].to(torch.complex64)  # 7 to the right
    moved = rotate(spot, 90.0).real[0]
    assert divmod(int(moved.argmax()), 35) == (3, 17)  # 7 up


def test_square_images_are_turned_by_right_angles_drawn_anew():
    torch.manual_seed(0)
    x = draw(1, 5, 5)
    found = [draw_rotation(x) for _ in range(20)]
    turns = {next(k for k in range(4) if torch.equal(one, torch.rot90(x, k, dims=(-2, -1)))) for one in found}
    assert turns == {1, 2, 3}
    assert draw_rotation(draw(1, 5, 7)).shape == (1, 5, 7)
