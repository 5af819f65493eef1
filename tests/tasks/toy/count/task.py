"""A toy: how many objects are in an image of `shapes`."""

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

from count.options import Options
from vitrail.data.bad_files import BadFiles
from vitrail.data.box_data import count_objects, find_boxes
from vitrail.data.dataset import Part
from vitrail.data.image_source import image_loader
from vitrail.files import write_table
from vitrail.models.catalogue import create_model
from vitrail.tasks.image_task import ImageTask, choose_size, measure_on, note_bad, sample_images
from vitrail.tasks.options import from_recipe
from vitrail.tasks.stages import Opened, Resolved, Scored, Summary
from vitrail.tasks.task import count_splits, describe_recipe

ROW = {
    "epochs": 2, "batch_size": 16, "lr": 1e-3, "weight_decay": 0.0, "warmup": 0.1, "schedule": "cosine", "clip_grad": 1.0,
    "optimizer": "adamw",
}  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """Counts of a split, in its order."""

    found: np.ndarray
    counts: np.ndarray

    @property
    def metrics(self):
        return {"loss": float(np.mean((self.found - self.counts) ** 2)), "mae": float(np.abs(self.found - self.counts).mean())}

    error = 0.0


class Counting:
    name, score = "count", "mae"

    def __init__(self, model, device, world):
        self.model, self.device, self.world = model, torch.device(device), world

    def loss(self, batch):
        return F.mse_loss(self.model(batch.images)[:, 0], batch.labels.float())

    def evaluate(self, batches):
        self.model.eval()
        with torch.inference_mode():
            rows = [(self.model(batch.images.to(self.device))[:, 0].cpu(), batch.labels, batch.indices) for batch in batches]
        found, counts, indices = (torch.cat(column) for column in zip(*rows, strict=True))
        if self.world.size > 1:
            (counts, _), (found, _) = self.world.gather_rows(counts, indices), self.world.gather_rows(found, indices)
        return Counted(found.numpy(), counts.numpy())


class Count(ImageTask):
    recipes = {"plain": ROW}  # noqa: RUF012

    def open(self, options, opening):
        data = find_boxes(opening.source, image_size=opening.image_size)
        sizes = {"train": options.images, "val": 16, "test": 16}
        parts = {name: Part(split, np.arange(sizes[name])) for name, split in data.splits.items()}
        counted = {name: Part(part, np.arange(len(part)), labels=count_objects(part)) for name, part in parts.items()}
        return Opened(data=replace(data, splits=counted), bad=BadFiles(images=sum(sizes.values()), limit=1.0))

    def resolve(self, options, opened, loaded, resumed):
        chosen = {
            "recipe": "plain", "model": "vit_nano_patch4_32", "image_size": choose_size(None, sample_images(opened.data["train"])), "in_channels": 3, "workers": 0, "flip": False,
            "batch_size": ROW["batch_size"], "lr": ROW["lr"],
        }  # fmt: skip
        missing = {name: value for name, value in chosen.items() if getattr(options, name) in (None, "auto")}
        options = replace(options, **missing, **from_recipe(ROW, options))
        return Resolved(options=options, data=opened.data, extras=None, bad=opened.bad)

    def build(self, resolved, loaded):
        options = resolved.options
        model = create_model(options.model, num_classes=1, image_size=options.image_size, in_channels=options.in_channels)
        model.preprocessing = measure_on(resolved.data["train"], model.preprocessing)
        return model

    def describe(self, setup):
        yield f"{setup.data.name}: {count_splits(setup.data.splits)}"
        yield describe_recipe(setup.options)

    def objective(self, setup, *, device, world):
        return Counting(setup.model, device, world)

    def loader(self, setup, split, world):
        options = setup.options
        return image_loader(
            setup.data[split], setup.model.preprocessing, batch=options.batch_size, shuffle=split == "train", seed=options.seed,
            on_bad=lambda error: note_bad(setup.bad, split, error), rank=world.rank, world=world.size,
        )  # fmt: skip

    def loaders(self, setup, world):
        return self.loader(setup, "train", world), self.loader(setup, "val", world)

    def score(self, setup, split, *, device, world):
        found = Counting(setup.model.to(device), device, world).evaluate(self.loader(setup, split, world).batches())
        return Scored(evaluation=found, split=split, data=setup.data, model=setup.model)

    def write_predictions(self, scored, folder):
        rows = zip(scored.evaluation.counts.tolist(), scored.evaluation.found.tolist(), strict=True)
        write_table(folder / "predictions.csv", [("count", "predicted"), *((count, f"{found:.4f}") for count, found in rows)])

    def summarize(self, setup, scored):
        return Summary(details={"Images": count_splits(scored.data.splits)})

    def stored(self, model):
        return Options(data="", image_size=model.image_size, **ROW)


TASK = Count()
