"""MoCo v3: an encoder whose view of an image is distinguished from other images by the key that a slower copy of it gives.

b batch, ch channels, h w view, z width of the comparison
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.backbones import Pretrained, PretrainedConfig, build_backbone, resolve_backbone
from vitrail.models.classifier import check_counts
from vitrail.models.twins import read_views, still_copy
from vitrail.nn.heads.projection import ProjectionHead


@dataclass(frozen=True, kw_only=True, slots=True)
class MoCoConfig(PretrainedConfig):
    """A backbone and the two heads behind it."""

    network: str = "vit"  # what kind it is
    hidden: int = 4096
    width: int = 256  # of what is compared
    freeze_patches: bool = True  # whether the projection of patches stays as it was drawn; of a vit only

    def __post_init__(self) -> None:
        object.__setattr__(self, "backbone", resolve_backbone(self.network, self.backbone))
        check_counts(self, ("hidden", "width"))


class MoCo(Pretrained):
    """[Chen+ 2021, MoCo v3, algorithm 1]. `backbone` is the encoder that learns, which is what is used later; `teacher` follows it.

    The projection of patches stays random where the config says so, which the paper found to keep training steady (section 4).
    """

    architecture = "moco"
    steps: Tensor

    def __init__(
        self,
        *,
        backbone: Any,
        projector: ProjectionHead,
        predictor: ProjectionHead,
        teacher: Any,
        teacher_projector: ProjectionHead,
        config: MoCoConfig,
    ) -> None:
        super().__init__(backbone, config)
        self.projector, self.predictor = projector, predictor
        self.teacher, self.teacher_projector = teacher, teacher_projector
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # as DINO's

    @property
    def pairs(self) -> tuple[tuple[nn.Module, nn.Module], ...]:
        """Teacher and student, part by part."""
        return (self.teacher, self.backbone), (self.teacher_projector, self.projector)

    def forward(self, large: Float[Tensor, "b 2 ch h w"]) -> tuple[Float[Tensor, "2 b z"], Float[Tensor, "2 b z"]]:
        """Queries, by the encoder, and keys, by its slower copy, of both views: view by view, since a batch norm is over one."""
        with torch.no_grad():
            keys = [read_views(self.teacher, self.teacher_projector, large[:, [view]]) for view in (0, 1)]
        queries = [self.query(large[:, view])[None] for view in (0, 1)]
        return torch.cat(queries), torch.cat(keys)

    def query(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b z"]:
        return self.predictor(read_views(self.backbone, self.projector, images[:, None])[0])


def build_moco(config: MoCoConfig) -> MoCo:
    """The parts that a config names, put together."""
    return assemble(build_backbone(config.network, config.backbone), config)


def assemble(backbone: Any, config: MoCoConfig) -> MoCo:
    """Heads and a slower copy beside a backbone that is there already, with the weights it has."""
    features = backbone.head.features_width
    projectors = [ProjectionHead(features, hidden=config.hidden, out=config.width, layers=3) for _ in range(2)]
    projectors[1].load_state_dict(projectors[0].state_dict())
    projectors[1].requires_grad_(False)
    teacher = still_copy(backbone)
    if config.freeze_patches and config.network == "vit":
        backbone.tokenizer.requires_grad_(False)
    return MoCo(
        backbone=backbone,
        projector=projectors[0],
        predictor=ProjectionHead(config.width, hidden=config.hidden, out=config.width, layers=2),
        teacher=teacher,
        teacher_projector=projectors[1],
        config=config,
    )
