"""Coils and phases that do not exist: smooth, and different for each (seed, slice).

c coils, h rows of the field of view, w columns, r those of its rows that are asked for
"""

import numpy as np
from jaxtyping import Complex64, Float

LOOP = 0.45  # a coil's radius, where half of the field of view is 1: keeps the field finite near the wire
BLUR = 0.1
ALL = slice(None)


def make_coils(
    coils: int, size: tuple[int, int], generator: np.random.Generator, *, rows: slice = ALL
) -> tuple[Complex64[np.ndarray, "c r w"], Float[np.ndarray, "r w"]]:
    """(S, profile): sensitivities with sum_i |S_i|² = 1, and how strongly all coils together see each pixel, 1 on average.

    Loops on a ring around the head that look at its axis. Far from a loop the field is a magnetic dipole's,
    B = (3 (n·r) r / |r|² - n) / |r|³  (Biot and Savart's law), of which a coil receives Bx - i By  [Hoult & Richards 1976];
    |r|² + radius² instead of |r|² keeps its strength finite near the wire, and a little blur its direction. The ring's angle,
    the coils' distances and their heights above the slice are drawn.
    """
    h, w = size
    longest = max(size)
    y, x = np.meshgrid((np.arange(h) - h // 2)[rows] * 2 / longest, (np.arange(w) - w // 2) * 2 / longest, indexing="ij")
    angle = 2 * np.pi * (np.arange(coils) + generator.uniform(0, 1) + generator.uniform(-0.2, 0.2, coils)) / coils
    distance = generator.uniform(1.25, 1.5, coils)
    height = generator.uniform(0, 0.5, coils)
    turn = generator.uniform(0, 2 * np.pi, coils)  # each receiver has a phase of its own
    nx, ny = -np.cos(angle)[:, None, None], -np.sin(angle)[:, None, None]  # c 1 1: towards the axis
    rx = x + distance[:, None, None] * nx  # c h w
    ry = y + distance[:, None, None] * ny
    square = rx**2 + ry**2
    strength = (square + (height**2)[:, None, None] + LOOP**2) ** -1.5
    along = 3 * (nx * rx + ny * ry) / (square + BLUR**2)
    field_x, field_y = (along * rx - nx) * strength, (along * ry - ny) * strength
    maps = (field_x - 1j * field_y) * np.exp(1j * turn)[:, None, None]
    profile = np.sqrt((np.abs(maps) ** 2).sum(axis=0))
    return (maps / profile).astype(np.complex64), profile / profile.mean()


def make_phase(size: tuple[int, int], generator: np.random.Generator, *, rows: slice = ALL) -> Float[np.ndarray, "r w"]:
    """A surface of second degree, in radians: what an uneven main field leaves in an image."""
    y, x = np.meshgrid(np.linspace(-1, 1, size[0])[rows], np.linspace(-1, 1, size[1]), indexing="ij")
    terms = np.stack([np.ones_like(x), x, y, x**2, x * y, y**2])
    return np.tensordot(generator.normal(0, 0.7, len(terms)), terms, axes=1)


def make_noise(shape: tuple[int, ...], generator: np.random.Generator) -> Complex64[np.ndarray, "..."]:
    """Complex normal numbers of mean square 1."""
    pair = generator.standard_normal((*shape, 2), dtype=np.float32) * np.float32(0.5**0.5)
    return pair.view(np.complex64)[..., 0]
