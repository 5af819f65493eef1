"""Adapted layers: the same as before at first, W + scale B A later, the norms of DoRA, and what goes back into the weight."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from vitrail.nn.adapters.lora import LoraLinear, adapt, merge, why_not

LAYERS = {
    "linear": lambda: (nn.Linear(11, 7), torch.randn(2, 5, 11)),
    "without bias": lambda: (nn.Linear(11, 7, bias=False), torch.randn(3, 11)),
    "convolution": lambda: (nn.Conv2d(3, 7, 3, stride=2, padding=1), torch.randn(2, 3, 9, 11)),
    "dilated": lambda: (nn.Conv2d(3, 7, (3, 2), dilation=2, bias=False, padding_mode="reflect", padding=2), torch.randn(2, 3, 9, 11)),
}  # fmt: skip


def shaken(layer):
    """With adapters that add something."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name in ("lora_b", "magnitude"):
                parameter.add_(torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_an_adapted_layer_computes_what_it_did_bit_for_bit(name, dora):
    torch.manual_seed(0)
    layer, x = LAYERS[name]()
    before, names = layer(x), set(layer.state_dict())
    adapted = adapt(layer, rank=2, scale=1.5, dora=dora)
    assert adapted is layer
    assert torch.equal(adapted(x), before)
    assert set(adapted.state_dict()) == names | {"lora_a", "lora_b"} | ({"magnitude"} if dora else set())
    assert {name for name, p in adapted.named_parameters() if not p.requires_grad} == names


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_merged_equals_adapted(name, dora, dtype, tolerance):
    torch.manual_seed(0)
    layer, x = LAYERS[name]()
    kind = type(layer)
    adapted = shaken(adapt(layer.to(dtype), rank=2, scale=1.5, dora=dora))
    plain, x = copy.deepcopy(adapted), x.to(dtype)
    merge(plain)
    assert type(plain) is kind
    assert set(plain.state_dict()) <= {"weight", "bias"}
    assert not torch.allclose(plain.weight, adapted.weight)
    assert_close(plain(x), adapted(x), atol=tolerance, rtol=tolerance)


def test_what_is_added_is_the_product_of_two_thin_matrices():
    layer = shaken(adapt(nn.Linear(11, 7).double(), rank=2, scale=3.0))
    added = layer.merged_weight() - layer.weight
    assert torch.linalg.matrix_rank(added) == 2
    assert_close(added, 3.0 * layer.lora_b @ layer.lora_a)


def test_a_filter_is_moved_by_a_convolution_and_one_of_side_1():
    """[Hu+ 2021's code; PEFT]: the merged filter, convolved, against both one after the other."""
    layer = shaken(adapt(nn.Conv2d(3, 7, 3, padding=1, bias=False).double(), rank=2, scale=0.5))
    x = torch.randn(2, 3, 5, 11).double()
    found = F.conv2d(F.conv2d(x, layer.lora_a, padding=1), 0.5 * layer.lora_b[:, :, None, None])
    assert_close(F.conv2d(x, layer.merged_weight() - layer.weight, padding=1), found)


def test_magnitudes_are_the_norms_of_rows():
    """Whatever A and B do, each row of the merged weight is as long as m says  [Liu+ 2024, eq. 5]."""
    layer = shaken(adapt(nn.Linear(11, 7).double(), rank=2, scale=1.0, dora=True))
    assert_close(layer.merged_weight().norm(dim=1), layer.magnitude.abs())
    direction = layer.weight + layer.lora_b @ layer.lora_a
    cosines = F.cosine_similarity(layer.merged_weight(), direction, dim=1)
    assert_close(cosines.abs(), torch.ones(7).double())


def test_the_norm_is_a_constant_in_the_gradient():
    """[Liu+ 2024, section 4.3]: the gradient of B is m / ||V|| times that of LoRA."""
    torch.manual_seed(0)
    dora, x = adapt(nn.Linear(11, 7).double(), rank=2, scale=1.0, dora=True), torch.randn(3, 11).double()
    with torch.no_grad():
        dora.lora_b.normal_()
    weights = torch.randn(3, 7).double()
    (dora(x) * weights).sum().backward()
    factors = dora.factors().detach()
    assert_close(dora.lora_b.grad, (weights * factors).T @ x @ dora.lora_a.T)
    assert dora.weight.grad is None


def test_a_row_of_zeros_stays_finite():
    layer = nn.Linear(5, 3)
    nn.init.zeros_(layer.weight)
    adapted, x = adapt(layer, rank=2, scale=1.0, dora=True), torch.randn(2, 5)
    adapted(x).sum().backward()
    assert torch.equal(adapted(x), layer.bias.expand(2, 3))
    assert all(p.grad.isfinite().all() for p in adapted.parameters() if p.requires_grad)


@pytest.mark.parametrize("dora", [False, True])
def test_of_a_joined_projection_keys_stay(dora):
    torch.manual_seed(0)
    layer, x = nn.Linear(11, 21).double(), torch.randn(2, 5, 11).double()
    plain = layer(x)
    adapted = adapt(layer, rank=2, scale=1.5, dora=dora, parts=(0, 2))
    assert torch.equal(adapted(x), plain)
    assert adapted.lora_a.shape == (4, 11)
    assert adapted.lora_b.shape == (14, 2)
    q, k, v = shaken(adapted)(x).chunk(3, dim=-1)
    old_q, old_k, old_v = plain.chunk(3, dim=-1)
    assert torch.equal(k, old_k)
    assert not torch.allclose(q, old_q)
    assert not torch.allclose(v, old_v)
    merged = copy.deepcopy(adapted)
    merge(merged)
    assert torch.equal(merged.weight[7:14], adapted.weight[7:14])
    assert_close(merged(x), adapted(x))


def test_parts_learn_apart():
    """Two layers of their own, side by side, are what one joined layer is."""
    torch.manual_seed(0)
    joined, x = shaken(adapt(nn.Linear(11, 21).double(), rank=2, scale=1.5, parts=(0, 2))), torch.randn(2, 11).double()
    outputs = joined(x).chunk(3, dim=-1)
    for number, part in enumerate((0, 2)):
        alone = nn.Linear(11, 7).double()
        alone.load_state_dict({"weight": joined.weight.chunk(3)[part], "bias": joined.bias.chunk(3)[part]})
        adapt(alone, rank=2, scale=1.5)
        alone.lora_a.data, alone.lora_b.data = joined.lora_a.data.chunk(2)[number], joined.lora_b.data.chunk(2)[number]
        assert_close(outputs[part], alone(x))


def test_a_copy_learns_by_itself():
    layer = adapt(nn.Linear(11, 7), rank=2, scale=1.0)
    other = copy.deepcopy(layer)
    assert isinstance(other, LoraLinear)
    shaken(other)
    assert layer.lora_b.abs().sum() == 0


def test_what_cannot_be_adapted_says_why():
    class Own(nn.Linear):
        pass

    assert why_not(nn.Conv2d(4, 4, 3, groups=4)) == "is a convolution in 4 groups"
    assert why_not(Own(3, 3)) == "is a Own"
    assert why_not(adapt(nn.Conv2d(4, 4, 3), rank=1, scale=1.0)) == "is a LoraConv2d"
    assert why_not(nn.Conv2d(4, 4, 3)) is None
