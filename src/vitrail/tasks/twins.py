"""What learning by a teacher that follows its student needs, whatever the two agree on: the average, and the watch over collapse.

b batch, ch channels, h w picture, n pictures, d width
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.loading import Batch, Loader
from vitrail.data.transforms import denormalize, normalize
from vitrail.data.views import Look, make_views
from vitrail.learn.metrics.collapse import feature_spread, tell_collapse
from vitrail.learn.metrics.nearest_neighbors import knn_accuracy
from vitrail.learn.optim.following import follow
from vitrail.learn.optim.schedule import cosine_between
from vitrail.learn.training.sharding import for_training
from vitrail.learn.training.world import World
from vitrail.models.backbones import mean_features


@dataclass(frozen=True, kw_only=True)
class Neighbors:
    """Labelled pictures among which neighbors are sought: each `every` epochs of so many steps."""

    known: Loader  # in their order, as they are
    classes: int
    every: int
    steps: int  # an epoch


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is seen of a model on a split. The latest is the best: neither its loss nor its spread says how good features are."""

    metrics: dict[str, float]
    error: float = math.inf

    @property
    def warning(self) -> str:
        """What is wrong where all pictures have become one."""
        return tell_collapse(self.metrics) or ""


class LearningByTeacher:
    """Satisfies the training loop's Task and Following protocols, but for what a method learns by."""

    name: str
    model: Any
    score = "spread"

    def __init__(
        self,
        model: Any,
        *,
        look: Look,
        momentum: float,
        temperature: float,
        seed: int = 0,
        device: str = "cpu",
        compiled: bool = False,
        world: World | None = None,
        neighbors: Neighbors | None = None,
    ) -> None:
        """`look` is how a picture is changed when the loss is measured, the same way each time; `momentum` that of the beginning."""
        self.model, self.look, self.seed = model, look, seed
        self.start, self.temperature, self.device, self.world = momentum, temperature, torch.device(device), world or World()
        self.neighbors, self.done, self.last = neighbors, 1.0, dict[str, float]()
        self.momentum = momentum
        self.forward: Callable[..., Any] = torch.compile(model) if compiled else model  # saving uses the plain one

    @cached_property
    def train_forward(self) -> Callable[..., Any]:
        """With several processes, the model whose backward pass averages their gradients."""
        return for_training(self.forward, self.model, self.world)

    def before_step(self, done: float) -> None:
        """The teacher follows more and more slowly, and in the end not at all  [Grill+ 2020, BYOL; Caron+ 2021, section 3.2]."""
        self.done, self.momentum = done, cosine_between(self.start, 1.0, done)

    def after_step(self) -> None:
        for teacher, student in self.model.pairs:
            follow(teacher, student, self.momentum)
        self.model.steps += 1

    @abstractmethod
    def watch(self, batches: Iterable[tuple[Batch, Tensor, Tensor]]) -> dict[str, float]:
        """The loss, and what else is measured, of batches, their pictures and one view of each."""

    def evaluate(self, batches: Iterable[Batch]) -> Watched:
        """The loss between pictures as they are and one view of each; how features are spread; now and then neighbors' labels."""
        was_training = self.model.training
        self.model.eval()
        found, labels, indices = [torch.empty(0, self.width)], list[Tensor](), [torch.empty(0, dtype=torch.int64)]

        def seen() -> Iterable[tuple[Batch, Tensor, Tensor]]:
            for batch in batches:
                images = batch.images.to(self.device)
                found.append(self.features(images).cpu())
                indices.append(batch.indices)
                labels.append(batch.labels)
                yield batch, images, self.view(batch)

        with torch.inference_mode():
            metrics = self.watch(seen())
            order, truth = torch.cat(indices), torch.cat(labels) if labels else torch.empty(0, dtype=torch.int64)
            features, truth = (self.world.gather_rows(rows, order)[0] for rows in (torch.cat(found), truth))
            metrics["spread"] = feature_spread(features)
            if self.asks and len(features) and truth.ndim == 1:
                metrics["knn"] = self.ask_neighbors(features, truth)
        self.model.train(was_training)
        self.last = metrics
        return Watched(metrics=metrics)

    @property
    def width(self) -> int:
        return int(self.model.backbone.head.features_width)

    @property
    def asks(self) -> bool:
        """After the first epoch, each so many, and whenever nothing is being trained."""
        if self.neighbors is None or not self.neighbors.every:
            return False
        epoch = int(self.model.steps) // self.neighbors.steps
        return self.done == 1.0 or epoch <= 1 or epoch % self.neighbors.every == 0

    def ask_neighbors(self, features: Float[Tensor, "n d"], truth: Int[Tensor, "n"]) -> float:
        """The share of the pictures that the labels of the nearest training pictures tell rightly."""
        assert self.neighbors is not None
        known, indices = [torch.empty(0, self.width)], [torch.empty(0, dtype=torch.int64)]
        for batch in self.neighbors.known.batches():
            known.append(self.features(batch.images.to(self.device)).cpu())
            indices.append(batch.indices)
        every, order = self.world.gather_rows(torch.cat(known), torch.cat(indices))
        labels = torch.from_numpy(self.neighbors.known.split.labels)[order]
        return knn_accuracy(every, labels, features, truth, classes=self.neighbors.classes)

    def features(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b d"]:
        return mean_features(self.model.backbone, images).float()

    def view(self, batch: Batch) -> Float[Tensor, "b ch y x"]:
        """A picture's view in evaluation, the same each time."""
        preprocessing = self.model.preprocessing
        unit = denormalize(batch.images.cpu(), preprocessing).clamp_(0, 1)
        [view] = make_views(unit, (self.look,), seed=self.seed, epoch=0, indices=batch.indices.cpu().numpy())
        return normalize(view, preprocessing).to(self.device)
