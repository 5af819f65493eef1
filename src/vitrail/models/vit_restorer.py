"""A plain ViT that gives back an image: patches, encoder, and every token back to its patch, added to the input.

b batch, ch channels, out channels that come out, h w image, h2 w2 the image that comes out
"""

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import MOST_BLOCKS, check_counts
from vitrail.models.parts import Where, attention_of, position_name, position_of, position_where
from vitrail.models.restorer import Restorer, check_restorer_config, step_of_tiles
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.patches import mirror_to_multiple, unpatchify
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Tokens


class ReconstructionHead(nn.Module):
    """unpatchify(z W + b): one linear layer and the inverse of the cut, on any number of axes  [He+ 2022, MAE, section 3; Lin and Heckel 2022]."""

    def __init__(self, width: int, *, channels: int, patch: tuple[int, ...]) -> None:
        super().__init__()
        self.patch = patch
        self.output = nn.Linear(width, channels * math.prod(patch))

    def forward(self, tokens: Tokens) -> Float[Tensor, "b ch *size"]:
        return unpatchify(self.output(tokens.cells), self.patch, tokens.grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class ViTRestorerConfig:
    """Everything that tells one of them from another."""

    width: int
    depth: int
    heads: int
    mlp_ratio: float = 4.0
    patch: int = 8
    image_size: tuple[int, int] = (128, 128)  # that learned positions are made for; other sizes get them resized
    position: str = "conditional"  # means the same on any grid, so that small patches teach it for large images
    position_where: Where = "auto"
    attention: str = "softmax"
    attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    in_channels: int = 3
    out_channels: int = 3
    scale: int = 1  # above 1 the image is enlarged bicubically first
    drop_path: float = 0.0  # of the last block; rises linearly from 0
    last_norm: bool = True  # behind the blocks, as published; without it the head knows how bright a patch is
    eps: float = 1e-6
    degradation: str | None = None  # what it learned to undo


class ViTRestorer(Restorer):
    """x + unpatchify(head(encoder(patches(x))))  [Lin and Heckel 2022, section 3]. Handed its parts; any size, by mirroring."""

    architecture = "vit_restorer"
    first_layer, last_layer = "tokenizer.project", "head.output"

    def __init__(
        self,
        *,
        tokenizer: PatchTokenizer,
        position: Position,
        encoder: PlainEncoder,
        head: ReconstructionHead,
        config: ViTRestorerConfig,
    ) -> None:
        super().__init__(config)
        self.tokenizer, self.position, self.encoder, self.head = tokenizer, position, encoder, head
        self.tile_step = step_of_tiles(config.patch, config.scale)

    def embed(self, images: Float[Tensor, "b ch h2 w2"]) -> Tokens:
        """Images of the output's size to tokens with their positions."""
        return self.position.embed(self.tokenizer(mirror_to_multiple(images, self.config.patch)))

    def forward(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b out h2 w2"]:
        self.check_images(images)
        images = self.enlarge(images)
        found = self.head(self.encoder(self.embed(images), position=self.position))
        return images + found[..., : images.shape[2], : images.shape[3]]


def build_vit_restorer(config: ViTRestorerConfig) -> ViTRestorer:
    """The parts that a config names, put together."""
    config = resolve_config(config)
    tokenizer = PatchTokenizer(config.in_channels, config.width, patch=(config.patch, config.patch))
    grid = tuple(-(-side // config.patch) for side in config.image_size)
    blocks = [
        EncoderBlock(
            config.width,
            attention=attention_of(config, layer=layer, grid=grid),
            mlp=FeedForward(config.width, hidden=int(config.width * config.mlp_ratio)),
            drop_path=rate,
            eps=config.eps,
        )
        for layer, rate in enumerate(torch.linspace(0, config.drop_path, config.depth, device="cpu").tolist())
    ]
    model = ViTRestorer(
        tokenizer=tokenizer,
        position=position_of(config, grid=grid),
        encoder=PlainEncoder(blocks, norm=nn.LayerNorm(config.width, eps=config.eps) if config.last_norm else None),
        head=ReconstructionHead(config.width, channels=config.out_channels, patch=tokenizer.patch),
        config=config,
    ).apply(initialize)
    for parameter in model.head.output.parameters():  # begins as the (enlarged) input
        nn.init.zeros_(parameter)
    return model


def resolve_config(config: ViTRestorerConfig) -> ViTRestorerConfig:
    """The config with its choices made and checked."""
    check_restorer_config(config, residual=True)
    check_counts(config, ("width", "depth", "heads", "patch"))
    if config.depth > MOST_BLOCKS:
        raise VitrailError(f"depth must be at most {MOST_BLOCKS}, got {config.depth}")
    if min(config.image_size) < 1:
        raise VitrailError(f"image_size must be positive, got {config.image_size}")
    where = position_where(config.position, config.position_where)
    return replace(config, position=position_name(config.position), position_where=where)


PRESETS = MappingProxyType(
    {
        "vit_restorer_nano": ViTRestorerConfig(width=64, depth=3, heads=4, mlp_ratio=2.0, patch=4),
        "vit_restorer_tiny": ViTRestorerConfig(width=96, depth=4, heads=4),
        "vit_restorer_small": ViTRestorerConfig(width=192, depth=4, heads=6),
        "vit_restorer_base": ViTRestorerConfig(
            width=384, depth=12, heads=6, patch=10, image_size=(320, 320), position="learned_1d"
        ),
    }
)
