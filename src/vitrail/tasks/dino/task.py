"""DINO: agree with an average of oneself on other crops  [Caron+ 2021]."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.data.views import Look
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.backbones import build_backbone
from vitrail.models.dino import DINO, DINOConfig, assemble
from vitrail.records import to_record
from vitrail.tasks.dino.objective import SelfDistillation
from vitrail.tasks.dino.options import RECIPES, Options
from vitrail.tasks.options import from_recipe
from vitrail.tasks.pretraining import PretrainingTask
from vitrail.tasks.stages import Setup
from vitrail.tasks.views import EVERY, choose_looks, view_loaders, view_settings

AREA = 0.3  # of an image, that a large crop has at least and a small one at most  [Caron+ 2021: 0.25 to 0.4]
ALONE = 0.2  # that a large crop has at least where there are no small ones
SMALL_IMAGES = (
    64  # pixels a side, at most; small crops of them would be bits of texture, and cost more than they teach (docs/log.md)
)
LEAST = 0.1  # that a small crop has at least; the paper's 0.05 would be 7x7 of 32x32 pixels
LARGE_DATA = (
    "medium",
    "large",
)  # recipes as published; the others have fewer steps to average over, and fewer prototypes to fill
DECAY_GROWTH = 10.0  # of the weight decay, 0.04 to 0.4  [Caron+ 2021, section 3.2]

State = Setup[Options, DataSet, None]


class SelfDistillationTask(PretrainingTask[Options, None, DINO]):
    name = "dino"
    learns = "what stays the same in other crops and colors of an image, as an average of oneself sees it"
    recipes = RECIPES

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        small = options.recipe not in LARGE_DATA
        chosen = {
            "views": 0 if min(config.image_size) <= SMALL_IMAGES else 4 if small else 8,
            "prototypes": 256 if small else 65536,
            "momentum": 0.95 if small else 0.996,
            "temperature": 0.1,
            "teacher_temperature": 0.04,
            "knn_every": EVERY,
        }
        return from_recipe(chosen, options)

    def wrap(self, backbone: Any, options: Options) -> DINO:
        if options.weights is None:
            backbone = with_class_token(backbone)
        assert options.prototypes != "auto"
        width = backbone.head.features_width
        config = DINOConfig(
            backbone=to_record(backbone.config),
            network=backbone.architecture,
            prototypes=options.prototypes,
            hidden=min(2048, 4 * width),
            bottleneck=min(256, width),
            batch_norm=options.recipe not in LARGE_DATA,
        )
        return assemble(backbone, config)

    def describe_method(self, setup: State) -> Iterable[str]:
        options, looks = setup.options, find_looks(setup)
        (height, width), more = looks[0].size, ""
        if len(looks) > 2:
            more = f" and {len(looks) - 2} of {looks[2].size[0]}x{looks[2].size[1]}"
        yield f"2 crops of {height}x{width}{more} of each image; {options.prototypes} prototypes"
        temperatures = f"{options.teacher_temperature:g} (teacher) and {options.temperature:g}"
        yield f"temperatures {temperatures}; momentum {options.momentum:g} to 1"

    def plan(self, setup: State) -> Mapping[str, Any]:
        assert setup.options.weight_decay != "auto"
        return {"final_weight_decay": DECAY_GROWTH * setup.options.weight_decay}

    def objective(self, setup: State, *, device: str, world: World) -> SelfDistillation:
        temperature = setup.options.teacher_temperature
        assert temperature != "auto"
        settings = view_settings(setup, find_looks(setup)[0], device=device, world=world)
        return SelfDistillation(setup.model, teacher_temperature=temperature, **settings)

    def loaders(self, setup: State, world: World) -> tuple[Batches, Batches]:
        return view_loaders(setup, find_looks(setup), world)

    def stored(self, model: DINO) -> Options:
        options = super().stored(model)
        return replace(options, **self.resolve_method(options, model.backbone.config))


def find_looks(setup: State) -> tuple[Look, ...]:
    """How crops are made, two large ones first."""
    small = setup.options.views
    assert small != "auto"
    area = AREA if small else ALONE
    return choose_looks(setup.model, flip=bool(setup.options.flip), small=small, area=area, least=LEAST)


def with_class_token(backbone: Any) -> Any:
    """A new backbone of tokens with one that attends to all others, whose attention shows what is learned. Its weights are new.

    Left as it is: one that has such a token, one whose head attends to all others itself (two blocks behind convolutions are too few for a
    token to gather anything: docs/log.md), one without tokens of this kind.
    """
    config = backbone.config
    if backbone.architecture != "vit" or config.pool in ("class", "attention"):
        return backbone
    again = build_backbone("vit", to_record(replace(config, prefix=max(1, config.prefix), pool="class")))
    again.preprocessing = backbone.preprocessing
    return again


TASK = SelfDistillationTask()
