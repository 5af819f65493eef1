"""A palette: the few colors that stand for all of a dataset's, learned by k-means, and images as sequences of their numbers.

b batch, h w image, ch channels, k colors of the palette, p colors that occur, n pixels in raster order
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, UInt8

from vitrail.data.dataset import Split, stored_images
from vitrail.data.images import ImageError
from vitrail.data.transforms import read_fitted
from vitrail.errors import VitrailError
from vitrail.preprocessing import Preprocessing

MOST_IMAGES, MOST_PIXELS = 2048, 2**16  # that a palette is learned from
MOST_ROUNDS = 50
CHUNK = 2**10  # pixels whose distances are in memory, and in the cache, at once


@dataclass(frozen=True, eq=False)
class Palette:
    """Colors by number. They are bytes, as pixels are, so that every distance is a whole number and no tie a matter of rounding."""

    colors: UInt8[np.ndarray, "k ch"]

    def __len__(self) -> int:
        return len(self.colors)

    def encode(self, images: UInt8[np.ndarray, "b h w ch"]) -> Int[np.ndarray, "b n"]:
        """Each pixel's nearest color, row after row; of two that are as near, the first  [Chen+ 2020, section 3.1: 9-bit colors]."""
        if images.shape[-1] != self.colors.shape[1]:
            raise VitrailError(f"the palette is of {self.colors.shape[1]} channels, the images have {images.shape[-1]}")
        pixels = images.reshape(-1, images.shape[-1]).astype(np.float32)
        return nearest(pixels, self.colors.astype(np.float32))[0].reshape(len(images), -1)

    def decode(self, ids: Int[np.ndarray, "b n"], size: tuple[int, int]) -> UInt8[np.ndarray, "b h w ch"]:
        """The images that color numbers stand for."""
        if ids.shape[1] != size[0] * size[1]:
            raise VitrailError(f"an image of {size[0]}x{size[1]} has {size[0] * size[1]} pixels, got {ids.shape[1]} colors")
        return self.colors[ids].reshape(len(ids), *size, -1)

    def error(self, images: UInt8[np.ndarray, "b h w ch"]) -> float:
        """Mean over all values of the squared difference from what they are encoded as; 255² would be black for white."""
        shown = self.decode(self.encode(images), (images.shape[1], images.shape[2]))
        return float(((shown.astype(np.float64) - images) ** 2).mean())


def learn_palette(images: UInt8[np.ndarray, "b h w ch"], colors: int, *, seed: int = 0) -> Palette:
    """At most `colors` colors, in the order of their brightness: all that occur if they are no more, else k-means.

    k-means  [Lloyd 1982]  begins with k-means++  [Arthur+ 2007, section 2.2]  and runs over the colors that occur, each as heavy
    as it is frequent, until no color changes its mean or for MOST_ROUNDS. Of more than MOST_PIXELS pixels a sample is taken.
    """
    if colors < 2:
        raise VitrailError(f"a palette needs at least 2 colors, got {colors}")
    pixels = images.reshape(-1, images.shape[-1])
    if not len(pixels):
        raise VitrailError("a palette is learned from images, and there is none")
    generator = np.random.Generator(np.random.PCG64(seed))
    if len(pixels) > MOST_PIXELS:
        pixels = pixels[np.sort(generator.choice(len(pixels), MOST_PIXELS, replace=False))]
    occurring, counts = np.unique(pixels, axis=0, return_counts=True)
    if len(occurring) > colors:
        points, weights = occurring.astype(np.float32), counts.astype(np.float64)
        means = k_means(points, weights, spread(points, weights, colors, generator))
        occurring = as_bytes(means, points, weights)
    return Palette(occurring[np.argsort(occurring.astype(np.int64).sum(axis=1), kind="stable")])


def some_images(
    split: Split, preprocessing: Preprocessing, *, most: int = MOST_IMAGES, seed: int = 0
) -> UInt8[np.ndarray, "b h w ch"]:
    """Images of a split at the model's size, at most so many, drawn without regard to their order; what cannot be read is left out."""
    indices, shape = np.arange(len(split)), (*preprocessing.size, preprocessing.channels)
    if len(indices) > most:
        indices = np.sort(np.random.Generator(np.random.PCG64(seed)).choice(len(indices), most, replace=False))
    if (stored := stored_images(split, indices, shape)) is not None:
        return stored
    images = []
    for index in indices.tolist():
        with suppress(ImageError):  # training tells of them
            images.append(read_fitted(split, index, preprocessing))
    return np.stack(images) if images else np.empty((0, *shape), dtype=np.uint8)


def nearest(
    points: Float[np.ndarray, "p ch"], centers: Float[np.ndarray, "k ch"]
) -> tuple[Int[np.ndarray, "p"], Float[np.ndarray, "p"]]:
    """The number of each point's nearest center, and the squared distance to it. Of bytes both are exact, in float32 too."""
    ids, apart = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=points.dtype)
    # |x - c|² = |x|² + (-2 c, |c|²) · (x, 1), and |x|² is the same for all centers.
    against = np.concatenate([-2 * centers, (centers**2).sum(axis=1, keepdims=True)], axis=1).T
    points = np.concatenate([points, np.ones_like(points[:, :1])], axis=1)
    for start in range(0, len(points), CHUNK):
        some = points[start : start + CHUNK] @ against
        best = some.argmin(axis=1)
        ids[start : start + CHUNK], apart[start : start + CHUNK] = best, some[np.arange(len(some)), best]
    return ids, apart + (points[:, :-1] ** 2).sum(axis=1)


def spread(
    points: Float[np.ndarray, "p ch"], weights: Float[np.ndarray, "p"], count: int, generator: np.random.Generator
) -> Float[np.ndarray, "k ch"]:
    """k-means++: one point after the other, drawn by its weight times its squared distance from those there are."""
    chosen = [draw(weights, generator)]
    distances = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(draw(weights * distances, generator))  # never one there is: its distance is 0
        distances = np.minimum(distances, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen]


def draw(odds: Float[np.ndarray, "p"], generator: np.random.Generator) -> int:
    """A number, with a probability in proportion to its odds."""
    sums = np.cumsum(odds)
    return int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))


def k_means(
    points: Float[np.ndarray, "p ch"], weights: Float[np.ndarray, "p"], centers: Float[np.ndarray, "k ch"]
) -> Float[np.ndarray, "k ch"]:
    """Each center to the mean of the points nearest to it, again and again. One that has none stays where it is."""
    before = np.full(len(points), -1)
    for _ in range(MOST_ROUNDS):
        ids, _ = nearest(points, centers)
        if (ids == before).all():
            break
        heavy = np.bincount(ids, weights, minlength=len(centers))
        sums = np.stack([np.bincount(ids, weights * axis, minlength=len(centers)) for axis in points.T], axis=1)
        moved = heavy > 0
        centers = centers.copy()
        centers[moved] = sums[moved] / heavy[moved, None]
        before = ids
    return centers


def as_bytes(
    means: Float[np.ndarray, "k ch"], points: Float[np.ndarray, "p ch"], weights: Float[np.ndarray, "p"]
) -> UInt8[np.ndarray, "k ch"]:
    """Means as colors. Where two become one, the color that is served worst takes the free place."""
    colors = np.unique(means.round(), axis=0)
    while len(colors) < len(means):
        _, distances = nearest(points, colors)
        colors = np.concatenate([colors, points[[int((weights * distances).argmax())]]])
    return colors.astype(np.uint8)
