"""Group-equivariant self-attention networks: a lifting tokenizer, group attention at one or more resolutions, invariant pooling.

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
from vitrail.models.classifier import Classifier, check_classifier_config, check_depths
from vitrail.models.features import find_indices, in_order
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.group import GridPooling, GroupEncoder, mean_over_group
from vitrail.nn.groups.attention import GroupAttention, LiftingAttention
from vitrail.nn.groups.convolution import LiftingPatches, RepeatedPixels
from vitrail.nn.groups.group import find_group
from vitrail.nn.heads.classification import ClassificationHead
from vitrail.nn.initialization import initialize
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class GSAConfig:
    """Everything that tells one group self-attention network from another."""

    group: str  # z2, p4, p4m, p8, p12, p16
    width: int  # of every token: one at each cell and element
    heads: int
    depths: tuple[int, ...]  # blocks of each stage; 2x2 pooling between stages
    windows: tuple[int, ...]  # of each stage: side of the neighborhood that attention sees, 0 = the whole grid
    mlp_ratio: float = 2.0
    lift: Literal["patch", "attention"] = "patch"
    patch: int = 2  # side of a patch; behind a lifting attention between pixels, how much is pooled (a power of two)
    overlap: int = 0  # pixels by which a patch reaches beyond its sides, lift="patch" only
    image_size: tuple[int, int] = (28, 28)
    in_channels: int = 1
    num_classes: int = 10  # 0: no classifier, features
    pooling: GridPooling = "mean"  # between stages
    pool: Literal["mean", "attention"] = "attention"  # over group and grid, before the head
    eps: float = 1e-6
    drop_path: float = 0.0  # of the last block; rises linearly from 0
    attention: str = field(default="softmax", metadata=OMITTED)  # where the window is 0; windows have a kernel of their own
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """One map behind each block; the lifting attention between pixels is one more."""
        strides = [self.patch << stage for stage, depth in enumerate(self.depths) for _ in range(depth)]
        if self.lift == "attention":
            strides = [1, *strides]
        return tuple(FeatureInfo(f"blocks.{number}", self.width, stride) for number, stride in enumerate(strides))


class GroupTransformer(Classifier):
    """[Romero+ 2021]. f(g·x) = f(x) for its logits, f(g·x) = g·f(x) for its tokens. Handed its parts by `build_gsa`."""

    architecture = "gsa"

    def __init__(
        self,
        *,
        tokenizer: LiftingPatches | RepeatedPixels,
        encoder: GroupEncoder,
        head: ClassificationHead,
        config: GSAConfig,
        preprocessing: Preprocessing,
    ) -> None:
        super().__init__(config, preprocessing)
        self.tokenizer, self.encoder, self.head = tokenizer, encoder, head

    @property
    def size_multiple(self) -> int:
        stages: int = len(self.config.depths)
        return int(self.config.patch) << (stages - 1)

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """Tokens on the grid (elements, rows, columns)."""
        self.check_images(images)
        return self.encoder(self.tokenizer(images))

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """Behind the blocks `indices` the mean over the group, normed as the last are: f(g·x) = g·f(x) for these maps."""
        self.check_images(images)
        numbers = find_indices(indices, len(self.encoder.blocks), what="block")
        kept = self.encoder.walk(self.tokenizer(images), keep=numbers)[1]
        return in_order([mean_over_group(tokens) for tokens in kept], numbers)

    def prune(self, last: int) -> None:
        self.encoder.prune(last)


def build_gsa(config: GSAConfig) -> GroupTransformer:
    """The parts that a config names, put together; refused where they could not be exactly equivariant."""
    check(config)
    group = find_group(config.group)
    windows = [window for depth, window in zip(config.depths, config.windows, strict=True) for _ in range(depth)]
    halvings = [int(stage > 0 and number == 0) for stage, depth in enumerate(config.depths) for number in range(depth)]
    kinds: list[type[GroupAttention]] = [GroupAttention] * len(windows)
    tokenizer: LiftingPatches | RepeatedPixels
    if config.lift == "patch":
        tokenizer = LiftingPatches(config.in_channels, config.width, group=group, patch=config.patch, overlap=config.overlap)
    else:  # one block more, at the pixels' own resolution
        tokenizer = RepeatedPixels(config.in_channels, config.width, group=group)
        kinds, windows = [LiftingAttention, *kinds], [config.windows[0], *windows]
        halvings = [0, config.patch.bit_length() - 1, *halvings[1:]]
    rates = torch.linspace(0, config.drop_path, len(kinds), device="cpu").tolist()
    blocks = [
        EncoderBlock(
            config.width,
            attention=kind(
                config.width,
                heads=config.heads,
                group=group,
                window=window,
                attention=config.attention,
                options=config.attention_options,
                layer=layer,
                depth=len(kinds),
            ),
            mlp=FeedForward(config.width, hidden=int(config.width * config.mlp_ratio)),
            drop_path=rate,
            eps=config.eps,
        )
        for layer, (kind, window, rate) in enumerate(zip(kinds, windows, rates, strict=True))
    ]
    norm = nn.LayerNorm(config.width, eps=config.eps)
    encoder = GroupEncoder(blocks, halvings=halvings, norm=norm, pooling=config.pooling)
    encoder.grid(tokenizer.grid(config.image_size))
    model = GroupTransformer(
        tokenizer=tokenizer,
        encoder=encoder,
        head=ClassificationHead(config.width, classes=config.num_classes, pool=config.pool),
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )
    model.apply(initialize)
    model.encoder.apply(initialize_by_fan)
    return model


def initialize_by_fan(module: nn.Module) -> None:
    """Normal of 1/sqrt(inputs) for linear layers: at a width of 32 the usual 0.02 would leave a tenth of the variance, and
    learning would take several times as long to begin (docs/log.md)."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)


def needs_square(config: GSAConfig) -> bool:
    """Whether its group turns images by quarters."""
    return find_group(config.group).rotations > 1


def check(config: GSAConfig) -> GSAConfig:
    """The config itself, if nothing is wrong with it."""
    check_classifier_config(config)
    check_depths(config.depths)
    find_group(config.group)
    if len(config.windows) != len(config.depths):
        raise VitrailError(f"windows must have one number for each stage of depths {config.depths}, got {config.windows}")
    if config.width < 1 or config.heads < 1:
        raise VitrailError(f"width and heads must be at least 1, got {config.width} and {config.heads}")
    if config.lift == "attention" and (config.patch < 1 or config.patch.bit_count() != 1 or config.overlap):
        raise VitrailError(
            f'lift="attention" pools pixels 2x2: patch must be a power of two and overlap 0, got {config.patch} and {config.overlap}'
        )
    return config


SMALL = GSAConfig(group="p4", width=32, heads=2, depths=(5,), windows=(0,), patch=4, overlap=2)
# For 28 to 32 pixels: about 45,000 parameters each, because a group adds tokens and no weights but a few phases.
PRESETS = MappingProxyType({f"gsa_{name}_small": replace(SMALL, group=name) for name in ("z2", "p4", "p4m", "p8", "p12")})
