"""Row C4: channel attention against its equation, written out."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from vitrail.nn.convolution.basic_block import SqueezeExcitation


def test_it_is_the_papers_equation():
    torch.manual_seed(0)
    layer, x = SqueezeExcitation(17), torch.randn(2, 17, 3, 5)
    first, second = (weight.detach().numpy() for weight in (layer.squeeze.weight, layer.excite.weight))
    for image, out in zip(x.numpy(), layer(x).detach().numpy(), strict=True):
        z = np.array([channel.sum() / 15 for channel in image])
        s = 1 / (1 + np.exp(-(second @ np.maximum(first @ z, 0))))
        np.testing.assert_allclose(out, image * s[:, None, None], rtol=1e-5, atol=1e-6)


@settings(max_examples=20)
@given(st.integers(0, 2**16), st.sampled_from([0.01, 1.0, 10.0]))
def test_gates_lie_between_0_and_1(seed, scale):
    torch.manual_seed(seed)
    layer, x = SqueezeExcitation(64).double(), scale * torch.randn(3, 64, 2, 3, dtype=torch.float64)
    gates = layer.gates(x)
    assert gates.shape == (3, 64)
    assert ((gates > 0) & (gates < 1)).all()


def test_places_do_not_matter_to_the_gates():
    torch.manual_seed(0)
    layer, x = SqueezeExcitation(8), torch.randn(2, 8, 3, 5)
    shuffled = x.flatten(2)[:, :, torch.randperm(15)].reshape(x.shape)
    assert_close(layer.gates(shuffled), layer.gates(x))
    assert (layer.gates(x)[0] - layer.gates(x)[1]).abs().max() > 1e-3, "but images do"


def test_a_reduction_of_16_with_four_units_at_least():
    assert SqueezeExcitation(16).squeeze.out_features == 4
    assert SqueezeExcitation(128).squeeze.out_features == 8
