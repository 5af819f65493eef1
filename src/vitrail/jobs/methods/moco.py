"""`vitrail pretrain --method moco`: views of a picture are told from those of other pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.data.views import Look
from vitrail.errors import VitrailError
from vitrail.jobs.methods.viewing import EVERY, NOT_OF_VIEWS, choose_looks, show_watch, view_loaders, watched_settings
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.pretraining import Pretraining
from vitrail.jobs.recipes import Recipe
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.moco import MoCoConfig, assemble
from vitrail.records import to_record
from vitrail.report.page import Markup
from vitrail.tasks.moco import Contrast

AREA = 0.2  # of a picture, that a view has at least; the paper's 0.08 would be 9x9 of 32x32 pixels


class MoCo:
    """Satisfies `jobs.methods.method.Method` and `Recounting`."""

    name = "moco"
    does = "which views are of the same picture, among those of a batch"
    recipes: Mapping[str, Recipe] = MappingProxyType(
        {
            "tiny": Recipe(epochs=200, batch=256, lr=4e-3, weight_decay=0.1, warmup=0.1, smoothing=0.0, optimizer="muon"),
            "small": Recipe(epochs=80, batch=256, lr=4e-3, weight_decay=0.1, warmup=0.1, smoothing=0.0, optimizer="muon"),
            "medium": Recipe(epochs=300, batch=1024, lr=6e-4, weight_decay=0.1, warmup=0.13, smoothing=0.0),
            "large": Recipe(epochs=100, batch=4096, lr=2.4e-3, weight_decay=0.1, warmup=0.13, smoothing=0.0),
            "finetune": Recipe(epochs=50, batch=256, lr=3e-4, weight_decay=0.1, warmup=0.1, smoothing=0.0),
            "plain": Recipe(epochs=80, batch=256, lr=1e-3, weight_decay=0.1, warmup=0.1, smoothing=0.0),
        }
    )
    nothing = NOT_OF_VIEWS

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        if options.accumulate > 1:
            raise VitrailError(
                f"--accumulate {options.accumulate}: --method moco tells the pictures of a batch apart, which cannot come in parts"
            )
        chosen = {"momentum": 0.99, "temperature": 0.2, "knn_every": EVERY}
        return {name: value for name, value in chosen.items() if getattr(options, name) == "auto"}

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        width = backbone.head.features_width
        config = MoCoConfig(
            backbone=to_record(backbone.config),
            network=backbone.architecture,
            hidden=min(4096, 4 * width),
            width=min(256, width),
            freeze_patches=backbone.architecture == "vit" and backbone.config.tokenizer == "patch",
        )
        return assemble(backbone, config)

    def looks(self, model: Any, options: TrainOptions) -> tuple[Look, ...]:
        return choose_looks(model, options, small=0, area=AREA)

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> Contrast:
        options = replace(options, **self.settle(options, model.backbone.config))  # `eval` of a mere model has none
        settings = watched_settings(self.looks(model, options), model, data, options, device=device, world=world)
        return Contrast(model, batch=256 if options.batch == "auto" else options.batch, **settings)

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        return view_loaders(self.looks(model, options), model, data, options, bad, world)

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        height, width = model.image_size
        frozen = "; the projection of patches stays random" if model.config.freeze_patches else ""
        yield f"2 views of {height}x{width} of each picture, to be told from those of {whole(options.batch) - 1} others{frozen}"
        yield f"temperature {real(options.temperature):g}; momentum {real(options.momentum):g} to 1"

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        from vitrail.report.watching import show_neighbors  # it imports matplotlib

        yield show_neighbors(model.backbone, data)

    def show_history(self, rows: Sequence[Mapping[str, float | int]], metrics: Mapping[str, float]) -> Iterable[Markup]:
        return show_watch(rows, metrics)


TRADE = Pretraining.by(MoCo())
