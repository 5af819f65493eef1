"""MoCo v3: tell an image's crops from those of other images  [Chen+ 2021]."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.data.views import Look
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.moco import MoCo, MoCoConfig, assemble
from vitrail.records import to_record
from vitrail.tasks.moco.objective import Contrast
from vitrail.tasks.moco.options import RECIPES, Options
from vitrail.tasks.options import from_recipe
from vitrail.tasks.pretraining import PretrainingTask
from vitrail.tasks.stages import Setup
from vitrail.tasks.views import EVERY, choose_looks, view_loaders, view_settings

AREA = 0.2  # of an image, that a crop has at least; the paper's 0.08 would be 9x9 of 32x32 pixels
KEYS = 256  # among which a model folder without a run is scored

State = Setup[Options, DataSet, None]


class MomentumContrast(PretrainingTask[Options, None, MoCo]):
    name = "moco"
    learns = "which crops are of the same image, among those of a batch"
    recipes = RECIPES

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        chosen = {"momentum": 0.99, "temperature": 0.2, "knn_every": EVERY}
        return from_recipe(chosen, options)

    def wrap(self, backbone: Any, options: Options) -> MoCo:
        width = backbone.head.features_width
        config = MoCoConfig(
            backbone=to_record(backbone.config),
            network=backbone.architecture,
            hidden=min(4096, 4 * width),
            width=min(256, width),
            freeze_patches=backbone.architecture == "vit" and backbone.config.tokenizer == "patch",
        )
        return assemble(backbone, config)

    def describe_method(self, setup: State) -> Iterable[str]:
        options, (height, width) = setup.options, setup.model.image_size
        frozen = "; the projection of patches stays random" if setup.model.config.freeze_patches else ""
        assert options.batch_size != "auto"
        yield f"2 crops of {height}x{width} of each image, to be distinguished from those of {options.batch_size - 1} others{frozen}"
        yield f"temperature {options.temperature:g}; momentum {options.momentum:g} to 1"

    def objective(self, setup: State, *, device: str, world: World) -> Contrast:
        """A loss among the keys of as many images as the run's steps saw, however many `eval` reads at a time."""
        keys = (setup.stored or setup.options).batch_size
        settings = view_settings(setup, find_looks(setup)[0], device=device, world=world)
        return Contrast(setup.model, batch=KEYS if keys == "auto" else keys, **settings)

    def loaders(self, setup: State, world: World) -> tuple[Batches, Batches]:
        return view_loaders(setup, find_looks(setup), world)

    def stored(self, model: MoCo) -> Options:
        options = super().stored(model)
        return replace(options, **self.resolve_method(options, model.backbone.config))


def find_looks(setup: State) -> tuple[Look, ...]:
    """How the two crops are made."""
    return choose_looks(setup.model, flip=bool(setup.options.flip), small=0, area=AREA)


TASK = MomentumContrast()
