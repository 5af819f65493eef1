"""The Swin Transformer, and its second version: windows, shifted every other block, on a grid that shrinks from stage to stage.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier, check_classifier_config, check_counts, check_depths
from vitrail.models.features import find_indices, in_order
from vitrail.models.parts import attention_of
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.hierarchical import HierarchicalEncoder
from vitrail.nn.functional.windows import fit_windows
from vitrail.nn.heads.classification import ClassificationHead
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.relative_table import ContinuousBias, RelativeTable
from vitrail.nn.tokenizers.patch import PatchMerging, PatchTokenizer
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class SwinConfig:
    """Everything that tells one Swin Transformer from another. The second version is its attention, position, norm and key_bias."""

    width: int = 96  # of the first stage; doubles from stage to stage
    depths: tuple[int, ...] = (2, 2, 6, 2)  # blocks of each stage; every second one is shifted
    heads: int | tuple[int, ...] = 3  # of the first stage, doubling as the width does; or of each stage
    window: tuple[int, int] = (7, 7)  # rows and columns, in tokens
    mlp_ratio: float = 4.0
    patch: int = 4
    image_size: tuple[int, int] = (224, 224)
    in_channels: int = 3
    num_classes: int = 1000  # 0: no classifier, features
    eps: float = 1e-5
    drop_path: float = 0.0  # of the last block; rises linearly from 0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention: str = "softmax"
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    position: Literal["relative_table", "continuous_bias", "none"] = "relative_table"
    norm: Literal["pre", "res-post"] = "pre"
    key_bias: bool = True
    pretrained_windows: tuple[int, ...] | None = None  # of each stage, where a continuous bias was learned at another size

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """One map behind each stage; only the last is normed."""
        last = len(self.depths) - 1
        return tuple(
            FeatureInfo(f"layers.{stage}", self.width << stage, self.patch << stage, normed=stage == last)
            for stage in range(last + 1)
        )


class Swin(Classifier):
    """[Liu+ 2021; Liu+ 2022 for the second version]. Handed its parts; `build_swin` makes them from a config."""

    architecture = "swin"

    def __init__(
        self,
        *,
        tokenizer: PatchTokenizer,
        stem_norm: nn.Module,
        encoder: HierarchicalEncoder,
        head: ClassificationHead,
        config: SwinConfig,
        preprocessing: Preprocessing,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(config, preprocessing, labels)
        self.tokenizer, self.stem_norm, self.encoder, self.head = tokenizer, stem_norm, encoder, head

    @property
    def size_multiple(self) -> int:
        return 1  # pads by itself

    def embed(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """Images to tokens: what the first block reads."""
        self.check_images(images)
        tokens = self.tokenizer(images)
        return tokens._replace(x=self.stem_norm(tokens.x))

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """The last stage's tokens on their grid."""
        return self.encoder(self.embed(images))

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """The tokens behind the stages `indices` (negative: from the end), each on its own grid; the last stage's are normed."""
        numbers = find_indices(indices, self.encoder.stages, what="stage")
        return in_order(self.encoder.walk(self.embed(images), keep=numbers)[1], numbers)

    def prune(self, last: int) -> None:
        self.encoder.prune(last)


