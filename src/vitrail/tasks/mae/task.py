"""Masked autoencoders: draw masked patches from the visible ones  [He+ 2022]."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.learn.training.world import World
from vitrail.models import masked_autoencoder
from vitrail.models.masked_autoencoder import MAEConfig, assemble
from vitrail.records import to_record
from vitrail.tasks.mae.objective import MaskedAutoencoding
from vitrail.tasks.mae.options import RECIPES, Options
from vitrail.tasks.options import from_recipe
from vitrail.tasks.pretraining import PretrainingTask, need_patches
from vitrail.tasks.stages import Setup

MASK_RATIO = 0.75  # [He+ 2022, figure 5]
MOST_BLOCKS = 8  # of a decoder that is chosen by itself

State = Setup[Options, DataSet, None]


class MaskedAutoencoder(PretrainingTask[Options, None, masked_autoencoder.MaskedAutoencoder]):
    name = "mae"
    learns = "each masked patch from the visible ones"
    recipes = RECIPES

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        need_patches(config, method=self.name, example="vit_micro_patch4_32")
        step = math.lcm(4, config.heads)  # what positions on two axes and the heads divide
        width = max(step, config.width // 2 // step * step)
        depth = min(MOST_BLOCKS, max(1, config.depth // 2))
        chosen = {"mask_ratio": MASK_RATIO, "decoder_depth": depth, "decoder_width": width}
        return from_recipe(chosen, options)

    def wrap(self, backbone: Any, options: Options) -> masked_autoencoder.MaskedAutoencoder:
        assert options.mask_ratio != "auto"
        assert options.decoder_depth != "auto"
        assert options.decoder_width != "auto"
        config = MAEConfig(
            backbone=to_record(backbone.config),
            decoder_width=options.decoder_width,
            decoder_depth=options.decoder_depth,
            decoder_heads=choose_heads(options.decoder_width, backbone.config),
            hide=options.mask_ratio,
            mask_tokens=options.mask_tokens,
            normalize=not options.plain_pixels,
        )
        return assemble(backbone, config)

    def describe_method(self, setup: State) -> Iterable[str]:
        config = setup.model.config
        blocks = f"{config.decoder_depth} blocks of width {config.decoder_width}"
        yield f"{100 * config.hide:g} % of the patches are masked; a decoder of {blocks} draws them"

    def objective(self, setup: State, *, device: str, world: World) -> MaskedAutoencoding:
        options = setup.options
        return MaskedAutoencoding(setup.model, seed=options.seed, device=device, compiled=options.compile, world=world)


def choose_heads(width: int, config: Any) -> int:
    """As wide as the backbone's, where the width can be divided so."""
    return next(heads for heads in range(max(1, width * config.heads // config.width), 0, -1) if width % heads == 0)


TASK = MaskedAutoencoder()
