"""UNETR: a vision transformer reads a volume's patches, convolutions enlarge what it says at several depths to a label for each voxel.

b batch, ch channels, k classes, d width, x y z sides of a volume, gx gy gz grid of patches
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.parts import position_of
from vitrail.models.volume_segmenter import VolumeSegmenter, build_blocks, check_volume_config
from vitrail.nn.convolution.volumetric import Enlarging, Joining, ResidualVolume
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class UNETRConfig:
    """Everything that tells one UNETR from another."""

    width: int = 768
    depth: int = 12
    heads: int = 12
    mlp_ratio: float = 4.0
    patch: int = 16  # a power of two: the decoder doubles the resolution until it is that of the voxels
    features: int = 16  # channels at the resolution of the voxels; twice as many at each level below
    image_size: tuple[int, int, int] = (96, 96, 96)
    in_channels: int = 1
    num_classes: int = 14  # the background is one of them
    position: str = "learned_1d"
    position_where: str = "stem"
    attention: str = field(default="softmax", metadata=OMITTED)
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    eps: float = 1e-6
    spacing: tuple[float, float, float] | None = None
    window: tuple[float, float] | None = None
    values: tuple[int, ...] | None = None
    largest: tuple[int, ...] = ()


class UNETR(VolumeSegmenter):
    """[Hatamizadeh+ 2022, section 3.1, fig. 2]: z_3, z_6 and z_9, as the blocks leave them, are enlarged to 1/8, 1/4 and 1/2 of the
    resolution, and the last tokens, normed, go up through them to the volume itself. Handed its parts; `build_unetr` makes them.

    With smaller patches there are fewer levels, and the blocks that are read lie evenly below the last. Convolutions have no biases and
    instance norms, as in MONAI; queries, keys and values have biases, as in our other encoders and the published ViT.
    """

    architecture = "unetr"

    def __init__(
        self,
        *,
        tokenizer: PatchTokenizer,
        position: Position,
        encoder: PlainEncoder,
        norm: nn.Module,
        first: nn.Module,
        enlarging: Sequence[nn.Module],
        joining: Sequence[nn.Module],
        last: nn.Module,
        config: UNETRConfig,
    ) -> None:
        super().__init__(config)
        self.tokenizer, self.position, self.encoder, self.norm = tokenizer, position, encoder, norm
        self.first, self.last = first, last
        self.enlarging, self.joining = nn.ModuleList(enlarging), nn.ModuleList(joining)

    def segment(self, volumes: Float[Tensor, "b ch x y z"]) -> Float[Tensor, "b k x y z"]:
        tokens = self.position.embed(self.tokenizer(volumes))
        last, read = self.encoder.walk(tokens, position=self.position, keep=read_blocks(self.config))
        beside = [self.first(volumes), *(enlarge(to_volume(at)) for enlarge, at in zip(self.enlarging, read, strict=True))]
        x = to_volume(last._replace(x=self.norm(last.x)))
        for join in self.joining:
            x = join(x, beside.pop())
        return self.last(x)


def to_volume(tokens: Tokens) -> Float[Tensor, "b d gx gy gz"]:
    return tokens.cells.transpose(1, 2).reshape(tokens.x.shape[0], -1, *tokens.grid)


def levels_of(config: UNETRConfig) -> int:
    """How often the resolution is doubled."""
    if config.patch < 2 or config.patch & (config.patch - 1):
        raise VitrailError(f"the patch of a UNETR must be a power of two, 2 or more, got {config.patch}")
    return config.patch.bit_length() - 1


def read_blocks(config: UNETRConfig) -> list[int]:
    """Numbers, from 0, of the blocks that skip connections read: of 12 blocks with patches of 16 the 3rd, 6th and 9th."""
    levels = levels_of(config)
    return [round(config.depth * level / levels) - 1 for level in range(1, levels)]


def build_unetr(config: UNETRConfig) -> UNETR:
    """The parts that a config names, put together."""
    check_volume_config(config)
    levels = levels_of(config)
    if config.depth < levels or config.features < 1:
        raise VitrailError(
            f"a UNETR with patches of {config.patch} reads {levels} blocks and has at least 1 feature: "
            f"got depth {config.depth}, features {config.features}"
        )
    tokenizer = PatchTokenizer(config.in_channels, config.width, patch=(config.patch,) * 3)
    grid = tokenizer.grid(config.image_size)
    blocks = build_blocks(config, grid=grid)
    widths = [config.features << level for level in range(levels)]  # of each level, from the voxels' down
    model = UNETR(
        tokenizer=tokenizer,
        position=position_of(config, grid=grid),
        encoder=PlainEncoder(blocks),
        norm=nn.LayerNorm(config.width, eps=config.eps),
        first=ResidualVolume(config.in_channels, config.features),
        enlarging=[Enlarging(config.width, widths[level], steps=levels - level) for level in range(1, levels)],
        joining=[Joining(above, width) for above, width in zip([config.width, *widths[:0:-1]], widths[::-1], strict=True)],
        last=nn.Conv3d(config.features, config.num_classes, 1),
        config=config,
    )
    return model.apply(initialize)


PRESETS = MappingProxyType(
    {
        "unetr_base": UNETRConfig(),  # as published: 12 organs and the background, BTCV  [Hatamizadeh+ 2022, section 4.2]
        "unetr_small": UNETRConfig(width=384, depth=8, heads=6, image_size=(64, 64, 64), num_classes=2),
        "unetr_micro": UNETRConfig(
            width=96, depth=6, heads=4, patch=8, features=8, image_size=(64, 64, 32), num_classes=2, mlp_ratio=2.0
        ),
    }
)
