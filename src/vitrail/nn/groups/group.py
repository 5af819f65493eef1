"""Groups of the plane: translations together with some rotations, and mirroring.

An element of such a group is a translation and an element of its stabilizer, the finite group of what keeps the origin in place. Only
the stabilizer is written here: translations are what a grid does by itself. Element e = mirrored · rotations + r stands for
"mirror left and right if `mirrored`, then turn counterclockwise by r / rotations of a full turn".

g elements, h w image or grid, o offsets
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError, check_choice


@dataclass(frozen=True, slots=True)
class PlaneGroup:
    """`rotations` by equal angles, each also mirrored if `mirrors`  [Cohen+ 2016, section 4.2-4.3; Romero+ 2021, section 4]."""

    name: str
    rotations: int
    mirrors: bool = False

    @property
    def order(self) -> int:
        """Elements of the stabilizer."""
        return self.rotations * (2 if self.mirrors else 1)

    @property
    def exact(self) -> tuple[int, ...]:
        """The elements that map a square grid onto itself: the quarter turns among the rotations, and mirroring."""
        quarter = self.rotations // math.gcd(self.rotations, 4)
        return tuple(e for e in range(self.order) if e % self.rotations % quarter == 0)

    def check_grid(self, height: int, width: int, *, what: str = "the image") -> None:
        """Refuse a grid that the group does not map onto itself: the layers could not be exact there."""
        if self.rotations > 1 and height != width:
            raise VitrailError(f"{self.name} turns {what} by 90 degrees, so it must be square; got {height}x{width}")

    def product(self) -> Int[np.ndarray, "g g"]:
        """product[a, b] = a·b, first b, then a: R^r M^m · R^s M^n = R^(r + s or r - s) M^(m + n), because M R = R^-1 M."""
        return _product(self.rotations, self.mirrors)

    def inverse(self) -> Int[np.ndarray, "g"]:
        """inverse[a] · a = 1."""
        return np.argmin(self.product(), axis=0)  # the row of the identity, element 0, in each column

    def relative(self) -> Int[np.ndarray, "g g"]:
        """relative[a, b] = a^-1·b: which element b is, seen from a. It does not change when both are multiplied by any c."""
        return self.product()[self.inverse()]

    def matrices(self) -> Float[np.ndarray, "g 2 2"]:
        """Each element as a matrix on (row, column) offsets. Quarter turns have entries 0 and ±1 exactly."""
        found = []
        for e in range(self.order):
            turn = 2 * math.pi * (e % self.rotations) / self.rotations
            cosine, sine = (_clean(math.cos(turn)), _clean(math.sin(turn)))
            mirror = -1.0 if e >= self.rotations else 1.0
            found.append([[cosine, -sine * mirror], [sine, cosine * mirror]])
        return np.array(found)

    def act_on_offsets(self, offsets: Float[np.ndarray, "o 2"]) -> Float[np.ndarray, "g o 2"]:
        """g^-1·offset for every g: the offset as it looks to somebody turned by g."""
        return np.round(np.einsum("gji,oj->goi", self.matrices(), offsets), 12) + 0.0  # the inverse is the transpose

    def act_on_images(self, x: Tensor, element: int) -> Tensor:
        """(L_g x)(p) = x(g^-1·p) on the last two axes, for an element of `exact`; nothing is interpolated."""
        if element not in self.exact:
            raise VitrailError(
                f"element {element} of {self.name} does not map the pixels onto pixels; choose from {self.exact}"
            )
        if element >= self.rotations:
            x = x.flip(-1)
        return torch.rot90(x, 4 * (element % self.rotations) // self.rotations, (-2, -1))

    def act_on_maps(self, x: Float[Tensor, "b g *d h w"], element: int) -> Float[Tensor, "b g *d h w"]:
        """(L_g f)(p, h) = f(g^-1·p, g^-1·h): maps over the group are turned and their elements change places."""
        return self.act_on_images(x, element)[:, self.relative()[element].copy()]


GROUPS: Mapping[str, PlaneGroup] = MappingProxyType(
    {
        "z2": PlaneGroup("z2", 1),
        "p4": PlaneGroup("p4", 4),
        "p4m": PlaneGroup("p4m", 4, mirrors=True),
        "p8": PlaneGroup("p8", 8),
        "p12": PlaneGroup("p12", 12),
        "p16": PlaneGroup("p16", 16),
    }
)


def find_group(name: str) -> PlaneGroup:
    return GROUPS[check_choice("group", name, GROUPS)]


@lru_cache
def _product(rotations: int, mirrors: bool) -> Int[np.ndarray, "g g"]:
    m, r = np.divmod(np.arange(rotations * (2 if mirrors else 1)), rotations)
    turn = (r[:, None] + np.where(m[:, None] == 1, -r[None], r[None])) % rotations
    return (m[:, None] + m[None]) % 2 * rotations + turn


def _clean(number: float) -> float:
    """cos and sin of quarter turns are 0 and ±1; floating point says 6e-17."""
    return float(round(number)) if abs(number - round(number)) < 1e-12 else number
