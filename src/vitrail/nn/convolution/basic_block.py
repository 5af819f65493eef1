"""The residual block of narrow convolutional nets, two 3x3 convolutions and a shortcut without parameters; and its gate, channel attention.

b batch, ch channels in, out channels out, d channels, h w sides going in, h2 w2 sides coming out
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def convolution3(in_channels: int, out_channels: int, *, stride: int = 1) -> nn.Conv2d:
    """3x3 without a bias, which the batch norm behind it would take away again; drawn as in [He+ 2015, eq. 14]."""
    layer = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def pad_shortcut(x: Float[Tensor, "b ch h w"], channels: int, *, stride: int) -> Float[Tensor, "b out h2 w2"]:
    """Every stride-th pixel, and zeros for the channels that are new: option A of [He+ 2016, section 3.3]."""
    if stride == 1 and channels == x.shape[1]:
        return x
    return F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, channels - x.shape[1]))


class BasicBlock(nn.Module):
    """relu(shortcut(x) + f(x)), f: 3x3 with the stride, norm, relu, 3x3, norm  [He+ 2016, eq. 1 and fig. 5 left].

    `gate`, if there is one, acts on f(x) before it is added  [Hu+ 2018, fig. 3].
    """

    def __init__(self, in_channels: int, out_channels: int, *, stride: int = 1, gate: nn.Module | None = None) -> None:
        super().__init__()
        self.channels, self.stride = out_channels, stride
        self.first = convolution3(in_channels, out_channels, stride=stride)
        self.first_norm = nn.BatchNorm2d(out_channels)
        self.second = convolution3(out_channels, out_channels)
        self.second_norm = nn.BatchNorm2d(out_channels)
        self.gate = gate if gate is not None else nn.Identity()

    def forward(self, x: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        y = F.relu(self.first_norm(self.first(x)))
        y = self.gate(self.second_norm(self.second(y)))
        return F.relu(pad_shortcut(x, self.channels, stride=self.stride) + y)


REDUCTION = 16  # channels over hidden units: r of [Hu+ 2018, section 3.2]
FEWEST = 4  # hidden units; a sixteenth of a narrow stage would be a single one


class SqueezeExcitation(nn.Module):
    """x · s with s = sigmoid(W_2 relu(W_1 z)), z the mean of each channel  [Hu+ 2018, eq. 2-4]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(channels // REDUCTION, FEWEST)
        self.squeeze = nn.Linear(channels, hidden, bias=False)
        self.excite = nn.Linear(hidden, channels, bias=False)

    def gates(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d"]:
        """How much of each channel goes on, in (0, 1)."""
        return self.excite(F.relu(self.squeeze(x.mean((2, 3))))).sigmoid()

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d h w"]:
        return x * self.gates(x)[:, :, None, None]
