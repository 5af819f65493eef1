"""`vitrail pretrain --method mae`: hidden patches are drawn from those that are seen."""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.jobs.classifying import picture_loaders
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.pretraining import NOT_OURS, Pretraining
from vitrail.jobs.pretraining_settling import need_patches
from vitrail.jobs.recipes import Recipe
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.masked_autoencoder import MAEConfig, assemble
from vitrail.records import to_record
from vitrail.report.page import Markup
from vitrail.tasks.mae import MaskedAutoencoding

HIDE = 0.75  # [He+ 2022, figure 5]


class MAE:
    """Satisfies `jobs.methods.method.Method`."""

    name = "mae"
    does = "each hidden patch from those that are seen"
    recipes: Mapping[str, Recipe] = MappingProxyType(
        {
            "tiny": Recipe(epochs=200, batch=64, lr=1.5e-3, smoothing=0.0, shift=0.1, zoom=0.1),
            "small": Recipe(epochs=40, batch=128, lr=1.5e-3, smoothing=0.0, shift=0.1, zoom=0.1),
            "medium": Recipe(epochs=200, batch=512, lr=6e-4, smoothing=0.0, shift=0.1, zoom=0.1),
            "large": Recipe(epochs=40, batch=1024, lr=6e-4, smoothing=0.0, shift=0.1, zoom=0.1),
            "finetune": Recipe(epochs=40, batch=128, lr=5e-4, smoothing=0.0, shift=0.1, zoom=0.1),
            "plain": Recipe(epochs=40, batch=128, lr=1.5e-3, smoothing=0.0),
        }
    )
    nothing = NOT_OURS

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        need_patches(config, method=self.name, example="vit_micro_patch4_32")
        step = math.lcm(4, config.heads)  # what positions on two axes and the heads divide
        width = max(step, config.width // 2 // step * step)
        chosen = {"hide": HIDE, "decoder_depth": min(8, max(1, config.depth // 2)), "decoder_width": width}
        return {name: value for name, value in chosen.items() if getattr(options, name) == "auto"}

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        width = whole(options.decoder_width)
        return assemble(
            backbone,
            MAEConfig(
                backbone=to_record(backbone.config),
                decoder_width=width,
                decoder_depth=whole(options.decoder_depth),
                decoder_heads=choose_heads(width, backbone.config),
                hide=real(options.hide),
                mask_tokens=options.mask_tokens,
                normalize=not options.plain_pixels,
            ),
        )

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> MaskedAutoencoding:
        return MaskedAutoencoding(model, seed=options.seed, device=device, compiled=options.compile, world=world)

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        return picture_loaders(options, data, model.preprocessing, bad, world)

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        config = model.config
        yield (
            f"{100 * config.hide:g} % of the patches are hidden; a decoder of {config.decoder_depth} blocks of width {config.decoder_width} draws them"
        )

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        from vitrail.jobs.methods.mae_shown import draw_some  # they import matplotlib
        from vitrail.report.masking import show_drawn

        return show_drawn(*draw_some(model, data, seed=options.seed), normalized=model.config.normalize)


def choose_heads(width: int, config: Any) -> int:
    """As wide as the backbone's, where the width can be divided so."""
    return next(heads for heads in range(max(1, width * config.heads // config.width), 0, -1) if width % heads == 0)


TRADE = Pretraining.by(MAE())
