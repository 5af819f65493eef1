"""The scan's equations: conventions of the transform, A and its adjoint, and images that agree with what was measured."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.nn.functional.fourier import (
    keep_measured,
    root_sum_of_squares,
    sense_adjoint,
    sense_forward,
    solve_sense,
    to_image,
    to_kspace,
)

SIZES = [(1, 1), (2, 3), (5, 8), (6, 7), (11, 13), (16, 4)]


def numbers(*shape, seed=0, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def smooth_maps(b, c, h, w, *, dtype=torch.complex64):
    """Bumps around the image with a slope of phase, of which the squares sum to 1."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    angle = torch.arange(c)[:, None, None] * 2 * torch.pi / c
    size = torch.exp(-((y - torch.sin(angle)) ** 2 + (x - torch.cos(angle)) ** 2))
    maps = torch.polar(size, angle + x * torch.cos(angle) - y).to(dtype)
    return (maps / root_sum_of_squares(maps)).expand(b, c, h, w).contiguous()


def every(step, w, *, center=2):
    mask = torch.arange(w) % step == 0
    mask[w // 2 - center // 2 : w // 2 - center // 2 + center] = True
    return mask[None, None]


def share(a, b):
    return float(torch.linalg.vector_norm(a - b) / torch.linalg.vector_norm(b))


@pytest.mark.parametrize(("h", "w"), SIZES)
def test_a_constant_image_is_the_zero_frequency_alone(h, w):
    kspace = to_kspace(torch.full((h, w), 2 + 1j))
    expected = torch.zeros(h, w, dtype=torch.complex64)
    expected[h // 2, w // 2] = (2 + 1j) * (h * w) ** 0.5
    assert_close(kspace, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("h", "w"), SIZES)
def test_a_point_in_the_middle_is_flat_and_real(h, w):
    """The pixel h // 2, w // 2 is the origin of the image, so its transform has no slope of phase."""
    image = torch.zeros(h, w, dtype=torch.complex64)
    image[h // 2, w // 2] = 1
    assert_close(to_kspace(image), torch.full((h, w), (h * w) ** -0.5, dtype=torch.complex64))


def test_one_wave_is_one_point():
    h, w = 6, 9
    x = torch.arange(w) - w // 2
    wave = torch.polar(torch.ones(h, w), (2 * torch.pi * 2 * x / w).expand(h, w))
    kspace = to_kspace(wave)
    assert divmod(int(kspace.abs().argmax()), w) == (h // 2, w // 2 + 2)
    assert float(kspace.abs().max()) == pytest.approx((h * w) ** 0.5, rel=1e-5)


@settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 99))
def test_there_and_back_with_the_same_energy(h, w, seed):
    x = numbers(2, 3, h, w, seed=seed)
    assert_close(to_image(to_kspace(x)), x, atol=1e-5, rtol=1e-5)
    assert_close(to_kspace(to_image(x)), x, atol=1e-5, rtol=1e-5)
    assert_close(to_kspace(x).abs().square().sum(), x.abs().square().sum())  # Parseval


def test_root_sum_of_squares_by_hand():
    coils = torch.tensor([3 + 0j, 0 + 4j]).view(2, 1, 1).expand(2, 3, 5).contiguous()
    assert_close(root_sum_of_squares(coils), torch.full((3, 5), 5.0))


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 99), st.booleans())
def test_adjoint(h, w, c, seed, masked):
    """<A x, y> = <x, A^H y> for any maps and any mask, also one of points."""
    x, y, maps = numbers(2, h, w, seed=seed), numbers(2, c, h, w, seed=seed + 1), numbers(2, c, h, w, seed=seed + 2)
    mask = numbers(2, h, w, seed=seed + 3).real > 0 if masked else None
    left = torch.vdot(sense_forward(x, maps, mask).flatten(), y.flatten())
    right = torch.vdot(x.flatten(), sense_adjoint(y, maps, mask).flatten())
    assert abs(left - right) <= 1e-4 * (1 + abs(left))


def test_only_measured_lines_are_seen():
    maps, mask = smooth_maps(2, 3, 5, 7), every(3, 7, center=1)
    y = sense_forward(numbers(2, 5, 7), maps, mask)
    assert ((y != 0) == mask[:, None].expand_as(y)).all()
    noise = numbers(2, 3, 5, 7, seed=5) * ~mask[:, None]
    assert_close(sense_adjoint(y + noise, maps, mask), sense_adjoint(y, maps))


def test_all_lines_and_normalized_maps_give_the_image():
    x, maps = numbers(2, 6, 7), smooth_maps(2, 4, 6, 7)
    assert_close(sense_adjoint(sense_forward(x, maps), maps), x, atol=1e-5, rtol=1e-5)


def test_measured_lines_are_kept_bit_for_bit_whatever_the_noise():
    maps, mask = smooth_maps(2, 4, 6, 12), every(4, 12)
    y = numbers(2, 4, 6, 12, seed=3) * mask[:, None]  # no image explains these
    guess = numbers(2, 6, 12, seed=4)
    kept = keep_measured(guess, y, mask, maps)
    where = mask[:, None].expand_as(y)
    assert torch.equal(kept.kspace[where], y[where])
    assert torch.equal(kept.kspace[~where], sense_forward(guess, maps)[~where])
    step = guess + sense_adjoint(y - sense_forward(guess, maps, mask), maps, mask)
    assert_close(kept.image, step, atol=1e-5, rtol=1e-5)


