"""The discrete VAE: an image as a grid of codes, each a word of a visual vocabulary, and back. What BEiT learns to predict.

b batch, ch channels, h w image, k codes, d width, gh gw grid, c cells
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS
from vitrail.models.model import ImageModel
from vitrail.preprocessing import Preprocessing, neutral


def gumbel_noise(like: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """-log(-log u), u uniform: the arg max of logits with this added is a draw from their softmax  [Jang+ 2017, eq. 1]."""
    return -torch.empty_like(like, dtype=torch.float32).exponential_().log()  # -log u is exponential


def gumbel_softmax(
    logits: Float[Tensor, "b k gh gw"], noise: Float[Tensor, "b k gh gw"], temperature: float | Float[Tensor, ""]
) -> Float[Tensor, "b k gh gw"]:
    """softmax((logits + noise) / temperature) over the codes  [Jang+ 2017, eq. 2]: towards 0 the one-hot vector of the arg max."""
    return ((logits.float() + noise) / temperature).softmax(1)


class PlainResidual(nn.Module):
    """x + f(x), f: relu, 3x3, relu, 1x1, which begins at 0, so that a new block is the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 1)
        nn.init.zeros_(self.second.weight)
        if self.second.bias is not None:
            nn.init.zeros_(self.second.bias)

    def forward(self, x: Float[Tensor, "b d h w"]) -> Float[Tensor, "b d h w"]:
        return x + self.second(F.relu(self.first(F.relu(x))))


MOST_CODES = 65_536
STRIDES = (1, 2, 4, 8, 16, 32)
FINEST = 32  # width of the maps next to the pixels, at least, unless the whole model is narrower


@dataclass(frozen=True, kw_only=True, slots=True)
class DVAEConfig:
    """Everything that tells one discrete VAE from another."""

    width: int = 64
    depth: int = 2  # residual blocks of the encoder, and of the decoder, on the grid of codes
    codes: int = 512  # words of the vocabulary; 8192 in [Ramesh+ 2021]
    stride: int | Literal["auto"] = "auto"  # pixels of a cell's side, the patch of the BEiT that learns from it
    image_size: tuple[int, int] = (32, 32)
    in_channels: int = 3


