"""Sharpness-aware minimization: the closed form, exactness, and the minimum it prefers."""

import pytest
import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.optim.sam import LEAST_SCALE, Sharpness


def test_on_a_quadratic_the_step_is_the_closed_form():
    # loss = w^T A w / 2, gradient A w: the step is w - lr A (w + r A w / |A w|), two tensors being one vector
    curvature, w, lr, radius = torch.tensor([1.0, 3.0, 0.5, 2.0]), torch.tensor([1.0, -2.0, 4.0, 0.5]), 0.1, 0.3
    parts = [nn.Parameter(w[:1].clone()), nn.Parameter(w[1:].clone().reshape(3, 1))]

    def loss() -> Tensor:
        return (curvature * torch.cat([p.flatten() for p in parts]) ** 2).sum() / 2

    optimizer, sharpness = torch.optim.SGD(parts, lr=lr), Sharpness(parts, radius)
    loss().backward()
    sharpness.climb()
    gradient = curvature * w
    above = w + radius * gradient / gradient.norm()
    torch.testing.assert_close(torch.cat([p.detach().flatten() for p in parts]), above)
    optimizer.zero_grad()
    loss().backward()
    sharpness.descend()
    assert torch.equal(torch.cat([p.detach().flatten() for p in parts]), w), "back exactly"
    optimizer.step()
    torch.testing.assert_close(torch.cat([p.detach().flatten() for p in parts]), w - lr * curvature * above)


def test_the_adaptive_climb_by_hand():
    w, g, radius = torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 2.0, 3.0]), 0.5
    parameter = nn.Parameter(w.clone())
    parameter.grad = g.clone()
    sharpness = Sharpness([parameter], radius, adaptive=True)
    sharpness.climb()
    scale = w.abs() + LEAST_SCALE
    torch.testing.assert_close(parameter.detach(), w + radius * scale**2 * g / (scale * g).norm())
    assert torch.equal(parameter.grad, g)
    sharpness.descend()
    assert torch.equal(parameter.detach(), w)


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 11), nn.BatchNorm1d(11), nn.GELU(), nn.Dropout(0.3), nn.Linear(11, 3))


def train(model: nn.Module, radius: float | None, steps: int = 6) -> dict[str, Tensor]:
    """As the loop does it: the random generator is put back before the second pass. None: without Sharpness."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    sharpness = None if radius is None else Sharpness(model.parameters(), radius, buffers=model.buffers())
    torch.manual_seed(1)
    for _ in range(steps):
        x, y = torch.randn(13, 5), torch.randint(3, (13,))
        generator = torch.get_rng_state()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        if sharpness is not None:
            sharpness.climb()
            optimizer.zero_grad()
            torch.set_rng_state(generator)
            nn.functional.cross_entropy(model(x), y).backward()
            sharpness.descend()
        optimizer.step()
    return model.state_dict()


def test_a_radius_of_zero_is_the_base_optimizer_bit_for_bit():
    plain, zero, some = train(make_model(), None), train(make_model(), 0.0), train(make_model(), 0.1)
    assert plain["1.num_batches_tracked"].item() == 6
    for name in plain:  # batch statistics too
        assert torch.equal(plain[name], zero[name]), name
    assert not torch.equal(plain["0.weight"], some["0.weight"])
    assert some["1.num_batches_tracked"].item() == 6


@pytest.mark.parametrize("adaptive", [False, True])
def test_up_and_down_is_exact_even_where_subtraction_is_not(adaptive):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(7, 3) * 10.0**power) for power in range(-6, 6)]
    before = [p.detach().clone() for p in parameters]
    for p in parameters:
        p.grad = torch.randn_like(p)
    sharpness = Sharpness(parameters, 0.7, adaptive=adaptive)
    sharpness.climb()
    assert all(not torch.equal(p, value) for p, value in zip(parameters, before, strict=True))
    sharpness.descend()
    assert all(torch.equal(p, value) for p, value in zip(parameters, before, strict=True))


def test_the_climb_is_as_long_as_the_radius():
    model = make_model()
    model(torch.randn(13, 5)).square().sum().backward()
    model[0].bias.grad = None  # a parameter that took no part
    before = [p.detach().clone() for p in model.parameters()]
    Sharpness(model.parameters(), 0.25).climb()
    moves = [p.detach() - value for p, value in zip(model.parameters(), before, strict=True)]
    assert torch.cat([move.flatten() for move in moves]).norm().item() == pytest.approx(0.25, rel=1e-4)
    assert not moves[1].any()


def test_at_a_flat_place_it_stays():
    parameter = nn.Parameter(torch.ones(2))
    sharpness = Sharpness([parameter], 0.5)
    sharpness.climb()  # no gradient at all
    sharpness.descend()
    parameter.grad = torch.zeros(2)
    sharpness.climb()
    assert torch.equal(parameter, torch.ones(2))


def test_of_minima_equally_deep_it_ends_in_the_flattest():
    # (u v - 1)^2 / 2 is 0 all along u v = 1, where its curvature is u^2 + v^2: 16 at (4, 1/4), least at (1, 1), where it is 2.
    curvatures = []
    for radius in (0.0, 0.2):
        u, v = nn.Parameter(torch.tensor(4.0)), nn.Parameter(torch.tensor(0.3))
        sharpness, optimizer = Sharpness([u, v], radius), torch.optim.SGD([u, v], lr=0.05)
        for _ in range(1500):
            for last in (False, True):
                optimizer.zero_grad()
                ((u * v - 1) ** 2 / 2).backward()
                sharpness.descend() if last else sharpness.climb()
            optimizer.step()
        assert (u * v).item() == pytest.approx(1.0, abs=0.1)
        curvatures.append((u**2 + v**2).item())
    assert curvatures[0] > 15, "plain descent stays where it came down"
    assert curvatures[1] == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("radius", [-0.1, float("inf"), float("nan")])
def test_a_radius_without_meaning_is_refused(radius):
    with pytest.raises(VitrailError, match="at least 0 and finite"):
        Sharpness([], radius)


def test_two_climbs_without_a_descent_are_our_mistake():
    model = make_model()
    model(torch.randn(13, 5)).sum().backward()
    sharpness = Sharpness(model.parameters(), 0.1)
    sharpness.climb()
    with pytest.raises(AssertionError, match="climb twice"):
        sharpness.climb()
