"""Row C1: the residual block's shortcut by hand, and its gate. `models/test_parity.py` compares it with another library's."""

import torch
from torch import nn
from torch.testing import assert_close

from vitrail.nn.convolution.basic_block import BasicBlock, pad_shortcut


def test_the_shortcut_skips_pixels_and_adds_empty_channels():
    x = torch.arange(15.0).reshape(1, 1, 3, 5)
    out = pad_shortcut(x, 2, stride=2)
    assert out.tolist() == [[[[0.0, 2.0, 4.0], [10.0, 12.0, 14.0]], [[0.0] * 3] * 2]]
    assert pad_shortcut(x, 1, stride=1) is x


def test_a_gate_acts_before_the_sum():
    torch.manual_seed(0)

    class Closed(nn.Module):
        def forward(self, x):
            return 0 * x

    x = torch.randn(2, 3, 5, 7)
    assert_close(BasicBlock(3, 3, gate=Closed())(x), x.relu())
