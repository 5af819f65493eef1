"""A skull and a scalp around a brain that was cut out of its head: the brightest edges of a real scan.

h rows, w columns
"""

import numpy as np
from jaxtyping import Bool, Float, Float32

BINS, HARMONICS = 72, 5
SOFT = 0.6  # pixels over which one tissue turns into the next


Outline = tuple[Float[np.ndarray, "h w"], Float[np.ndarray, "h w"], Bool[np.ndarray, "h w"]]


def add_scalp(
    plane: Float32[np.ndarray, "h w"], generator: np.random.Generator, *, outline: Outline | None = None
) -> Float32[np.ndarray, "h w"]:
    """Around the brain's outline a dark ring of bone and a bright one of fat, of drawn thickness and brightness.

    In shares of the larger side: bone 1 to 3.5 %, fat 2.5 to 5 %; the fat is 0.4 to 1.6 times as bright as the brain's brightest.
    `outline` is `find_outline` of the plane, or of the same one in another contrast; it takes longer than all the rest.
    """
    radius, edge, brain = find_outline(plane) if outline is None else outline
    if brain.sum() < BINS:
        return plane
    side = max(plane.shape)
    inner = edge + side * generator.uniform(0.01, 0.035)
    outer = inner + side * generator.uniform(0.025, 0.05)
    ring = _step(radius - inner) * _step(outer - radius)
    bright = generator.uniform(0.4, 1.6) * np.percentile(plane[brain], 90)
    y, x = np.meshgrid(np.linspace(-1, 1, plane.shape[0]), np.linspace(-1, 1, plane.shape[1]), indexing="ij")
    slope = generator.uniform(-0.3, 0.3, 2)  # no scalp is equally bright all around
    layers = 1 - generator.uniform(0, 0.5) * np.exp(-(((radius - (inner + outer) / 2) / (0.01 * side)) ** 2))  # skin and fat
    scalp = bright * ring * (1 + slope[0] * y + slope[1] * x) * layers
    return np.maximum(plane, scalp).astype(np.float32)


def find_outline(plane: Float32[np.ndarray, "h w"]) -> Outline:
    """Each pixel's distance from the brain's middle, how far the brain reaches in its direction, smoothly, and which pixels are brain."""
    brain = plane > 0.1 * np.percentile(plane, 99)
    if not brain.any():
        return np.zeros(plane.shape), np.zeros(plane.shape), brain
    rows, columns = np.nonzero(brain)
    middle = (rows.min() + rows.max()) / 2, (columns.min() + columns.max()) / 2
    y, x = np.meshgrid(np.arange(brain.shape[0]) - middle[0], np.arange(brain.shape[1]) - middle[1], indexing="ij")
    radius, angle = np.hypot(y, x), np.arctan2(y, x)
    bins = ((angle[brain] / (2 * np.pi) + 0.5) * BINS).astype(np.int64) % BINS
    reach = np.zeros(BINS)
    np.maximum.at(reach, bins, radius[brain])
    reach = np.maximum.reduce([np.roll(reach, shift) for shift in range(-2, 3)])  # over the gaps between parts of it
    waves = np.fft.rfft(reach)[: HARMONICS + 1] / BINS
    turns = (angle / (2 * np.pi) + 0.5) * BINS - 0.5
    edge = np.full(brain.shape, waves[0].real)
    for number in range(1, HARMONICS + 1):
        edge = edge + 2 * (waves[number] * np.exp(2j * np.pi * number * turns / BINS)).real
    return radius, edge, brain


def _step(distance: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w"]:
    """From 0 to 1 where a distance in pixels passes 0."""
    return 0.5 * (1 + np.tanh(distance / SOFT))
