"""The optimizers by name: AdamW unchanged, SGD and Muon by hand; their state resumes by name."""

import pytest
import torch
from torch import Tensor, nn

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.optim.groups import layer_groups
from vitrail.learn.optim.muon import Muon, orthogonalize
from vitrail.learn.optim.optimizers import make_optimizer, set_rate

NAMES = ("adamw", "sgd", "muon")


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return vt.create_model("vit_nano_conv", depth=2, image_size=16, prefix=1)


def take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, *, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        set_rate(optimizer, 0.01 * (step + 1))
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_adamw_is_torchs_fused_one_bit_for_bit():
    ours, theirs = make_model(), make_model()
    take_steps(ours, make_optimizer("adamw", layer_groups(ours, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu"), 4, seed=1)
    reference = torch.optim.AdamW(layer_groups(theirs, 0.05, layer_decay=1.0), lr=0.01, betas=(0.9, 0.999), fused=True)
    take_steps(theirs, reference, 4, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_sgd_by_hand():
    p = nn.Parameter(torch.tensor([[1.0]]))
    optimizer = make_optimizer("sgd", [{"params": [p], "weight_decay": 0.5}], lr=0.1, device_type="cpu")
    p.grad = torch.tensor([[2.0]])
    optimizer.step()  # g = 2 + 0.5 * 1 = 2.5, buffer 2.5, step g + 0.9 * 2.5 = 4.75
    assert p.item() == pytest.approx(1 - 0.475)
    optimizer.step()  # g = 2 + 0.5 * 0.525 = 2.2625, buffer 0.9 * 2.5 + g = 4.5125, step g + 0.9 * 4.5125
    assert p.item() == pytest.approx(0.525 - 0.1 * (2.2625 + 0.9 * 4.5125))


@pytest.mark.parametrize("hidden", [False, True])
def test_a_parameter_without_gradient_does_not_count_its_steps(hidden):
    """What gets its first gradient in the second step moves as if that step were the first."""
    torch.manual_seed(0)
    late, always, alone = (nn.Parameter(torch.randn(3, 2)) for _ in range(3))
    alone.data.copy_(late)
    g = torch.randn(3, 2)
    optimizer = Muon([{"params": [late, always], "hidden": hidden}], 0.1)
    for gradient in (None, g):
        late.grad, always.grad = gradient, torch.randn(3, 2)
        optimizer.step()
    once = Muon([{"params": [alone], "hidden": hidden}], 0.1)
    alone.grad = g
    once.step()
    torch.testing.assert_close(late, alone)
    assert hidden or (optimizer.state[late]["step"].item(), optimizer.state[always]["step"].item()) == (1, 2)


@pytest.mark.parametrize("shape", [(64, 64), (32, 96), (96, 32), (1, 40)])
def test_orthogonalizing_keeps_the_directions_and_evens_out_the_lengths(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(3)).double()
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    inner = left.mT @ orthogonalize(matrix) @ right.mT  # diagonal, and near the identity
    assert (inner - inner.diag().diag()).abs().max() < 1e-8
    lengths = inner.diag()[values > 0.01 * values.norm()]  # five iterations do not bring up what is next to nothing
    assert len(lengths) >= 0.9 * len(values)
    assert lengths.min() > 0.6
    assert lengths.max() < 1.25


def test_muon_by_hand():
    """With one row U V^T is the direction itself: two steps of Nesterov momentum, each of length 0.2 sqrt(c) lr."""
    p, start = nn.Parameter(torch.tensor([[1.0, 2.0, 2.0, 0.0]])), torch.tensor([[1.0, 2.0, 2.0, 0.0]])
    optimizer = Muon([{"params": [p], "weight_decay": 0.5, "hidden": True}], 0.1)
    expected, kept = start.double(), torch.zeros(1, 4).double()
    for gradient in ([[3.0, 0.0, 4.0, 0.0]], [[0.0, 1.0, 0.0, -1.0]]):
        p.grad = torch.tensor(gradient)
        optimizer.step()
        kept = 0.95 * kept + torch.tensor(gradient).double()
        ahead = torch.tensor(gradient).double() + 0.95 * kept
        length = orthogonalize(torch.ones(1, 1)).item()  # of the five iterations on a single value
        expected = 0.95 * expected - 0.1 * 0.2 * 2.0 * length * ahead / ahead.norm()
    torch.testing.assert_close(p.detach().double(), expected, rtol=1e-5, atol=1e-6)


def test_muon_in_bf16_steps_nearly_alike():
    torch.manual_seed(0)
    start, gradient = torch.randn(24, 40), torch.randn(24, 40)
    moved = []
    for dtype in (torch.float32, torch.bfloat16):
        p = nn.Parameter(start.clone())
        optimizer = Muon([{"params": [p], "hidden": True}], 0.1, dtype=dtype)
        p.grad = gradient
        optimizer.step()
        assert p.dtype == optimizer.state[p]["momentum"].dtype == torch.float32
        moved.append((p.detach() - start).flatten())
    assert torch.cosine_similarity(*moved, dim=0) > 0.99
    assert 0.9 < moved[1].norm() / moved[0].norm() < 1.1
    assert not torch.equal(*moved)


def test_muon_takes_hidden_matrices_and_filters_and_leaves_the_rest_to_adamw():
    ours, theirs = make_model(), make_model()
    take_steps(ours, make_optimizer("muon", layer_groups(ours, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu"), 3, seed=1)
    take_steps(
        theirs, make_optimizer("adamw", layer_groups(theirs, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu"), 3, seed=1
    )
    adam = dict(theirs.named_parameters())
    hidden = set()
    for name, parameter in ours.named_parameters():
        if not torch.allclose(parameter, adam[name], rtol=1e-4, atol=1e-6):
            hidden.add(name)
    blocks = {name for name in adam if name.startswith("encoder.blocks") and adam[name].ndim == 2}
    filters = {name for name in adam if name.startswith("tokenizer") and adam[name].ndim == 4}
    assert hidden == blocks | (filters - {"tokenizer.stages.0.weight"})


@pytest.mark.parametrize("name", NAMES)
def test_state_is_tensors_and_goes_on_exactly_from_them(name):
    whole, model = make_model(), make_model()
    take_steps(
        model, first := make_optimizer(name, layer_groups(model, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu"), 3, seed=1
    )
    state = {
        parameter: {key: value.clone() for key, value in first.state[parameter].items()} for parameter in model.parameters()
    }
    assert all(isinstance(value, Tensor) for values in state.values() for value in values.values())
    second = make_optimizer(name, layer_groups(model, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu")
    second.state.update(state)
    take_steps(model, second, 3, seed=2)

    once = make_optimizer(name, layer_groups(whole, 0.05, layer_decay=1.0), lr=0.01, device_type="cpu")
    take_steps(whole, once, 3, seed=1)
    take_steps(whole, once, 3, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_each_layer_moves_by_its_share_of_the_rate(name):
    full, scaled = make_model(), make_model()
    before = {key: p.detach().clone() for key, p in full.named_parameters()}
    take_steps(full, make_optimizer(name, layer_groups(full, 0.0, layer_decay=1.0), lr=0.01, device_type="cpu"), 1, seed=1)
    take_steps(scaled, make_optimizer(name, layer_groups(scaled, 0.0, layer_decay=0.5), lr=0.01, device_type="cpu"), 1, seed=1)
    expected = {"tokenizer": 1 / 8, "encoder.blocks.0": 1 / 4, "encoder.blocks.1": 1 / 2, "encoder.norm": 1.0, "head": 1.0}
    moved = dict(full.named_parameters())
    for key, parameter in scaled.named_parameters():
        for start, share in expected.items():
            if key.startswith(start):
                move, whole = parameter.detach() - before[key], moved[key].detach() - before[key]
                torch.testing.assert_close(move, share * whole, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_each_learns_a_linear_map(name):
    torch.manual_seed(0)
    model, x = nn.Linear(5, 3), torch.randn(64, 5)
    y = x @ torch.randn(5, 3)
    optimizer = make_optimizer(name, layer_groups(model, 0.0, layer_decay=1.0), lr=0.02, device_type="cpu")
    for _ in range(200):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01 * y.square().mean().item()


def test_rates_are_set_from_the_beginning():
    model = make_model()
    optimizer = make_optimizer("adamw", layer_groups(model, 0.1, layer_decay=0.5), lr=0.8, device_type="cpu")
    assert {group["lr"] for group in optimizer.param_groups} == {0.8, 0.4, 0.2, 0.1}


def test_an_unknown_name_is_refused():
    make = getattr(make_optimizer, "__wrapped__", make_optimizer)  # past the annotations' own check
    with pytest.raises(VitrailError, match="must be adamw, sgd or muon, got adam"):
        make("adam", layer_groups(make_model(), 0.0, layer_decay=1.0), lr=0.1, device_type="cpu")
