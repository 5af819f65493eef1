"""Batches of images with a caption each."""

from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.caption_batches import CaptionBatches
from vitrail.data.captions import CaptionData
from vitrail.learn.training.world import World
from vitrail.tasks.caption.options import Options
from vitrail.tasks.image_task import image_loaders


def caption_loaders(
    options: Options, data: CaptionData, model: Any, bad: BadFiles, world: World
) -> tuple[CaptionBatches, CaptionBatches]:
    """Training images, shuffled, with a caption drawn for each; validation images with their first."""
    images = image_loaders(options, data, model.preprocessing, bad, world)
    training, validation = (
        CaptionBatches(loader, data[name].captions, model.tokenizer, longest=model.config.longest, seed=options.seed)
        for name, loader in zip(("train", "val"), images, strict=True)
    )
    return training, validation
