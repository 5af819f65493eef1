"""Learning to name crops of an image as a teacher does that is an average of oneself.

b batch, ch channels, h w image, k prototypes
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.data.views import ViewBatch
from vitrail.learn.losses.self_distillation import entropies, move_center, self_distillation_loss, sharpen, warm_temperature
from vitrail.learn.metrics.collapse import output_entropies
from vitrail.models.dino import DINO
from vitrail.models.twins import read_views
from vitrail.tasks.views import LearningByTeacher

CENTER = 0.9  # momentum of the center  [Caron+ 2021, appendix]
FIRST, WARMUP = 0.04, 0.3  # the teacher's temperature to begin with, at most; the share of the run in which it changes
FROZEN = 0.02  # share of the run in which prototypes stay as they were drawn; the published code: the first epoch of a hundred


class SelfDistillation(LearningByTeacher):
    """[Caron+ 2021, algorithm 1]."""

    name = "dino"
    model: DINO

    def __init__(self, model: DINO, *, teacher_temperature: float, centered: bool = True, **settings: Any) -> None:
        """`teacher_temperature` is that of most of the run; without `centered` nothing keeps the teacher from giving all the same output."""
        super().__init__(model, **settings)
        self.last_temperature, self.centered = teacher_temperature, centered
        self.teacher_temperature = teacher_temperature
        self.outputs: list[Tensor] = []

    def before_step(self, done: float) -> None:
        super().before_step(done)
        last = self.last_temperature
        self.teacher_temperature = warm_temperature(min(FIRST, last), last, done, warmup=WARMUP)
        self.model.student_head.learning = 0.0 if done < FROZEN else 1.0
        self.outputs.clear()

    def loss(self, batch: ViewBatch) -> Tensor:
        student, teacher = self.train_forward(batch.large, batch.small)
        self.outputs.append(teacher.detach())
        taught = sharpen(teacher, self.model.center, self.teacher_temperature)
        return self_distillation_loss(student, taught, temperature=self.temperature)

    def after_step(self) -> None:
        """The center moves once a step, however many parts the batch was cut into; over processes buffers are averaged by the loop."""
        super().after_step()
        if self.centered:
            every = torch.cat([outputs.flatten(0, 1) for outputs in self.outputs])
            self.model.center.copy_(move_center(self.model.center, every.float().mean(0), momentum=CENTER))

    def watch(self, batches: Iterable[tuple[Batch, Tensor, Tensor]]) -> dict[str, float]:
        model, k = self.model, self.model.config.prototypes
        mean, losses, single, count = torch.zeros(k, dtype=torch.float64), 0.0, 0.0, 0
        for _, images, view in batches:
            said = sharpen(
                read_views(model.backbone, model.teacher_head, images[:, None])[0], model.center, self.last_temperature
            )
            logs = (read_views(model.student, model.student_head, view[:, None])[0].float() / self.temperature).log_softmax(-1)
            mean += said.sum(0).double().cpu()
            losses += -(said * logs).sum().item()
            single, count = single + entropies(said).sum().item(), count + len(images)
        losses, single, total, *sums = self.world.mean([losses, single, float(count), *mean.tolist()])
        if not total:
            return {"loss": math.inf, **output_entropies(torch.full((k,), 1 / k), 0.0)}
        shares = torch.tensor(sums, dtype=torch.float64) / total
        return {"loss": losses / total, **output_entropies(shares, single / total)}
