"""SwinIR: restoration with windows of attention, at the image's own resolution from end to end.

b batch, ch channels, out channels that come out, h w image, h2 w2 the image that comes out, d width
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import check_counts, check_depths
from vitrail.models.parts import attention_of
from vitrail.models.restorer import Restorer, check_restorer_config
from vitrail.nn.attention.kernel import Feature
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.convolution.upsampling import SLOPE, Upsampler, build_upsampling, convolution
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import to_maps, to_tokens
from vitrail.nn.functional.patches import mirror_to_multiple
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.relative_table import RelativeTable
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens

Convolutions = Literal[1, 3]


class ResidualGroup(nn.Module):
    """z + conv(blocks(z))  [Liang+ 2021, SwinIR, eq. 7]: what is translation-equivariant behind what is not. Handed its parts."""

    def __init__(self, encoder: PlainEncoder, *, convolution: nn.Module) -> None:
        super().__init__()
        self.encoder, self.convolution = encoder, convolution

    def forward(self, tokens: Tokens) -> Tokens:
        height, width = tokens.grid
        maps: Float[Tensor, "b d h w"] = self.convolution(to_maps(self.encoder(tokens).x, (height, width)))
        return tokens._replace(x=tokens.x + to_tokens(maps))


def closing_convolution(width: int, count: Convolutions) -> nn.Module:
    """One 3x3, or for wide models 3x3, 1x1, 3x3 with a quarter of the channels between them  [Liang+ 2021, section 4.2's code]."""
    if count == 1:
        return convolution(width, width)
    narrow = width // 4
    return nn.Sequential(
        convolution(width, narrow),
        nn.LeakyReLU(SLOPE),
        nn.Conv2d(narrow, narrow, 1),
        nn.LeakyReLU(SLOPE),
        convolution(narrow, width),
    )


MEAN = (0.4488, 0.4371, 0.4040)  # of DIV2K's images, taken away from color and given back
EPS = 1e-5  # of the norms, torch's own


@dataclass(frozen=True, kw_only=True, slots=True)
class SwinIRConfig:
    """Everything that tells one SwinIR from another."""

    width: int
    depths: tuple[int, ...]  # blocks of each residual group
    heads: int
    window: int = 8
    mlp_ratio: float = 2.0
    scale: int = 1
    unshuffle: int = 1  # that many pixels a side become channels of one before the first layer, where the size is kept
    in_channels: int = 3
    out_channels: int = 3
    upsampler: Upsampler = "none"  # none: the size is kept, and what is learned is added to the input
    features: int = 64  # channels while the image is enlarged, by pixelshuffle and nearest_conv
    last_convolutions: Convolutions = 1  # behind each group and behind the last
    over_bicubic: bool = False  # add what is learned to the bicubic enlargement, instead of learning the whole image
    drop_path: float = 0.0  # of the last block; rises linearly from 0
    attention: str = field(default="softmax", metadata=OMITTED)
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    degradation: str | None = None  # what it learned to undo


class SwinIR(Restorer):
    """F_0 = conv(x);  F = F_0 + conv(norm(groups(norm(F_0))));  y = upsampling(F)  [Liang+ 2021, eq. 1-6]. Handed its parts.

    The published JPEG models count pixels up to 255: that is the first weights times 255, the last over 255, and no option here.
    With `unshuffle` u the layers see x with u x u pixels as channels of one [Shi+ 2016, the other way around], which Real-ESRGAN does where
    the size is kept [Wang+ 2021, section 3.3]: windows u times as wide, at a cost u² times as small.
    """

    architecture = "swinir"
    tokenizer = None
    first_layer = "first"

    def __init__(
        self,
        *,
        first: nn.Module,
        first_norm: nn.Module,
        groups: Sequence[ResidualGroup],
        norm: nn.Module,
        after: nn.Module,
        upsampling: nn.Module,
        config: SwinIRConfig,
    ) -> None:
        super().__init__(config)
        self.first, self.first_norm = first, first_norm
        self.groups = nn.ModuleList(groups)
        self.norm, self.after, self.upsampling = norm, after, upsampling
        convolutions = [name for name, module in upsampling.named_modules() if isinstance(module, nn.Conv2d)]
        self.last_layer = f"upsampling.{convolutions[-1]}"
        self.tile_step = config.window * config.unshuffle
        # A block sees across its window; a convolution one pixel, but the closing three together two; bicubic enlarging two.
        closing = 1 if config.last_convolutions == 1 else 2
        through = sum(config.depths) * (config.window - 1) + (len(groups) + 1) * closing
        cells = 1 + through + len(convolutions)
        self.reach = max(2, cells) if config.unshuffle == 1 else (cells + 1) * config.unshuffle - 1

    @property
    def residual(self) -> bool:
        """Whether what the layers give is added to the (enlarged) input."""
        return bool(self.config.over_bicubic or self.config.upsampler == "none")

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        self.check_images(images)
        mean, cell = images.new_tensor(MEAN if images.shape[1] == 3 else (0.0,))[:, None, None], self.config.unshuffle
        shallow = self.first(F.pixel_unshuffle(mirror_to_multiple(images - mean, self.config.window * cell), cell))
        tokens = Tokens(self.first_norm(to_tokens(shallow)), grid=(shallow.shape[2], shallow.shape[3]))
        for group in self.groups:
            tokens = group(tokens)
        deep = self.after(to_maps(self.norm(tokens.x), (shallow.shape[2], shallow.shape[3])))
        height, width = (self.scale * side for side in images.shape[2:])
        out = F.pixel_shuffle(self.upsampling(shallow + deep), cell)[..., :height, :width]
        return out + (self.enlarge(images) if self.residual else mean)


def build_swinir(config: SwinIRConfig) -> SwinIR:
    """The parts that a config names, put together."""
    check(config)
    rates = iter(torch.linspace(0, config.drop_path, sum(config.depths), device="cpu").tolist())
    pixels = config.unshuffle**2
    upsampling = build_upsampling(
        config.upsampler, config.width, out_channels=config.out_channels * pixels, scale=config.scale, features=config.features
    )
    model = SwinIR(
        first=convolution(config.in_channels * pixels, config.width),
        first_norm=nn.LayerNorm(config.width, eps=EPS),
        groups=[
            ResidualGroup(
                PlainEncoder(
                    [build_block(config, number, shifted=bool(number % 2), drop_path=next(rates)) for number in range(depth)]
                ),
                convolution=closing_convolution(config.width, config.last_convolutions),
            )
            for depth in config.depths
        ],
        norm=nn.LayerNorm(config.width, eps=EPS),
        after=closing_convolution(config.width, config.last_convolutions),
        upsampling=upsampling,
        config=config,
    ).apply(initialize)
    if model.residual:  # begins as the (enlarged) input
        for parameter in model.get_submodule(model.last_layer).parameters():
            nn.init.zeros_(parameter)
    return model


def build_block(config: SwinIRConfig, layer: int, *, shifted: bool, drop_path: float) -> EncoderBlock:
    """Block `layer` of a group, as Swin has them: every second one looks at windows that are shifted by half of one."""
    window, shift = (config.window, config.window), (config.window // 2,) * 2 if shifted else (0, 0)
    needs: set[Feature] = {"bias", "mask"} if shifted else {"bias"}
    return EncoderBlock(
        config.width,
        attention=WindowedAttention(
            attention_of(config, layer=layer, depth=max(config.depths), role="window", grid=window, needs=needs),
            window=window,
            shift=(shift[0], shift[1]),
            position=RelativeTable(config.heads, grid=window),
        ),
        mlp=FeedForward(config.width, hidden=int(config.width * config.mlp_ratio)),
        drop_path=drop_path,
        eps=EPS,
    )


def check(config: SwinIRConfig) -> None:
    check_restorer_config(config, residual=True)
    check_depths(config.depths)
    check_counts(config, ("width", "heads", "window", "features", "unshuffle"))
    if int(config.width * config.mlp_ratio) < 1 or (config.width < 4 and config.last_convolutions == 3):
        raise VitrailError(f"a width of {config.width} is too narrow for mlp_ratio {config.mlp_ratio} or three convolutions")
    if config.over_bicubic and config.upsampler == "none":
        raise VitrailError('over_bicubic goes with an upsampler, got upsampler "none"')
    if config.unshuffle > 1 and config.upsampler != "none":
        raise VitrailError(f'unshuffle goes with upsampler "none", got {config.unshuffle} with upsampler "{config.upsampler}"')


# [Liang+ 2021, section 4.1]: six groups of six blocks, 180 channels; four groups and 60 channels for the lightweight ones.
MIDDLE = SwinIRConfig(width=180, depths=(6,) * 6, heads=6, drop_path=0.1)
LIGHT = replace(MIDDLE, width=60, depths=(6,) * 4, upsampler="direct")
# For two cores: few blocks, what is learned on top of bicubic enlarging.
NANO = SwinIRConfig(width=32, depths=(2, 2), heads=2, upsampler="direct", over_bicubic=True)
SMALL = {"nano": NANO, "micro": replace(NANO, width=48, heads=3)}
PRESETS = MappingProxyType(
    {
        **{f"swinir_light_x{scale}": replace(LIGHT, scale=scale) for scale in (2, 3, 4)},
        **{f"swinir_classical_x{scale}": replace(MIDDLE, scale=scale, upsampler="pixelshuffle") for scale in (2, 3, 4, 8)},
        "swinir_real_x4": replace(MIDDLE, scale=4, upsampler="nearest_conv"),
        "swinir_real_large_x4": replace(
            MIDDLE, width=240, depths=(6,) * 9, heads=8, scale=4, upsampler="nearest_conv", last_convolutions=3
        ),
        "swinir_denoise": MIDDLE,
        "swinir_jpeg": replace(MIDDLE, window=7, in_channels=1, out_channels=1),  # 7: JPEG's own blocks are 8x8
        **{f"swinir_{name}_x{scale}": replace(size, scale=scale) for name, size in SMALL.items() for scale in (2, 3, 4)},
        **{f"swinir_{name}": replace(size, upsampler="none", over_bicubic=False) for name, size in SMALL.items()},
    }
)
