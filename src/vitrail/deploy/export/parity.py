"""Whether a file computes what the model does: both on the same pictures, in batches of several numbers and, if it may, sizes.

b batch, ch channels, h w picture
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError

LARGEST_DEVIATION = 1e-4
Runner = Callable[[Float[Tensor, "b ch h w"]], Float[Tensor, "b ..."]]


class Parity(NamedTuple):
    """How far a file is from its model."""

    deviation: float  # the largest of any number of any output
    pictures: int
    batches: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        sizes = " and ".join(f"{height}x{width}" for height, width in self.sizes)
        batches = ", ".join(map(str, self.batches))
        plural = "s" if self.pictures != 1 else ""
        return f"differs by at most {self.deviation:.1g} on {self.pictures} picture{plural} of {sizes}, in batches of {batches}"


def compare(model: Any, run: Runner, images: Float[Tensor, "b ch h w"], *, step: int | None) -> Parity:
    """One picture, three, then the rest; with `step`, three at another size as well."""
    while len(images) < 4:
        images = torch.cat([images, images.flip(-1)])  # mirrored: other pictures, but real ones
    groups = [images[:1], images[1:4], *([images[4:]] if len(images) > 4 else [])]
    if step is not None:
        groups.append(F.interpolate(images[:3], size=other_size((images.shape[2], images.shape[3]), step), mode="bilinear"))
    largest = 0.0
    with torch.inference_mode():
        for group in groups:
            expected, found = model(group), run(group)
            if found.shape != expected.shape:
                raise VitrailError(
                    f"not written: the exported program gives {tuple(found.shape)}, the model {tuple(expected.shape)}"
                )
            off = float((found - expected).abs().max())
            largest = max(largest, off) if off == off else float("nan")
            if not largest <= LARGEST_DEVIATION:
                raise VitrailError(
                    f"not written: the exported program differs by {largest:.1g} from the model, more than {LARGEST_DEVIATION:.0e}"
                )
    sizes = dict.fromkeys((group.shape[2], group.shape[3]) for group in groups)
    return Parity(largest, len(images), tuple(len(group) for group in groups), tuple(sizes))


def other_size(size: tuple[int, int], step: int) -> tuple[int, int]:
    """Another one, of another aspect: two cells more in height, one less in width (one more where there are but two)."""
    height, width = (max(1, side // step) for side in size)
    return (height + 2) * step, (width - 1 if width > 2 else 3) * step
