"""What methods that compare crops of an image share: a teacher that is an average of its student, loaders of crops, and how collapse is
noticed.

b batch, ch channels, h w image, n images, d width
"""

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.data.dataset import DataSet, Part
from vitrail.data.examples import spread
from vitrail.data.image_source import Batch, image_loader
from vitrail.data.loader import Loader
from vitrail.data.transforms import denormalize, normalize
from vitrail.data.views import Look, half_size, looks, make_views, view_loader
from vitrail.learn.metrics.collapse import feature_spread, tell_collapse
from vitrail.learn.metrics.nearest_neighbors import knn_accuracy
from vitrail.learn.optim.following import follow
from vitrail.learn.optim.schedule import cosine_between
from vitrail.learn.training.forward import ForwardObjective, Running
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.backbones import mean_features
from vitrail.models.dino import DINO
from vitrail.models.moco import MoCo
from vitrail.tasks.image_task import make_caches, note_bad

KNOWN = 5000  # labelled images among which neighbors are sought, at most
EVERY = 5  # epochs between two such measurements


@dataclass(frozen=True, kw_only=True)
class Neighbors:
    """Labelled images among which neighbors are sought: each `every` epochs of so many steps."""

    known: Loader[Batch]  # in their order, as they are
    classes: int
    every: int
    steps: int  # per epoch


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is seen of a model on a split. The latest is the best: neither its loss nor its spread says how good features are."""

    metrics: dict[str, float]
    error: float = math.inf

    @property
    def warning(self) -> str:
        """What is wrong where all images have become one."""
        return tell_collapse(self.metrics) or ""


class LearningByTeacher(ForwardObjective):
    """Satisfies the training loop's Objective and Following protocols, but for what a method learns by."""

    name: str
    model: DINO | MoCo
    score = "spread"

    def __init__(
        self,
        model: DINO | MoCo,
        *,
        look: Look,
        momentum: float,
        temperature: float,
        seed: int = 0,
        neighbors: Neighbors | None = None,
        **running: Unpack[Running],
    ) -> None:
        """`look` is how an image is augmented when the loss is measured, the same way each time; `momentum` that of the beginning."""
        super().__init__(model, **running)
        self.look, self.seed = look, seed
        self.start, self.temperature = momentum, temperature
        self.neighbors, self.done = neighbors, 1.0
        self.momentum = momentum

    def before_step(self, done: float) -> None:
        """The teacher follows more and more slowly, and in the end not at all  [Grill+ 2020, BYOL; Caron+ 2021, section 3.2]."""
        self.done, self.momentum = done, cosine_between(self.start, 1.0, done)

    def after_step(self) -> None:
        for teacher, student in self.model.pairs:
            follow(teacher, student, self.momentum)
        self.model.steps += 1

    @abstractmethod
    def watch(self, batches: Iterable[tuple[Batch, Tensor, Tensor]]) -> dict[str, float]:
        """The loss, and what else is measured, of batches, their images and one crop of each."""

    def evaluate(self, batches: Iterable[Batch]) -> Watched:
        """The loss between images as they are and one crop of each; how features are spread; now and then neighbors' labels."""
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
        """The share of the images whose label the nearest training images predict."""
        assert self.neighbors is not None
        known, indices = [torch.empty(0, self.width)], [torch.empty(0, dtype=torch.int64)]
        for batch in self.neighbors.known.batches():
            known.append(self.features(batch.images.to(self.device)).cpu())
            indices.append(batch.indices)
        every, order = self.world.gather_rows(torch.cat(known), torch.cat(indices))
        labels = torch.from_numpy(self.neighbors.known.source.split.labels)[order]
        return knn_accuracy(every, labels, features, truth, classes=self.neighbors.classes)

    def features(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b d"]:
        return mean_features(self.model.backbone, images).float()

    def view(self, batch: Batch) -> Float[Tensor, "b ch y x"]:
        """An image's crop in evaluation, the same each time."""
        preprocessing = self.model.preprocessing
        unit = denormalize(batch.images.cpu(), preprocessing).clamp_(0, 1)
        [view] = make_views(unit, (self.look,), seed=self.seed, epoch=0, indices=batch.indices.cpu().numpy())
        return normalize(view, preprocessing).to(self.device)


def choose_looks(model: DINO | MoCo, *, flip: bool, small: int, area: float, least: float = 0.05) -> tuple[Look, ...]:
    """Those of two large crops and `small` small ones of about half the side."""
    backbone = model.backbone
    half = half_size(backbone.image_size, backbone.size_multiple)
    return looks(backbone.image_size, half, small, mirror=flip, area=area, least=least)


def view_settings(setup: Any, look: Look, *, device: str, world: World) -> dict[str, Any]:
    """What every objective of this kind is given, from the options of a run."""
    options = setup.options
    neighbors = find_neighbors(setup.model, setup.data, world, every=options.knn_every, batch_size=options.batch_size)
    return {
        "look": look, "momentum": options.momentum, "temperature": options.temperature, "seed": options.seed, "device": device,
        "compiled": options.compile, "world": world, "neighbors": neighbors,
    }  # fmt: skip


def view_loaders(setup: Any, wanted: tuple[Look, ...], world: World) -> tuple[Batches, Batches]:
    """Crops of the training images, and validation images as they are; decoded ones are cached."""
    options, data, model, bad = setup.options, setup.data, setup.model, setup.bad
    assert bad is not None
    preprocessing, caches = model.preprocessing, make_caches(options, data, model.preprocessing)
    shared: dict[str, Any] = {
        "batch": options.batch_size, "seed": options.seed, "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    train = view_loader(
        data["train"], preprocessing, wanted=wanted, cache=caches["train"], on_bad=partial(note_bad, bad, "train"), **shared
    )
    return train, image_loader(data["val"], preprocessing, cache=caches["val"], on_bad=partial(note_bad, bad, "val"), **shared)


def find_neighbors(model: DINO | MoCo, data: DataSet, world: World, *, every: int, batch_size: int) -> Neighbors | None:
    """Some training images with their labels, where they have one each; never learned from, but to see what was learned."""
    if not every or len(data.classes) < 2 or data.multi_label:
        return None
    train = data["train"]
    some = Part(train, np.array(spread(len(train), KNOWN)))
    known = image_loader(
        some, model.preprocessing, batch=batch_size, rank=world.rank, world=world.size, on_bad=lambda error: None
    )
    return Neighbors(known=known, classes=len(data.classes), every=every, steps=max(1, len(train) // batch_size))
