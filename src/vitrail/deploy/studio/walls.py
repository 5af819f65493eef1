"""A wall of maps: what something reads of an image in every layer and head, as the page hangs it.

a heads, gh gw grid
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor


def describe_wall(
    name: str, title: str, layers: Sequence[Float[Tensor, "_ _ _"]], *, covers: tuple[float, float] = (1.0, 1.0)
) -> dict[str, Any]:
    """`covers`: how many times as high and as wide as the image the grids are, where it was padded to whole cells."""
    return {
        "name": name,
        "title": title,
        "covers": covers,
        "layers": [{"grid": tuple(maps.shape[1:]), "heads": maps.flatten(1)} for maps in layers],
    }