def test_of_one_coil_the_image_keeps_the_lines_too():
    maps, mask = torch.polar(torch.ones(1, 1, 6, 9), numbers(1, 1, 6, 9).real), every(4, 9)
    y, guess = numbers(1, 1, 6, 9, seed=1) * mask[:, None], numbers(1, 6, 9, seed=2)
    kept = keep_measured(guess, y, mask, maps)
    assert share(sense_forward(kept.image, maps, mask), y) < 1e-6
    assert_close(sense_forward(kept.image, maps), kept.kspace, atol=1e-5, rtol=1e-5)


def test_the_truth_stays_and_any_guess_comes_nearer():
    maps, mask = smooth_maps(2, 3, 8, 10), every(2, 10)
    truth, guess = numbers(2, 8, 10), numbers(2, 8, 10, seed=1)
    y = sense_forward(truth, maps, mask)
    assert_close(keep_measured(truth, y, mask, maps).image, truth, atol=1e-5, rtol=1e-5)
    assert share(keep_measured(guess, y, mask, maps).image, truth) < 0.9 * share(guess, truth)


def test_derivative_is_blind_to_what_was_measured():
    """d loss / d guess has nothing on the measured lines: they do not depend on it."""
    maps, mask = torch.ones(1, 1, 5, 8, dtype=torch.complex64), every(2, 8)
    guess = numbers(1, 5, 8).requires_grad_()
    kept = keep_measured(guess, numbers(1, 1, 5, 8, seed=1), mask, maps)
    kept.image.abs().square().sum().backward()
    slope = to_kspace(guess.grad)
    assert slope[(mask[0, 0].expand(1, 5, 8))].abs().max() < 1e-5
    assert slope[~(mask[0, 0].expand(1, 5, 8))].abs().min() > 1e-3


@pytest.mark.parametrize(("c", "step"), [(1, 4), (2, 4), (4, 2), (8, 3)])
def test_without_noise_sense_reproduces_the_lines(c, step):
    h, w = 15, 24
    maps, mask = smooth_maps(2, c, h, w), every(step, w, center=4)
    y = sense_forward(numbers(2, h, w, seed=1), maps, mask)
    found = solve_sense(y, mask, maps, steps=200, start=numbers(2, h, w, seed=2))
    assert share(sense_forward(found, maps, mask), y) < 1e-5


@pytest.mark.parametrize("c", [1, 3], ids=["fewer equations than unknowns", "more"])
def test_sense_is_the_nearest_least_squares_solution(c):
    """Against the dense pseudo-inverse, in double precision, with lines that no image explains."""
    b, h, w = 1, 4, 6
    maps, mask = numbers(b, c, h, w, seed=7, dtype=torch.complex128), every(3, w, center=1)
    basis = torch.eye(h * w, dtype=torch.complex128).view(-1, h, w)
    matrix = sense_forward(basis, maps.expand(h * w, -1, -1, -1), mask).flatten(1).T  # (c h w) (h w)
    y = numbers(b, c, h, w, seed=3, dtype=torch.complex128) * mask[:, None]
    guess = numbers(b, h, w, seed=4, dtype=torch.complex128)
    expected = guess.flatten() + torch.linalg.pinv(matrix, rtol=1e-8) @ (y.flatten() - matrix @ guess.flatten())
    assert_close(solve_sense(y, mask, maps, steps=300, start=guess).flatten(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("weight", [0.1, 2.0])
def test_a_weight_keeps_sense_near_its_start(weight):
    """Against the dense solution of (A^H A + weight) (x - x0) = A^H (y - A x0), in double precision."""
    b, c, h, w = 1, 3, 4, 6
    maps, mask = numbers(b, c, h, w, seed=7, dtype=torch.complex128), every(3, w, center=1)
    basis = torch.eye(h * w, dtype=torch.complex128).view(-1, h, w)
    matrix = sense_forward(basis, maps.expand(h * w, -1, -1, -1), mask).flatten(1).T  # (c h w) (h w)
    y = numbers(b, c, h, w, seed=3, dtype=torch.complex128) * mask[:, None]
    guess = numbers(b, h, w, seed=4, dtype=torch.complex128)
    normal = matrix.mH @ matrix + weight * torch.eye(h * w, dtype=torch.complex128)
    expected = guess.flatten() + torch.linalg.solve(normal, matrix.mH @ (y.flatten() - matrix @ guess.flatten()))
    assert_close(solve_sense(y, mask, maps, steps=100, start=guess, weight=weight).flatten(), expected, atol=1e-4, rtol=1e-4)


def test_images_of_a_batch_do_not_mix():
    maps, mask = smooth_maps(2, 3, 6, 8), every(2, 8)
    y = sense_forward(numbers(2, 6, 8, seed=1), maps, mask)
    y[1] *= 100
    together = solve_sense(y, mask, maps, steps=7)
    for i in range(2):
        alone = solve_sense(y[i : i + 1], mask, maps[i : i + 1], steps=7)
        assert_close(together[i : i + 1], alone, atol=1e-3, rtol=1e-4)


def test_an_empty_scan_gives_the_start():
    maps, guess = smooth_maps(1, 2, 4, 6), numbers(1, 4, 6)
    y, nothing = torch.zeros(1, 2, 4, 6, dtype=torch.complex64), torch.zeros(1, 1, 6, dtype=torch.bool)
    assert torch.equal(solve_sense(y, nothing, maps, steps=5, start=guess), guess)
    assert torch.equal(solve_sense(y, nothing, maps, steps=5), torch.zeros_like(guess))
