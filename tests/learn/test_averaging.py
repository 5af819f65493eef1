"""Averaged weights: the recurrence, the warm start, the exchange of weights and exact resumption."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.optim.averaging import Average, warm_decay


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))


def wander(model: nn.Module, steps: int, average: Average | None = None) -> None:
    """Weights, statistics and the count of a batch norm all change, as in training."""
    model.train()
    for _ in range(steps):
        model(torch.randn(7, 3))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter)
        if average is not None:
            average.update()


def bits(model: nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def test_two_updates_by_hand():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    average = Average(model, 0.9)
    for weight in (11.0, 21.0):
        nn.init.constant_(model.weight, weight)
        average.update()
    # decays 1/10 and 2/11: 0.1 * 1 + 0.9 * 11 = 10, then 2/11 * 10 + 9/11 * 21 = 19
    assert average.state()["shadow/weight"].item() == pytest.approx(19.0, rel=1e-6)
    assert model.weight.item() == 21.0, "updating leaves the model alone"


def test_without_warmup_the_decay_is_constant():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 0.0)
    average = Average(model, 0.75, warmup=False)
    nn.init.constant_(model.weight, 1.0)
    for _ in range(3):
        average.update()
    assert average.state()["shadow/weight"].item() == pytest.approx(1 - 0.75**3)


@given(st.floats(0, 0.99999), st.integers(0, 10**7))
def test_warm_decay_rises_to_the_decay(decay, updates):
    assert 0 <= warm_decay(decay, updates) <= warm_decay(decay, updates + 1) <= decay


def test_a_decay_of_zero_follows_the_weights_exactly():
    torch.manual_seed(0)
    model = make_model()
    average = Average(model, 0.0)
    wander(model, 3, average)
    for name, tensor in model.state_dict().items():
        assert torch.equal(average.state()[f"shadow/{name}"], tensor)


def test_statistics_are_averaged_and_counts_copied():
    torch.manual_seed(0)
    model = make_model()
    average = Average(model, 0.99)
    expected = model.state_dict()["1.running_mean"].clone()
    for updates in range(4):
        wander(model, 1, average)
        decay = (1 + updates) / (10 + updates)
        expected = decay * expected + (1 - decay) * model.state_dict()["1.running_mean"]
    torch.testing.assert_close(average.state()["shadow/1.running_mean"], expected)
    assert average.state()["shadow/1.num_batches_tracked"].item() == 4


def test_applied_swaps_in_and_back_bit_for_bit():
    torch.manual_seed(0)
    model = make_model()
    average = Average(model, 0.9)
    wander(model, 5, average)
    with torch.no_grad():
        model[0].weight[0, 0] = -0.0
        model[0].weight[0, 1] = float("nan")
    before, parameters = bits(model), [id(p) for p in model.parameters()]
    with average.applied():
        averaged = {f"shadow/{name}": tensor for name, tensor in model.state_dict().items()}
        assert all(torch.equal(tensor, average.state()[name]) for name, tensor in averaged.items())
        assert bits(model) != before
        wander(model, 1)  # even if something inside changes them
    assert bits(model) == before
    assert [id(p) for p in model.parameters()] == parameters, "an optimizer still holds these"


def test_applied_puts_back_after_an_exception():
    torch.manual_seed(0)
    model = make_model()
    average = Average(model, 0.9)
    wander(model, 5, average)
    before, shadow = bits(model), average.state()["shadow/0.weight"].clone()
    with pytest.raises(KeyboardInterrupt), average.applied():
        raise KeyboardInterrupt
    assert bits(model) == before
    assert torch.equal(average.state()["shadow/0.weight"], shadow)


def test_resumption_is_exact():
    torch.manual_seed(0)
    model = make_model()
    average = Average(model, 0.999)
    wander(model, 4, average)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    stored, generator = {name: tensor.clone() for name, tensor in average.state().items()}, torch.get_rng_state()
    wander(model, 4, average)

    other = make_model()
    resumed = Average(other, 0.999)
    other.load_state_dict(weights)
    resumed.load(stored)
    torch.set_rng_state(generator)
    wander(other, 4, resumed)
    assert average.state().keys() == resumed.state().keys()
    assert all(torch.equal(tensor, resumed.state()[name]) for name, tensor in average.state().items())
    assert resumed.state()["updates"].item() == 8


def test_a_state_of_another_model_is_refused():
    average = Average(make_model(), 0.9)
    with pytest.raises(VitrailError, match=r"another model: shadow/0.bias has shape None, expected \(5,\)"):
        average.load({name: tensor for name, tensor in average.state().items() if name != "shadow/0.bias"})
    with pytest.raises(VitrailError, match=r"shadow/0.bias has shape \(1,\), expected \(5,\)"):
        average.load({**average.state(), "shadow/0.bias": torch.zeros(1)})


@pytest.mark.parametrize("decay", [1.0, -0.1, float("nan")])
def test_a_decay_outside_its_range_is_refused(decay):
    with pytest.raises(VitrailError, match="at least 0 and less than 1"):
        Average(make_model(), decay)


def test_averages_of_a_whole_model_lie_between_its_weights():
    torch.manual_seed(0)
    model = vt.create_model("vit_nano_conv", depth=1, image_size=16)
    first = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    average = Average(model, 0.5, warmup=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter)
    average.update()
    own = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with average.applied():
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.detach(), (first[name] + own[name]) / 2)
