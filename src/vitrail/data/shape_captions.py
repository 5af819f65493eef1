"""The built-in scenes with their captions: `a small red star left of a blue ring, with one more shape`.

The scene's own caption (`data.shapes`): the main shape's size, color and kind, on which side of the second it stands, that one's color and
kind, and how many more there are. The image decides every word, because the layout (`data.shape_layout`) keeps away from what people
could call otherwise: no shape between small and large, none left of and above another at once, and the main one plainly the largest.

n images, h w image
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property

import numpy as np
from jaxtyping import UInt8

from vitrail.data.dataset import ArraySplit, SplitName
from vitrail.data.shapes import ShapesSplit

SHAPE_COUNTS: dict[SplitName, int] = {"train": 20_000, "val": 500, "test": 1000}
CHUNK = 100  # scenes a task
Drawn = tuple[UInt8[np.ndarray, "n h w 3"], list[tuple[str, ...]]]


class ShapeCaptions(ArraySplit):
    """`count` images of a split, each with one caption. All are drawn when the first is asked for: images and captions come together."""

    def __init__(self, split: SplitName, count: int, *, size: tuple[int, int] = (64, 64), seed: int = 0) -> None:
        self.scenes = ShapesSplit(split, count, size=size, seed=seed)
        self.labels = np.zeros(count, dtype=np.int64)  # there are no classes

    @cached_property
    def drawn(self) -> Drawn:
        count = len(self.scenes)
        tasks = [(self.scenes, range(start, min(start + CHUNK, count))) for start in range(0, count, CHUNK)]
        cores = os.cpu_count() or 1
        if len(tasks) < 3 or cores < 2:  # processes for so few are not worth their start
            found = [draw(task) for task in tasks]
        else:
            with ProcessPoolExecutor(cores) as pool:
                found = list(pool.map(draw, tasks))
        images = np.concatenate([images for images, _ in found])
        return images, [(caption,) for _, captions in found for caption in captions]

    @property
    def images(self) -> UInt8[np.ndarray, "n h w 3"]:  # type: ignore[override]  # there it is an attribute
        return self.drawn[0]

    @property
    def captions(self) -> list[tuple[str, ...]]:
        return self.drawn[1]


def draw(task: tuple[ShapesSplit, range]) -> tuple[UInt8[np.ndarray, "n h w 3"], list[str]]:
    """Some scenes of a split; by itself, for other processes."""
    split, numbers = task
    scenes = [split.scene(number) for number in numbers]
    return np.stack([scene.image for scene in scenes]), [scene.caption for scene in scenes]
