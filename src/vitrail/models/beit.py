"""BEiT: a Vision Transformer that names the visual words of hidden patches.

b batch, ch channels, h w image, c cells, m hidden cells of all images together, k codes
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.backbones import Pretrained, PretrainedConfig, build_backbone, embed_hidden, resolve_patches
from vitrail.models.dvae import MOST_CODES
from vitrail.nn.initialization import initialize


@dataclass(frozen=True, kw_only=True, slots=True)
class BEiTConfig(PretrainedConfig):
    """A backbone and the vocabulary that it predicts. The tokenizer, whose words they are, is a model of its own."""

    codes: int = 8192
    hide: float = 0.4  # share of the patches that is hidden in training

    def __post_init__(self) -> None:
        object.__setattr__(self, "backbone", resolve_patches(self.backbone, self.hide, who="BEiT"))
        if not 2 <= self.codes <= MOST_CODES:
            raise VitrailError(f"a visual vocabulary has from 2 to {MOST_CODES} codes, got {self.codes}")


class BEiT(Pretrained):
    """p(code | x) = softmax(head(encoder(x with a mask token in the place of each hidden patch)))  [Bao+ 2022, section 2.3].

    `norm` stands before the head where the backbone's encoder does not end with one.
    """

    architecture = "beit"

    def __init__(self, *, backbone: Any, norm: nn.LayerNorm | None, head: nn.Linear, config: BEiTConfig) -> None:
        super().__init__(backbone, config)
        self.norm, self.head = norm, head
        self.mask_token = nn.Parameter(torch.empty(backbone.config.width))
        nn.init.trunc_normal_(self.mask_token, std=0.02)

    def forward(self, images: Float[Tensor, "b ch h w"], hidden: Bool[Tensor, "b c"]) -> Float[Tensor, "m k"]:
        """The logits of the hidden cells' codes, image by image in raster order; the head reads no other cell."""
        self.backbone.check_images(images)
        tokens = embed_hidden(self.backbone, images, hidden, self.mask_token)
        x = self.backbone.encoder(tokens, position=self.backbone.position).cells[hidden]
        return self.head(x if self.norm is None else self.norm(x))


def build_beit(config: BEiTConfig) -> BEiT:
    """The parts that a config names, put together."""
    return assemble_beit(build_backbone("vit", config.backbone), config)


def assemble_beit(backbone: Any, config: BEiTConfig) -> BEiT:
    """A head on a backbone that is there already, with the weights it has."""
    width, eps = backbone.config.width, backbone.config.eps
    head = nn.Linear(width, config.codes)
    initialize(head)
    missing = isinstance(backbone.encoder.norm, nn.Identity) and backbone.config.norm == "pre"  # it stands behind the pooling
    norm = nn.LayerNorm(width, eps=eps) if missing else None
    return BEiT(backbone=backbone, norm=norm, head=head, config=config)
