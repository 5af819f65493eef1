"""Whether a file computes what the model does: both on the same images, in batches of several numbers and, if it may, sizes.

b batch, ch channels
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.export.interface import Outputs, as_tuple
from vitrail.errors import VitrailError
from vitrail.models.model import Model

LARGEST_DEVIATION = 1e-4
Runner = Callable[[Float[Tensor, "b ch *size"]], Outputs]


class Parity(NamedTuple):
    """How far a file is from its model."""

    deviation: float  # the largest of any number of any output
    images: int
    batches: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    what: str = "images"

    def __str__(self) -> str:
        sizes = " and ".join("x".join(map(str, size)) for size in self.sizes)
        batches = ", ".join(map(str, self.batches))
        what = self.what.removesuffix("s") if self.images == 1 else self.what
        return f"differs by at most {self.deviation:.1g} on {self.images} {what} of {sizes}, in batches of {batches}"


def compare(
    model: Model, run: Runner, images: Float[Tensor, "b ch *size"], *, step: int | None, what: str = "images"
) -> Parity:
    """One image, three, then the rest; with `step`, three at another size as well. `model` gives plain tensors."""
    while len(images) < 4:
        images = torch.cat([images, images.flip(-1)])  # mirrored: other images, but real ones
    groups = [images[:1], images[1:4], *([images[4:]] if len(images) > 4 else [])]
    if step is not None:
        groups.append(F.interpolate(images[:3], size=other_size((images.shape[2], images.shape[3]), step), mode="bilinear"))
    largest = 0.0
    with torch.inference_mode():
        for group in groups:
            expected, found = as_tuple(model(group)), as_tuple(run(group))
            if shapes(found) != shapes(expected):
                raise VitrailError(f"not written: the exported program gives {shapes(found)}, the model {shapes(expected)}")
            off = max(float((one - other).abs().max()) for one, other in zip(found, expected, strict=True))
            largest = max(largest, off) if off == off else float("nan")
            if not largest <= LARGEST_DEVIATION:
                raise VitrailError(
                    f"not written: the exported program differs by {largest:.1g} from the model, more than {LARGEST_DEVIATION:.0e}"
                )
    sizes = dict.fromkeys(tuple(group.shape[2:]) for group in groups)
    return Parity(largest, len(images), tuple(len(group) for group in groups), tuple(sizes), what)


def shapes(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join("x".join(map(str, tensor.shape)) for tensor in tensors)


def other_size(size: tuple[int, int], step: int) -> tuple[int, int]:
    """Another one, of another aspect: two cells more in height, one less in width (one more where there are but two)."""
    height, width = (max(1, side // step) for side in size)
    return (height + 2) * step, (width - 1 if width > 2 else 3) * step
