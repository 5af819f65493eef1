"""Learning to tell an image's crops from those of other images.

b batch, z width of the comparison
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.image_source import Batch
from vitrail.data.views import ViewBatch
from vitrail.learn.losses.contrast import contrast_loss
from vitrail.models.moco import MoCo
from vitrail.models.twins import read_views
from vitrail.tasks.views import LearningByTeacher


class Contrast(LearningByTeacher):
    """[Chen+ 2021, MoCo v3, algorithm 1]: keys are those of the batch, of all processes."""

    name = "moco"
    model: MoCo

    def __init__(self, model: MoCo, *, batch: int = 256, **settings: Any) -> None:
        """`batch`: among so many keys a query is to find its own in evaluation."""
        super().__init__(model, **settings)
        self.batch = batch

    def loss(self, batch: ViewBatch) -> Tensor:
        """Symmetric: each crop asks for the key of the other."""
        queries, keys = self.train_forward(batch.large)
        (first, own), (second, _) = (self.all_keys(key, batch.indices) for key in keys)
        one, other = (
            contrast_loss(q, k, own, temperature=self.temperature) for q, k in zip(queries, (second, first), strict=True)
        )
        return (one + other) / 2

    def all_keys(self, keys: Float[Tensor, "b z"], indices: Int[Tensor, "b"]) -> tuple[Float[Tensor, "m z"], Int[Tensor, "b"]]:
        """The keys of all processes, which receive no gradient, and where one's own are among them. No image comes twice."""
        if self.world.size == 1:
            return keys, torch.arange(len(keys), device=keys.device)
        every, order = self.world.gather_rows(keys.detach(), indices)
        return every, torch.searchsorted(order, indices)

    def watch(self, batches: Iterable[tuple[Batch, Tensor, Tensor]]) -> dict[str, float]:
        model, found, indices = self.model, list[Tensor](), list[Tensor]()
        for batch, images, view in batches:
            key = read_views(model.teacher, model.teacher_projector, view[:, None])[0]
            found.append(torch.stack([model.query(images), key], dim=1).float().cpu())
            indices.append(batch.indices)
        width = model.config.width
        rows = torch.cat(found) if found else torch.empty(0, 2, width)
        order = torch.cat(indices) if indices else torch.empty(0, dtype=torch.int64)
        rows = self.world.gather_rows(rows, order)[0]
        total = 0.0
        for part in torch.split(rows, self.batch):
            loss = contrast_loss(part[:, 0], part[:, 1], torch.arange(len(part)), temperature=self.temperature)
            total += len(part) * loss.item()
        return {"loss": total / len(rows) if len(rows) else float("inf")}
