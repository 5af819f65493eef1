"""The Vision Transformer: tokenizer + prefix tokens + position + plain encoder + classification head.

b batch, ch channels, h w image, d width, k classes
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, Classifier, check_classifier_config, check_counts, new_output
from vitrail.models.features import tokens_behind
from vitrail.models.packing import Images, packed_features, padded_features
from vitrail.models.parts import Where, attention_of, position_name, position_of, position_where
from vitrail.models.protocols import FeatureInfo
from vitrail.nn.blocks.encoder_block import EncoderBlock, NormOrder
from vitrail.nn.blocks.feed_forward import Activation, FeedForward
from vitrail.nn.encoders.merging import MergingEncoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import Smoothness
from vitrail.nn.heads.classification import ClassificationHead, Pool
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.learned import Learned1d
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.relative_table import RelativeTable
from vitrail.nn.tokenizers.convolutional import ConvTokenizer, Pooling
from vitrail.nn.tokenizers.dropping import TokenDropping
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.nn.tokenizers.prefix import PrefixTokens
from vitrail.nn.tokenizers.residual import ResidualTokenizer, StemNorm
from vitrail.nn.tokenizers.resnet_stem import ResNetStem, stem_stride
from vitrail.preprocessing import Preprocessing, neutral
from vitrail.ragged import Ragged
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class ViTConfig:
    """Everything that tells one Vision Transformer from another."""

    width: int
    depth: int
    heads: int
    mlp_ratio: float = 4.0
    patch: int | Literal["auto"] = 16  # side of a patch, or total stride of the stem; auto: about an 8x8 grid
    image_size: tuple[int, int] = (224, 224)
    in_channels: int = 3
    num_classes: int = 1000  # 0: no classifier, features
    tokenizer: Literal["patch", "conv", "resnet", "residual"] = "patch"
    tokenizer_layers: int = 3  # convolutions of the conv tokenizer, at least one for each halving
    tokenizer_pooling: Pooling = "overlapping"
    tokenizer_depths: tuple[int, ...] = (3, 4, 9)  # blocks of each stage of the resnet or residual tokenizer
    tokenizer_widths: tuple[int, ...] = field(
        default=(), metadata=OMITTED
    )  # channels of the residual tokenizer's stages but the last
    tokenizer_norm: StemNorm = field(default="batch", metadata=OMITTED)  # of the residual tokenizer
    position: str = "learned_1d"
    position_where: Where = "auto"
    position_antialias: bool = False  # whether learned rows are resized for another grid as DINOv2's with registers are
    position_resize: Smoothness = "bicubic"  # how relative tables are resized for another grid; transformers' BEiT: bilinear
    attention: str = "softmax"
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)  # of the kernel
    prefix: int = 1  # class token first, then that of distillation, then registers
    prefix_rows: bool = True  # whether prefix tokens own rows of the position table
    pool: Pool = "class"
    head_hidden: int | None = None  # width of the head's hidden layer; None: linear
    norm: NormOrder = "pre"
    last_norm: Literal["tokens", "pooled"] = "tokens"  # what the last norm reads: every token, or what pooling made of them
    activation: Activation = "gelu"
    eps: float = 1e-6
    drop_path: float = 0.0  # of the last block; rises linearly from 0
    layer_scale: float | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    merge: int = 0  # tokens that each block merges into others; no weights depend on it
    token_keep: float = 1.0  # share of the image's tokens that the encoder reads in training
    distilled: bool = False  # whether the second prefix token learns from a teacher, through a head of its own

    @property
    def feature_info(self) -> tuple[FeatureInfo, ...]:
        """One map behind each block, all of one size."""
        stride, normed = resolve_patch(self.patch, self.image_size), self.norm != "pre" or self.last_norm == "tokens"
        return tuple(FeatureInfo(f"blocks.{number}", self.width, stride, normed) for number in range(self.depth))


class VisionTransformer(Classifier):
    """[Dosovitskiy+ 2021, eq. 1-4]. Handed its parts; `build_vit` makes them from a config.

    With a distillation token [Touvron+ 2021, DeiT] a second head reads the second prefix token; its answer is the mean of both heads' logits.
    """

    architecture = "vit"

    def __init__(
        self,
        *,
        tokenizer: nn.Module,
        prefix: nn.Module | None,
        position: Position,
        dropping: TokenDropping,
        encoder: PlainEncoder,
        head: ClassificationHead,
        config: ViTConfig,
        preprocessing: Preprocessing,
        labels: tuple[str, ...] | None = None,
        distilled_head: nn.Module | None = None,
    ) -> None:
        super().__init__(config, preprocessing, labels)
        self.tokenizer, self.prefix, self.position = tokenizer, prefix, position
        self.dropping, self.encoder, self.head = dropping, encoder, head
        self.distilled_head = distilled_head

    def embed(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """Images to tokens with their positions: in evaluation, what the first block reads."""
        self.check_images(images)
        tokens = self.tokenizer(images)
        return self.position.embed(tokens if self.prefix is None else self.prefix(tokens))

    def forward_features(self, images: Float[Tensor, "b ch h w"]) -> Tokens:
        """The encoder's tokens; in training only a share `token_keep` of the image's, and `index` says which."""
        return self.encoder(self.dropping(self.embed(images)), position=self.position)

    def forward_head(self, features: Tokens, pre_logits: bool = False) -> Float[Tensor, "b k"]:
        found = super().forward_head(features, pre_logits)
        if self.distilled_head is None:
            return found
        second = pool_distilled(features)
        return (found + (second if pre_logits else self.distilled_head(second))) / 2

    def forward_both(self, images: Float[Tensor, "b ch h w"] | Ragged) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k"]]:
        """The logits of the class token's head and of the distillation token's, which learn from different teachers."""
        if self.distilled_head is None:
            raise VitrailError("this model has no distillation token: it was made with distilled=False")
        if not isinstance(images, Ragged):
            tokens = self.forward_features(images)
            return self.head(tokens), self.distilled_head(pool_distilled(tokens))
        groups, places = packed_features(self, list(images))
        first = torch.cat([self.head(tokens) for tokens in groups])
        second = torch.cat([self.distilled_head(pool_distilled(tokens)) for tokens in groups])
        return first[places], second[places]

    def reset_classifier(self, num_classes: int, labels: Sequence[str] | None = None) -> None:
        super().reset_classifier(num_classes, labels)
        if self.distilled_head is not None:
            self.distilled_head = new_output(self.config.width, num_classes, like=next(self.parameters()))

    def forward(self, images: Float[Tensor, "b ch h w"] | Ragged) -> Float[Tensor, "b k"]:
        return self.forward_packed(list(images)) if isinstance(images, Ragged) else super().forward(images)

    def forward_packed(self, images: Images) -> Float[Tensor, "b k"]:
        """Logits of images of any sizes, which share one sequence and do not see each other  [Dehghani+ 2023, NaViT]."""
        groups, places = packed_features(self, images)
        return torch.cat([self.forward_head(tokens) for tokens in groups])[places]

    def forward_padded(self, images: Images) -> Float[Tensor, "b k"]:
        """The same numbers, by a batch padded to the longest sequence, of which a mask hides the padding."""
        tokens, places = padded_features(self, images)
        return self.forward_head(tokens)[places]

    def forward_intermediates(self, images: Float[Tensor, "b ch h w"], indices: Sequence[int]) -> list[Tokens]:
        """The tokens behind the blocks `indices` (negative: from the end), normed as the last are. None is dropped: maps need all."""
        return tokens_behind(self.encoder, self.embed(images), indices, position=self.position)

    def prune(self, last: int) -> None:
        self.encoder.blocks, self.encoder.norm = self.encoder.blocks[: last + 1], nn.Identity()


def pool_distilled(tokens: Tokens) -> Float[Tensor, "b d"]:
    """The second prefix token."""
    return tokens.x[:, 1]


def build_vit(config: ViTConfig) -> VisionTransformer:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    assert config.patch != "auto"
    tokenizer: PatchTokenizer | ConvTokenizer | ResidualTokenizer | ResNetStem
    if config.tokenizer == "patch":
        tokenizer = PatchTokenizer(config.in_channels, config.width, patch=(config.patch, config.patch))
    elif config.tokenizer == "conv":
        tokenizer = ConvTokenizer(
            config.in_channels,
            config.width,
            stride=config.patch,
            layers=config.tokenizer_layers,
            pooling=config.tokenizer_pooling,
        )
    elif config.tokenizer == "residual":
        tokenizer = ResidualTokenizer(
            config.in_channels,
            config.width,
            widths=config.tokenizer_widths,
            depths=config.tokenizer_depths,
            norm=config.tokenizer_norm,
        )
        if config.patch != tokenizer.stride:
            raise VitrailError(
                f"the residual tokenizer's stages have a stride of {tokenizer.stride}, and patch is {config.patch}"
            )
    else:
        cells, rest = divmod(config.patch, stem_stride(config.tokenizer_depths))
        if rest or not cells:
            raise VitrailError(
                f"the ResNet stem has a stride of {stem_stride(config.tokenizer_depths)}; the patch must be a multiple of it, got {config.patch}"
            )
        tokenizer = ResNetStem(config.in_channels, config.width, depths=config.tokenizer_depths, patch=cells)
    grid = tokenizer.grid(config.image_size)
    rates = torch.linspace(0, config.drop_path, config.depth, device="cpu").tolist()
    blocks = [
        EncoderBlock(
            config.width,
            attention=attention_of(
                config, layer=layer, grid=grid, prefix=config.prefix, needs={"mask"} if config.merge else ()
            ),
            mlp=FeedForward(
                config.width,
                hidden=int(config.width * config.mlp_ratio),
                activation=config.activation,
                dropout=config.dropout,
            ),
            norm=config.norm,
            drop_path=rate,
            layer_scale=config.layer_scale,
            eps=config.eps,
        )
        for layer, rate in enumerate(rates)
    ]
    position = position_of(config, grid=grid, prefix=config.prefix if config.prefix_rows else 0)
    if config.merge and (position.attends or position.enters):
        raise VitrailError(
            f"merge={config.merge}: {config.position} asks in every layer where a token stands, and a merged one has no one place; "
            f"learned and sinusoidal positions at the stem do not"
        )
    if config.position_antialias:
        if not isinstance(position, Learned1d):
            raise VitrailError(f"position_antialias=True is for learned_1d at the stem, got {config.position}")
        position.antialias = True
    for part in position.modules():
        if isinstance(part, RelativeTable):
            part.smoothness = config.position_resize
    last_norm = nn.LayerNorm(config.width, eps=config.eps) if config.norm == "pre" else None
    inner = last_norm if config.last_norm == "tokens" else None
    second: nn.Module | None = None
    if config.distilled:
        second = nn.Linear(config.width, config.num_classes) if config.num_classes else nn.Identity()
    model = VisionTransformer(
        tokenizer=tokenizer,
        prefix=PrefixTokens(config.width, count=config.prefix) if config.prefix else None,
        position=position,
        dropping=TokenDropping(config.token_keep),
        encoder=MergingEncoder(blocks, count=config.merge, norm=inner) if config.merge else PlainEncoder(blocks, norm=inner),
        head=ClassificationHead(
            config.width,
            classes=config.num_classes,
            pool=config.pool,
            hidden=config.head_hidden,
            norm=last_norm if config.last_norm == "pooled" else None,
        ),
        distilled_head=second,
        config=config,
        preprocessing=neutral(config.image_size, config.in_channels),
    )
    return model.apply(initialize)


def resolve_config(config: ViTConfig) -> ViTConfig:
    """The config with its choices made and checked: aliases and `auto` replaced by a number."""
    check_classifier_config(config)
    check_counts(config, ("width", "depth", "heads"))
    if config.depth > MOST_BLOCKS:
        raise VitrailError(f"depth must be at most {MOST_BLOCKS}, got {config.depth}")
    if config.prefix < 0:
        raise VitrailError(f"prefix cannot be negative, got {config.prefix}")
    if config.pool == "class" and not config.prefix:
        raise VitrailError('pool="class" needs a class token: prefix must be at least 1, got 0')
    if config.distilled and config.prefix < 2:
        raise VitrailError(
            f"distilled=True needs a class and a distillation token: prefix must be at least 2, got {config.prefix}"
        )
    if config.distilled and (config.pool != "class" or config.head_hidden is not None or config.last_norm != "tokens"):
        raise VitrailError('distilled=True has two linear heads: pool must be "class", head_hidden None and last_norm "tokens"')
    if config.merge < 0:
        raise VitrailError(f"merge cannot be negative, got {config.merge}")
    patch = resolve_patch(config.patch, config.image_size)
    where = position_where(config.position, config.position_where)
    return replace(config, patch=patch, position=position_name(config.position), position_where=where)


def resolve_patch(patch: int | Literal["auto"], image_size: tuple[int, int]) -> int:
    """auto: the power of two that leaves 4 to 8 tokens on the shorter side."""
    return max(2, 1 << max(0, (min(image_size) - 1) // 8).bit_length()) if patch == "auto" else patch
