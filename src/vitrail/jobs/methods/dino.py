"""`vitrail pretrain --method dino`: views of a picture get the same name from a network and from an average of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.data.views import Look
from vitrail.jobs.methods.viewing import EVERY, NOT_OF_VIEWS, choose_looks, show_watch, view_loaders, watched_settings
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, set_checkpointing, whole
from vitrail.jobs.pretraining import Pretraining
from vitrail.jobs.recipes import Recipe
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.backbones import build_backbone
from vitrail.models.dino import DINOConfig, assemble
from vitrail.records import to_record
from vitrail.report.page import Markup
from vitrail.tasks.dino import SelfDistillation

AREA = 0.3  # of a picture, that a large view has at least and a small one at most  [Caron+ 2021: 0.25 to 0.4]
ALONE = 0.2  # that a large view has at least where there are no small ones
SMALL_PICTURES = (
    64  # pixels a side, at most; small views of them would be bits of texture, and cost more than they teach (docs/log.md)
)
LEAST = 0.1  # that a small view has at least; the paper's 0.05 would be 7x7 of 32x32 pixels
LARGE_DATA = (
    "medium",
    "large",
)  # recipes as published; the others have fewer steps to average over, and fewer prototypes to fill


class DINO:
    """Satisfies `jobs.methods.method.Method` and `Recounting`."""

    name = "dino"
    does = "what stays the same in other crops and colors of a picture, as an average of oneself sees it"
    decay_growth = 10.0  # of the weight decay, 0.04 to 0.4  [Caron+ 2021, section 3.2]
    recipes: Mapping[str, Recipe] = MappingProxyType(
        {
            "tiny": Recipe(epochs=100, batch=128, lr=4e-3, weight_decay=0.04, warmup=0.1, smoothing=0.0, optimizer="muon"),
            "small": Recipe(epochs=50, batch=128, lr=4e-3, weight_decay=0.04, warmup=0.1, smoothing=0.0, optimizer="muon"),
            "medium": Recipe(epochs=100, batch=512, lr=1e-3, weight_decay=0.04, warmup=0.1, smoothing=0.0, drop_path=0.1),
            "large": Recipe(epochs=30, batch=1024, lr=2e-3, weight_decay=0.04, warmup=0.1, smoothing=0.0, drop_path=0.1),
            "finetune": Recipe(epochs=30, batch=128, lr=3e-4, weight_decay=0.04, warmup=0.1, smoothing=0.0),
            "plain": Recipe(epochs=50, batch=128, lr=1e-3, weight_decay=0.04, warmup=0.1, smoothing=0.0),
        }
    )
    nothing = NOT_OF_VIEWS

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        small = options.recipe not in LARGE_DATA
        chosen = {
            "views": 0 if min(config.image_size) <= SMALL_PICTURES else 4 if small else 8,
            "prototypes": 256 if small else 65536,
            "momentum": 0.95 if small else 0.996,
            "temperature": 0.1,
            "teacher_temperature": 0.04,
            "knn_every": EVERY,
        }
        return {name: value for name, value in chosen.items() if getattr(options, name) == "auto"}

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        if options.weights is None:
            backbone = with_class_token(backbone)
            if options.checkpointing:
                set_checkpointing(backbone)
        width = backbone.head.features_width
        config = DINOConfig(
            backbone=to_record(backbone.config),
            network=backbone.architecture,
            prototypes=whole(options.prototypes),
            hidden=min(2048, 4 * width),
            bottleneck=min(256, width),
            batch_norm=options.recipe not in LARGE_DATA,
        )
        return assemble(backbone, config)

    def looks(self, model: Any, options: TrainOptions) -> tuple[Look, ...]:
        small = whole(options.views)
        return choose_looks(model, options, small=small, area=AREA if small else ALONE, least=LEAST)

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> SelfDistillation:
        options = replace(options, **self.settle(options, model.backbone.config))  # `eval` of a mere model has none
        settings = watched_settings(self.looks(model, options), model, data, options, device=device, world=world)
        return SelfDistillation(model, teacher_temperature=real(options.teacher_temperature), **settings)

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        return view_loaders(self.looks(model, options), model, data, options, bad, world)

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        looks = self.looks(model, options)
        small = f" and {len(looks) - 2} of {looks[2].size[0]}x{looks[2].size[1]}" if len(looks) > 2 else ""
        yield f"2 views of {looks[0].size[0]}x{looks[0].size[1]}{small} of each picture; {options.prototypes} prototypes"
        yield (
            f"temperatures {real(options.teacher_temperature):g} (teacher) and {real(options.temperature):g}; "
            f"momentum {real(options.momentum):g} to 1"
        )

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        from vitrail.report.watching import show_class_attention, show_neighbors  # they import matplotlib

        yield show_class_attention(model.backbone, data["val"])
        yield show_neighbors(model.backbone, data)

    def show_history(self, rows: Sequence[Mapping[str, float | int]], metrics: Mapping[str, float]) -> Iterable[Markup]:
        return show_watch(rows, metrics)


def with_class_token(backbone: Any) -> Any:
    """A new backbone of tokens with one that looks at all others, whose attention is the picture of what is learned. Its weights are new.

    Left as it is: one that has such a token, one whose head looks at all others itself (two blocks behind convolutions are too few for a
    token to gather anything: docs/log.md), one without tokens of this kind.
    """
    config = backbone.config
    if backbone.architecture != "vit" or config.pool in ("class", "attention"):
        return backbone
    again = build_backbone("vit", to_record(replace(config, prefix=max(1, config.prefix), pool="class")))
    again.preprocessing = backbone.preprocessing
    return again


TRADE = Pretraining.by(DINO())