def build_swin(config: SwinConfig) -> Swin:
    """The parts that a config names, put together."""
    check(config)
    rates = iter(torch.linspace(0, config.drop_path, sum(config.depths), device="cpu").tolist())
    grids, heads = stage_grids(config), stage_heads(config)
    blocks: list[nn.Module] = []
    mergings: dict[int, PatchMerging] = {}
    for stage, depth in enumerate(config.depths):
        width = config.width << stage
        if stage:
            where: Literal["before", "behind"] = "before" if config.norm == "pre" else "behind"
            mergings[len(blocks)] = PatchMerging(width // 2, norm=where, eps=config.eps)
        blocks += [
            EncoderBlock(
                width,
                attention=build_windows(
                    config, stage, width, heads[stage], grids[stage], layer=len(blocks) + number, shifted=number % 2 == 1
                ),
                mlp=FeedForward(width, hidden=int(width * config.mlp_ratio), dropout=config.dropout),
                norm=config.norm,
                drop_path=next(rates),
                dropout=config.dropout,
                eps=config.eps,
            )
            for number in range(depth)
        ]
    last = config.width << (len(config.depths) - 1)
    model = Swin(
        tokenizer=PatchTokenizer(config.in_channels, config.width, patch=(config.patch, config.patch), pad=True),
        stem_norm=nn.LayerNorm(config.width, eps=config.eps),
        encoder=HierarchicalEncoder(blocks, mergings=mergings, norm=nn.LayerNorm(last, eps=config.eps)),
        head=ClassificationHead(last, classes=config.num_classes, pool="mean"),
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )
    model.apply(initialize)
    if config.norm == "res-post":  # every block begins as the identity, as in the published code
        for block in model.encoder.blocks:
            nn.init.zeros_(block.attention_norm.weight)  # type: ignore[arg-type, union-attr]
            nn.init.zeros_(block.mlp_norm.weight)  # type: ignore[arg-type, union-attr]
    return model


def build_windows(
    config: SwinConfig, stage: int, width: int, heads: int, grid: tuple[int, int], *, layer: int, shifted: bool
) -> WindowedAttention:
    """Of one block. A table of offsets is always that of the whole window, and where a grid is smaller its middle is read; a
    continuous bias is about the window that fits the grid of the config's own images, and so is its shift (both as published)."""
    window, shift = config.window, (config.window[0] // 2, config.window[1] // 2) if shifted else (0, 0)
    position: Position | None = None
    if config.position == "relative_table":
        position = RelativeTable(heads, grid=window)
    elif config.position == "continuous_bias":
        _, window, shift = fit_windows(grid, window, shift)
        learned = config.pretrained_windows[stage] if config.pretrained_windows else 0
        position = ContinuousBias(heads, grid=(learned, learned) if learned else window)
    attention = attention_of(
        config,
        width=width,
        heads=heads,
        layer=layer,
        depth=sum(config.depths),
        role="window",
        grid=window,
        key_bias=config.key_bias,
        needs={"mask"} if shifted else (),
    )
    return WindowedAttention(attention, window=window, shift=shift, position=position)


def stage_grids(config: SwinConfig) -> list[tuple[int, int]]:
    """Of images of the config's own size."""
    height, width = (-(-side // config.patch) for side in config.image_size)
    return [(-(-height // 2**stage), -(-width // 2**stage)) for stage in range(len(config.depths))]


def stage_heads(config: SwinConfig) -> list[int]:
    if isinstance(config.heads, int):
        return [config.heads << stage for stage in range(len(config.depths))]
    return list(config.heads)


def check(config: SwinConfig) -> SwinConfig:
    """The config itself, if nothing is wrong with it."""
    check_classifier_config(config)
    check_depths(config.depths)
    check_counts(config, ("width", "patch"))
    if min(config.window) < 1:
        raise VitrailError(f"window must be at least 1 token on each side, got {config.window}")
    for name in ("heads", "pretrained_windows"):
        value = getattr(config, name)
        if isinstance(value, tuple) and len(value) != len(config.depths):
            raise VitrailError(f"{name} must have one number for each stage of depths {config.depths}, got {value}")
    if config.pretrained_windows is not None and config.position != "continuous_bias":
        raise VitrailError(f'pretrained_windows is about position="continuous_bias", got "{config.position}"')
    return config


TINY = SwinConfig()  # [Liu+ 2021, section 3.3]
SIZES = MappingProxyType(
    {
        "tiny": TINY,
        "small": replace(TINY, depths=(2, 2, 18, 2)),
        "base": replace(TINY, width=128, depths=(2, 2, 18, 2), heads=4),
        "large": replace(TINY, width=192, depths=(2, 2, 18, 2), heads=6),
    }
)


def second(config: SwinConfig, window: int, size: tuple[int, int], pretrained: tuple[int, ...] | None = None) -> SwinConfig:
    """The same widths and depths in the second version  [Liu+ 2022, section 3]."""
    return replace(
        config,
        window=(window, window),
        image_size=size,
        attention="cosine",
        position="continuous_bias",
        norm="res-post",
        key_bias=False,
        pretrained_windows=pretrained,
    )


LEARNED = (12, 12, 12, 6)  # windows at 192 pixels
SMALL_IMAGES = SwinConfig(
    width=32, depths=(2, 2, 2), heads=2, window=(4, 4), mlp_ratio=2.0, patch=2, image_size=(32, 32), num_classes=10
)
PRESETS = MappingProxyType(
    {
        **{f"swin_{name}_patch4_window7_224": size for name, size in SIZES.items()},
        **{
            f"swin_{name}_patch4_window12_384": replace(SIZES[name], window=(12, 12), image_size=(384, 384))
            for name in ("base", "large")
        },
        **{
            f"swinv2_{name}_window{window}_256": second(SIZES[name], window, (256, 256))
            for name in ("tiny", "small", "base")
            for window in (8, 16)
        },
        **{f"swinv2_{name}_window12_192": second(SIZES[name], 12, (192, 192)) for name in ("base", "large")},
        **{
            f"swinv2_{name}_window12to{window}_192to{side}": second(SIZES[name], window, (side, side), LEARNED)
            for name in ("base", "large")
            for window, side in ((16, 256), (24, 384))
        },
        # For 28 to 64 pixels and datasets of thousands, on two cores.
        "swin_nano_patch2_window4_32": SMALL_IMAGES,
        "swin_micro_patch4_window4_64": replace(SMALL_IMAGES, width=48, heads=3, patch=4, image_size=(64, 64)),
        "swinv2_nano_window4_32": second(SMALL_IMAGES, 4, (32, 32)),
    }
)
