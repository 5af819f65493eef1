"""DINO: a student and its teacher, an average of it, name views of an image by the same prototypes.

b batch, v views, n small views, ch channels, h w large view, k prototypes
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.backbones import Pretrained, PretrainedConfig, build_backbone, resolve_backbone
from vitrail.models.classifier import check_counts
from vitrail.models.twins import read_views, still_copy
from vitrail.nn.heads.projection import PrototypeHead


@dataclass(frozen=True, kw_only=True, slots=True)
class DINOConfig(PretrainedConfig):
    """A backbone and the head behind it."""

    network: str = "vit"  # what kind it is
    prototypes: int = 65536
    hidden: int = 2048
    bottleneck: int = 256
    batch_norm: bool = False  # in the head, between its layers

    def __post_init__(self) -> None:
        object.__setattr__(self, "backbone", resolve_backbone(self.network, self.backbone))
        check_counts(self, ("hidden", "bottleneck"))
        if self.prototypes < 2:
            raise VitrailError(f"prototypes must be at least 2, got {self.prototypes}")


class DINO(Pretrained):
    """[Caron+ 2021, figure 2]. `backbone` is the teacher's network, which is the better one and is used later; `student` learns.

    `center` is the mean of the teacher's outputs, which is taken from them; `steps` counts what was learned from, so that a run that is
    gone on with is measured in the same epochs as one that never stopped.
    """

    architecture = "dino"
    center: Tensor
    steps: Tensor

    def __init__(
        self, *, backbone: Any, student: Any, teacher_head: PrototypeHead, student_head: PrototypeHead, config: DINOConfig
    ) -> None:
        super().__init__(backbone, config)
        self.student, self.student_head, self.teacher_head = student, student_head, teacher_head
        self.register_buffer("center", torch.zeros(config.prototypes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    def pairs(self) -> tuple[tuple[nn.Module, nn.Module], ...]:
        """Teacher and student, part by part."""
        return (self.backbone, self.student), (self.teacher_head, self.student_head)

    def forward(
        self, large: Float[Tensor, "b 2 ch h w"], small: Float[Tensor, "b n ch y x"]
    ) -> tuple[Float[Tensor, "v b k"], Float[Tensor, "2 b k"]]:
        """The student's cosines with the prototypes for every view, the teacher's for the two large ones."""
        with torch.no_grad():
            taught = read_views(self.backbone, self.teacher_head, large)
        seen = read_views(self.student, self.student_head, large)
        if small.shape[1]:
            seen = torch.cat([seen, read_views(self.student, self.student_head, small)])
        return seen, taught


def build_dino(config: DINOConfig) -> DINO:
    """The parts that a config names, put together."""
    return assemble(build_backbone(config.network, config.backbone), config)


def assemble(backbone: Any, config: DINOConfig) -> DINO:
    """A student that is a backbone as it is, with the weights it has, and a teacher that begins as its copy."""
    width = backbone.head.features_width
    heads = [
        PrototypeHead(
            width,
            hidden=config.hidden,
            bottleneck=config.bottleneck,
            prototypes=config.prototypes,
            batch_norm=config.batch_norm,
        )
        for _ in range(2)
    ]
    heads[1].load_state_dict(heads[0].state_dict())
    heads[1].requires_grad_(False)
    teacher = still_copy(backbone)
    return DINO(backbone=teacher, student=backbone, student_head=heads[0], teacher_head=heads[1], config=config)
