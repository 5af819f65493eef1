"""Row C4: hard attention. Its gradient is compared with the exact one, which enumerates all places of a tiny grid."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.convolution.hard_attention import HardAttention, RunningBaseline, draw_places, log_chance, score_function_loss

LOGITS = torch.tensor([0.5, -1.0, 1.5, 0.0])


def chance(logits, order):
    """Of drawing places in this order, one after the other, without putting any back."""
    shares, left, product = logits.softmax(-1), 1.0, 1.0
    for place in order:
        product, left = product * shares[place] / left, left - shares[place]
    return product


# What is drawn


@pytest.mark.parametrize("count", [1, 2])
def test_places_are_drawn_by_their_chances(count):
    torch.manual_seed(0)
    trials = 20_000
    places = draw_places(LOGITS.expand(trials, -1), count)
    for order in itertools.permutations(range(4), count):
        expected = chance(LOGITS, order).item()
        seen = (places == torch.tensor(order)).all(1).float().mean().item()
        assert abs(seen - expected) < 4 * (expected * (1 - expected) / trials) ** 0.5


def test_log_chance_by_hand_and_in_sum():
    orders = list(itertools.permutations(range(4), 3))
    logs = log_chance(LOGITS.expand(len(orders), -1), torch.tensor(orders))
    assert_close(logs.exp(), torch.stack([chance(LOGITS, order) for order in orders]))
    assert logs.exp().sum().item() == pytest.approx(1.0, abs=1e-5)
    certain = log_chance(torch.tensor([[200.0, 0.0, 1.0]]), torch.tensor([[0, 2]]))  # 1 - p would be 0 in floating point
    assert_close(certain, torch.tensor([0.0, 1.0]).log_softmax(-1)[1:])


@pytest.mark.parametrize("places", [1, 2, 99])
def test_in_evaluation_the_most_likely_places(places):
    torch.manual_seed(0)
    layer, x = HardAttention(3, places=places).eval(), torch.randn(2, 3, 2, 5)
    layer.score.weight.data = torch.tensor([[3.0, 1.0, -2.0]])
    weights = layer.weights([x])
    assert weights.shape == (2, 1, 2, 5)
    assert_close(weights.sum((2, 3)), torch.ones(2, 1))
    chosen = weights.flatten(1).argsort(descending=True)[:, :places]
    expected = torch.stack([x[i].flatten(1)[:, chosen[i]].mean(1) for i in range(2)])
    state = torch.get_rng_state()
    assert_close(layer([x]), expected)
    assert torch.get_rng_state().equal(state), "nothing is drawn"


def test_in_training_one_place_of_the_map_as_it_is():
    torch.manual_seed(0)
    layer, x = HardAttention(3), torch.randn(64, 3, 2, 2)
    x[1:] = x[0]
    out = layer([x])
    cells = x[0].flatten(1).T
    which = (out[:, None] == cells).all(-1)
    assert (which.sum(1) == 1).all(), "a vector of the map, not a mixture"
    assert which.any(0).all(), "and not always the same"


# How it learns


class Problem:
    """A map of 2x2 places, a linear classifier behind one or two of them, and the expected loss with its exact gradient."""

    def __init__(self, places: int, *, offset: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(3)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
        self.layer = HardAttention(3, places=places, entropy_bonus=0.0).double()
        self.layer.score.weight.data = draw(1, 3)
        self.map, self.classifier = draw(3, 2, 2).requires_grad_(), draw(3, 5)
        self.offset = offset
        self.inputs = [self.layer.score.weight, self.map]

    def losses(self, features):
        return self.offset + F.cross_entropy(features @ self.classifier, torch.full((len(features),), 2), reduction="none")

    def exact(self):
        cells = self.map.flatten(1).T
        logits = cells @ self.layer.score.weight[0]
        orders = list(itertools.permutations(range(4), self.layer.places))
        expected = sum(chance(logits, order) * self.losses(cells[list(order)].mean(0)[None])[0] for order in orders)
        return flat(torch.autograd.grad(expected, self.inputs))

    def estimates(self, count, *, baseline=True, surrogate=True):
        """Gradients of `count` batches of 64 images."""
        found = []
        for _ in range(count):
            losses = self.losses(self.layer([self.map.expand(64, -1, -1, -1)]))
            loss = losses.mean()
            if surrogate:
                loss = loss + self.layer.surrogate_loss(losses.detach())
            if not baseline:
                self.layer.baseline.total.zero_()
            found.append(flat(torch.autograd.grad(loss, self.inputs, allow_unused=True)))
        return torch.stack(found)


def flat(gradients):
    return torch.cat([torch.zeros(3) if g is None else g.flatten() for g in gradients])


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("baseline", [True, False])
def test_the_gradient_is_that_of_the_expectation(places, baseline):
    torch.manual_seed(0)
    problem = Problem(places, offset=1.0)
    exact = problem.exact()
    estimates = problem.estimates(200, baseline=baseline)
    errors = estimates.std(0) / 200**0.5
    assert ((estimates.mean(0) - exact).abs() < 4 * errors + 1e-9).all()
    assert (exact[:3].abs() > 10 * errors[:3]).any(), "an estimate of zero would not pass"


def test_without_the_surrogate_it_is_another_gradient():
    torch.manual_seed(0)
    problem = Problem(1)
    estimates = problem.estimates(100, surrogate=False)
    off = (estimates.mean(0) - problem.exact()).abs()
    assert (off[3:] > 10 * estimates.std(0)[3:] / 10).any()


def test_a_baseline_takes_away_variance():
    torch.manual_seed(0)
    problem = Problem(1, offset=3.0)
    problem.estimates(30)  # the running mean has seen some batches
    with_baseline = problem.estimates(100).var(0)[:3].sum()
    without = problem.estimates(100, baseline=False).var(0)[:3].sum()
    assert with_baseline < 0.2 * without


def test_score_function_loss_by_hand():
    logs = torch.tensor([-1.0, -2.0], requires_grad=True)
    losses = torch.tensor([3.0, 7.0], requires_grad=True)
    loss = score_function_loss(losses, logs, torch.tensor(4.0))
    assert loss.item() == pytest.approx((-1 * -1 + 3 * -2) / 2)
    loss.backward()
    assert_close(logs.grad, torch.tensor([-0.5, 1.5]))
    assert losses.grad is None


def test_the_baseline_is_the_running_mean_of_earlier_batches():
    baseline = RunningBaseline()
    assert baseline(torch.tensor([2.0, 4.0])).item() == 0
    assert baseline(torch.tensor([6.0])).item() == pytest.approx(3.0)
    assert baseline(torch.tensor([float("nan"), 1.0])).item() == pytest.approx((0.9 * 3 + 6) / 1.9)
    assert baseline(torch.tensor([0.0])).item() == pytest.approx((0.9 * 3 + 6) / 1.9), "what is not finite is not taken in"
    assert set(baseline.state_dict()) == {"total", "weight"}


def test_the_entropy_bonus_pulls_towards_an_even_distribution():
    torch.manual_seed(0)
    x = torch.randn(8, 3, 2, 2)
    layer = HardAttention(3, entropy_bonus=1.0)
    layer.score.weight.data = torch.tensor([[2.0, 1.0, -2.0]])
    layer([x])
    term = layer.surrogate_loss(torch.zeros(8))
    assert term.item() == 0
    term.backward()
    entropy = lambda weight: torch.distributions.Categorical(logits=x.flatten(2).mT @ weight).entropy().mean()  # noqa: E731
    weight = layer.score.weight.detach()[0].requires_grad_()
    assert_close(layer.score.weight.grad[0], -torch.autograd.grad(entropy(weight), weight)[0])


def test_a_loss_belongs_to_one_pass():
    layer, x = HardAttention(3), torch.randn(2, 3, 2, 2)
    layer([x])
    copy.deepcopy(layer)  # what was drawn is part of a graph, which cannot be copied, and stays behind
    layer.surrogate_loss(torch.zeros(2))
    with pytest.raises(VitrailError, match="once"):
        layer.surrogate_loss(torch.zeros(2))
    with pytest.raises(VitrailError, match="one place at least, got 0"):
        HardAttention(3, places=0)
