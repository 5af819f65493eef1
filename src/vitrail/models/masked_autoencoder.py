"""The masked autoencoder: an encoder reads the patches that are left, a light decoder draws those that are not.

b batch, ch channels, c cells, r cells that are kept, p numbers in a patch
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.backbones import Pretrained, PretrainedConfig, build_backbone, embed_hidden, resolve_patches
from vitrail.models.classifier import MOST_BLOCKS, check_counts
from vitrail.models.parts import POSITIONS, build_position, position_name
from vitrail.nn.attention.build import build_attention
from vitrail.nn.attention.spec import AttentionSpec
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.masking import hidden_from
from vitrail.nn.functional.patches import patchify
from vitrail.nn.initialization import initialize
from vitrail.nn.positions.position import Position
from vitrail.records import OMITTED, Settings
from vitrail.tokens import Grid, Tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class MAEConfig(PretrainedConfig):
    """A backbone and the decoder beside it."""

    decoder_width: int = 512
    decoder_depth: int = 8
    decoder_heads: int = 16
    decoder_position: str = "sinusoidal_2d"
    decoder_attention: str = field(default="softmax", metadata=OMITTED)
    decoder_attention_options: Settings = field(default_factory=dict, hash=False, metadata=OMITTED)
    hide: float = 0.75  # share of the patches that is hidden in training
    mask_tokens: Literal["decoder", "encoder"] = "decoder"  # "encoder": it reads a token for each hidden patch too, the control
    normalize: bool = True  # whether patches are predicted normalized, each by itself
    eps: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "backbone", resolve_patches(self.backbone, self.hide, who="a masked autoencoder"))
        if not 1 <= self.decoder_depth <= MOST_BLOCKS:
            raise VitrailError(f"decoder_depth must be from 1 to {MOST_BLOCKS}, got {self.decoder_depth}")
        check_counts(self, ("decoder_width", "decoder_heads"))


class MaskedAutoencoder(Pretrained):
    """x_hidden = head(decoder([encoder(x_kept); mask tokens]))  [He+ 2022, section 3]. Handed its parts; `build_mae` makes them.

    The tokenizer's patches may have any number of axes.
    """

    architecture = "mae"

    def __init__(
        self,
        *,
        backbone: Any,
        enter: nn.Linear,
        decoder_position: Position,
        decoder: PlainEncoder,
        head: nn.Linear,
        config: MAEConfig,
    ) -> None:
        super().__init__(backbone, config)
        self.enter, self.decoder_position, self.decoder, self.head = enter, decoder_position, decoder, head
        self.mask_token = nn.Parameter(
            torch.empty(enter.in_features if config.mask_tokens == "encoder" else enter.out_features)
        )
        nn.init.normal_(self.mask_token, std=0.02)

    def forward(self, images: Float[Tensor, "b ch *size"], kept: Int[Tensor, "b r"]) -> Float[Tensor, "b c p"]:
        """Every patch as the decoder draws it, from the cells `kept`."""
        return self.draw(self.encode(images, kept))

    def encode(self, images: Float[Tensor, "b ch *size"], kept: Int[Tensor, "b r"]) -> Tokens:
        """The encoder's tokens: of the kept cells, whose numbers are in `index`; in the control of all cells."""
        backbone = self.backbone
        grid = backbone.tokenizer.grid(tuple(images.shape[2:]))
        if self.config.mask_tokens == "encoder":
            tokens = embed_hidden(backbone, images, hidden_from(kept, math.prod(grid)), self.mask_token)
            return backbone.encoder(tokens, position=backbone.position)
        patches = self.patches(images)
        seen = patches.gather(1, kept[..., None].expand(-1, -1, patches.shape[-1]))  # b r p: the rest is not even projected
        tokens = Tokens(backbone.tokenizer.project(seen), grid=grid, index=kept)
        tokens = backbone.position.embed(tokens if backbone.prefix is None else backbone.prefix(tokens))
        return backbone.encoder(tokens, position=backbone.position)

    def draw(self, tokens: Tokens) -> Float[Tensor, "b c p"]:
        """The decoder's patches, all of them: what the encoder has read goes back to its cells, mask tokens stand in the others."""
        every = self.decoder_position.embed(self.restore(tokens))
        return self.head(self.decoder(every, position=self.decoder_position).cells)

    def restore(self, tokens: Tokens) -> Tokens:
        """The prefix and every cell in raster order  [He+ 2022, section 3, "unshuffle"]."""
        x = self.enter(tokens.x)
        if tokens.index is None:
            return tokens._replace(x=x)
        first, cells = x[:, : tokens.prefix], x[:, tokens.prefix :]
        places = tokens.index[..., None].expand(-1, -1, x.shape[-1])
        every = self.mask_token.to(x.dtype).expand(len(x), math.prod(tokens.grid), -1).scatter(1, places, cells)
        return Tokens(torch.cat([first, every], dim=1), grid=tokens.grid, prefix=tokens.prefix)

    def patches(self, images: Float[Tensor, "b ch *size"]) -> Float[Tensor, "b c p"]:
        """Images as the decoder is to draw them, before they are normalized."""
        return patchify(images, self.backbone.tokenizer.patch)


def build_mae(config: MAEConfig) -> MaskedAutoencoder:
    """The parts that a config names, put together."""
    return assemble(build_backbone("vit", config.backbone), config)


def assemble(backbone: Any, config: MAEConfig, *, grid: Grid | None = None) -> MaskedAutoencoder:
    """A decoder beside a backbone that is there already, with the weights it has; `grid`: of cells, if not that of its images."""
    width, tokenizer = config.decoder_width, backbone.tokenizer
    grid = tokenizer.grid(backbone.image_size) if grid is None else grid
    layers = (
        AttentionSpec(
            width=width,
            heads=config.decoder_heads,
            grid=grid,
            prefix=backbone.config.prefix,
            layer=layer,
            depth=config.decoder_depth,
            needs=POSITIONS[position_name(config.decoder_position)].asks,
            options=config.decoder_attention_options,
        )
        for layer in range(config.decoder_depth)
    )
    blocks = [
        EncoderBlock(
            width,
            attention=build_attention(config.decoder_attention, spec),
            mlp=FeedForward(width, hidden=4 * width),
            eps=config.eps,
        )
        for spec in layers
    ]
    parts: dict[str, nn.Module] = {
        "enter": nn.Linear(backbone.config.width, width),
        "decoder": PlainEncoder(blocks, norm=nn.LayerNorm(width, eps=config.eps)),
        "head": nn.Linear(width, tokenizer.project.in_features),
    }
    for part in parts.values():
        part.apply(initialize)
    position = build_position(
        config.decoder_position,
        width=width,
        heads=config.decoder_heads,
        depth=config.decoder_depth,
        grid=grid,
    )
    return MaskedAutoencoder(backbone=backbone, decoder_position=position, config=config, **parts)  # type: ignore[arg-type]