class DiscreteVAE(ImageModel):
    """q(z|x) = softmax(-s |encoder(x) - codebook[z]|^2) in each cell, x = decoder(codebook[z])  [Ramesh+ 2021, section 2.1].

    Where we differ: in the paper the logits are a layer of their own. As distances to the vectors that the decoder reads they mean
    something from the first step on (docs/tasks/dvae.md has the trial: a fifth less error after as long, with more codes in use).
    Convolutions only: images of any size, whose sides are multiples of the stride. Handed its parts.
    """

    architecture = "dvae"

    def __init__(
        self,
        *,
        encoder: nn.Module,
        codebook: nn.Parameter,
        decoder: nn.Module,
        config: DVAEConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__()
        self.encoder, self.codebook, self.decoder = encoder, codebook, decoder
        self.sharpness = nn.Parameter(torch.zeros(1))  # log s sqrt(d)
        self.config, self.preprocessing = config, preprocessing

    def grid(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Cells of an image of this size."""
        stride = self.config.stride
        assert stride != "auto"
        height, width = size
        if height % stride or width % stride:
            raise VitrailError(f"the sides of an image must be multiples of the stride {stride}, got {height}x{width}")
        return height // stride, width // stride

    def code_logits(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b k gh gw"]:
        """How likely each code is in each cell, before the softmax."""
        if images.ndim != 4 or images.shape[1] != self.config.in_channels:
            raise VitrailError(f"expected images of shape (b, {self.config.in_channels}, h, w), got {tuple(images.shape)}")
        self.grid(tuple(images.shape[2:]))
        x = self.encoder(images)
        near = (
            2 * torch.einsum("bdhw,kd->bkhw", x, self.codebook) - self.codebook.square().sum(1)[:, None, None]
        )  # |x|^2 is all alike
        return near * (self.sharpness.exp() / math.sqrt(self.config.width))

    def forward(
        self, images: Float[Tensor, "b ch h w"], noise: Float[Tensor, "b k gh gw"], temperature: float | Float[Tensor, ""]
    ) -> tuple[Float[Tensor, "b ch h w"], Float[Tensor, "b k gh gw"]]:
        """The image as it is drawn from a relaxed choice of codes, and the logits of that choice."""
        logits = self.code_logits(images)
        return self.draw(gumbel_softmax(logits, noise, temperature)), logits

    def draw(self, shares: Float[Tensor, "b k gh gw"]) -> Float[Tensor, "b ch h w"]:
        """The image from shares of each code in each cell."""
        return self.decoder(torch.einsum("bkhw,kd->bdhw", shares.to(self.codebook.dtype), self.codebook))

    def codes(self, images: Float[Tensor, "b ch h w"]) -> Int[Tensor, "b c"]:
        """The likeliest code of each cell, in raster order."""
        return self.code_logits(images).argmax(1).flatten(1)

    def decode(self, codes: Int[Tensor, "b c"], *, grid: tuple[int, int] | None = None) -> Float[Tensor, "b ch h w"]:
        """The image from a code in each cell; `grid` is that of the model's own images unless said otherwise."""
        grid = self.grid(self.image_size) if grid is None else grid
        if codes.shape[1] != math.prod(grid):
            raise VitrailError(f"a grid of {grid[0]}x{grid[1]} has {math.prod(grid)} codes, got {codes.shape[1]}")
        return self.decoder(self.codebook[codes].mT.reshape(len(codes), -1, *grid))


def build_dvae(config: DVAEConfig) -> DiscreteVAE:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    assert config.stride != "auto"
    width, halvings = config.width, config.stride.bit_length() - 1
    widths = [max(min(FINEST, width), width >> step) for step in range(halvings)][::-1]  # fine maps are narrow: they cost most
    ends = [config.in_channels, *widths] if halvings else [config.in_channels, width]
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for fine, coarse in pairwise(ends):
        kernel, stride = (4, 2) if halvings else (3, 1)
        down += [nn.Conv2d(fine, coarse, kernel, stride=stride, padding=1), nn.ReLU()]
        up = [nn.ReLU(), nn.ConvTranspose2d(coarse, fine, kernel, stride=stride, padding=1), *up]
    blocks = [[PlainResidual(width) for _ in range(config.depth)] for _ in range(2)]
    encoder = nn.Sequential(*down[:-1], *blocks[0], nn.ReLU(), nn.Conv2d(width, width, 1))
    decoder = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), *blocks[1], *up)
    return DiscreteVAE(
        encoder=encoder,
        codebook=nn.Parameter(torch.randn(config.codes, width)),
        decoder=decoder,
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )


def resolve_config(config: DVAEConfig) -> DVAEConfig:
    """The config with its choices made and checked. `auto`: 4 to 8 cells on the shorter side of small images, else a stride of 16."""
    stride = config.stride
    if stride == "auto":
        shorter = min(config.image_size)
        stride = 2 if shorter <= 16 else 4 if shorter <= 32 else 8 if shorter <= 64 else 16
    if stride not in STRIDES:
        raise VitrailError(f"the stride of a discrete VAE is one of {', '.join(map(str, STRIDES))}, got {stride}")
    if config.width < 1 or config.in_channels < 1 or not 0 <= config.depth <= MOST_BLOCKS:
        raise VitrailError(
            f"width and in_channels must be at least 1 and depth from 0 to {MOST_BLOCKS}, "
            f"got {config.width}, {config.in_channels} and {config.depth}"
        )
    if not 2 <= config.codes <= MOST_CODES:
        raise VitrailError(f"a visual vocabulary has from 2 to {MOST_CODES} codes, got {config.codes}")
    if min(config.image_size) < stride or any(side % stride for side in config.image_size):
        raise VitrailError(
            f"the sides of an image must be multiples of the stride {stride}, got {config.image_size[0]}x{config.image_size[1]}"
        )
    return replace(config, stride=stride)


SMALL, BASE = DVAEConfig(), DVAEConfig(width=256, depth=4, codes=8192, image_size=(224, 224))
PRESETS = MappingProxyType(
    {
        "dvae_small": SMALL,
        **{f"dvae_small_stride{stride}": replace(SMALL, stride=stride) for stride in (2, 4, 8, 16)},
        "dvae_base": BASE,
    }
)
