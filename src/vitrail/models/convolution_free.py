"""The convolution-free segmentation transformer: each patch of a volume is labelled by attention among the patches around it.

b batch, ch channels, k classes, d width, n patches of a block, p voxels of a patch, x y z sides of a volume
"""

from dataclasses import dataclass, field
from types import MappingProxyType

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.parts import position_of
from vitrail.models.volume_segmenter import VolumeSegmenter, build_blocks, check_volume_config
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.patches import unpatchify
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Grid, Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvolutionFreeConfig:
    """Everything that tells one of them from another."""

    width: int = 1024
    depth: int = 7
    heads: int = 4
    mlp_ratio: float = 1.0
    patch: int = 8
    block: int = 3  # patches a side of what is looked at to label the middle one; odd
    image_size: tuple[int, int, int] = (24, 24, 24)
    in_channels: int = 1
    num_classes: int = 2  # the background is one of them
    position: str = "learned_1d"
    position_where: str = "stem"
    attention: str = field(default="softmax", metadata=OMITTED)
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    eps: float = 1e-6
    spacing: tuple[float, float, float] | None = None
    window: tuple[float, float] | None = None
    values: tuple[int, ...] | None = None
    largest: tuple[int, ...] = ()


class ConvolutionFree(VolumeSegmenter):
    """X^0 = [E p_1, ..., E p_n] + E_pos of a block's n patches, blocks of self-attention, and W x_m of the middle one's token is what
    its voxels are  [Karimi+ 2021, section 2.1]. Handed its parts; `build_convolution_free` makes them.

    A volume of several patches is labelled patch by patch, each as the middle of its own block; every patch is embedded once, for all
    blocks that it is in. Beyond the edges the volume goes on with zeros.
    """

    architecture = "convolution_free"

    def __init__(
        self,
        *,
        tokenizer: PatchTokenizer,
        position: Position,
        encoder: PlainEncoder,
        head: nn.Linear,
        config: ConvolutionFreeConfig,
    ) -> None:
        super().__init__(config)
        self.tokenizer, self.position, self.encoder, self.head = tokenizer, position, encoder, head

    def segment(self, volumes: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b k x y z"]:
        block, patch = self.config.block, self.config.patch
        around = F.pad(volumes, [block // 2 * patch] * 6)
        tokens = self.tokenizer(around)
        blocks = cut_blocks(tokens, block)  # (b cells) n d
        found = self.encoder(self.position.embed(Tokens(blocks, grid=(block,) * 3)), position=self.position)
        grid = tuple(side - block + 1 for side in tokens.grid)
        voxels = self.head(found.x[:, found.x.shape[1] // 2])  # (b cells) (k p)
        return unpatchify(voxels.view(volumes.shape[0], -1, voxels.shape[-1]), (patch,) * 3, grid)


def cut_blocks(tokens: Tokens, side: int) -> Float[Tensor, "c n d"]:
    """The tokens of each block of side^3 neighbors: block after block in raster order, their tokens too; c = batch times blocks."""
    x = tokens.x.reshape(tokens.x.shape[0], *tokens.grid, -1)  # b gx gy gz d
    for axis in (1, 2, 3):
        x = x.unfold(axis, side, 1)  # ... d, then a side for each axis
    return x.movedim(4, -1).reshape(-1, side**3, tokens.x.shape[-1])


def build_convolution_free(config: ConvolutionFreeConfig) -> ConvolutionFree:
    """The parts that a config names, put together."""
    check_volume_config(config)
    if config.patch < 1 or config.block < 1 or config.block % 2 == 0:
        raise VitrailError(
            f"patch must be at least 1 and block odd, so that it has a middle: got patch {config.patch}, block {config.block}"
        )
    grid: Grid = (config.block,) * 3
    blocks = build_blocks(config, grid=grid)
    model = ConvolutionFree(
        tokenizer=PatchTokenizer(config.in_channels, config.width, patch=(config.patch,) * 3),
        position=position_of(config, grid=grid),
        encoder=PlainEncoder(blocks, norm=nn.LayerNorm(config.width, eps=config.eps)),
        head=nn.Linear(config.width, config.num_classes * config.patch**3),
        config=config,
    )
    return model.apply(initialize)


PRESETS = MappingProxyType(
    {
        "convfree_base": ConvolutionFreeConfig(),  # as published: blocks of 24^3 voxels  [Karimi+ 2021, section 2.3]
        "convfree_micro": ConvolutionFreeConfig(width=96, depth=4, heads=4, mlp_ratio=2.0, image_size=(32, 32, 32)),
    }
)
