"""How a segmenter is asked about an image: whole or window by window, at several scales, in the mirror too; and its answers at the
image's own size, in bounded memory.

b images, ch channels, k classes, h w what the model sees, p q the image
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.sliding import slide


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """One look at the whole image, unless said otherwise."""

    window: tuple[int, int] | None = None  # height, width
    overlap: float = 0.5
    scales: tuple[float, ...] = (1.0,)
    flip: bool = False

    def __post_init__(self) -> None:
        if self.window is not None and min(self.window) < 1:
            raise VitrailError(f"a window has sides of at least 1 pixel, got {self.window[0]} {self.window[1]}")
        if not self.scales or not all(0.1 <= scale <= 10 for scale in self.scales):
            raise VitrailError(f"scales are factors from 0.1 to 10, got {' '.join(map(str, self.scales)) or 'none'}")


def infer(
    predict: Callable[[Float[Tensor, "b ch h w"]], Float[Tensor, "b k h w"]], images: Float[Tensor, "b ch h w"], how: Inference
) -> Float[Tensor, "b k h w"]:
    """Probabilities: the mean of softmax over the scales and, with `flip`, over the image and its mirror image."""
    size, total = (images.shape[2], images.shape[3]), None
    looks = [(scale, mirrored) for scale in how.scales for mirrored in ((False, True) if how.flip else (False,))]
    for scale, mirrored in looks:
        scaled = images if scale == 1 else F.interpolate(images, size=_times(size, scale), mode="bilinear", antialias=True)
        logits = ask(predict, scaled.flip(-1) if mirrored else scaled, how)
        logits = logits.flip(-1) if mirrored else logits
        if scale != 1:
            logits = F.interpolate(logits, size=size, mode="bilinear")
        found = logits.float().softmax(1)
        total = found if total is None else total.add_(found)
    assert total is not None
    return total.div_(len(looks))


def ask(
    predict: Callable[[Float[Tensor, "b ch h w"]], Float[Tensor, "b k h w"]], images: Float[Tensor, "b ch h w"], how: Inference
) -> Float[Tensor, "b k h w"]:
    if how.window is None:
        return predict(images)
    return slide(predict, images, window=how.window, overlap=how.overlap)


def name_pixels(chances: Float[Tensor, "k h w"], size: tuple[int, int]) -> tuple[Int[Tensor, "p q"], Float[Tensor, "p q"]]:
    """The likeliest class of each pixel of an image of `size`, and how likely it is. Classes are enlarged one by one, so that memory is
    that of a few images, however many classes there are."""
    if tuple(chances.shape[1:]) == size:
        best = chances.max(0)
        return best.indices, best.values
    numbers = torch.zeros(size, dtype=torch.int64, device=chances.device)
    highest = torch.full(size, -1.0, dtype=chances.dtype, device=chances.device)
    for number, chance in enumerate(chances):
        enlarged = F.interpolate(chance[None, None], size=size, mode="bilinear")[0, 0]
        better = enlarged > highest
        highest = torch.where(better, enlarged, highest)
        numbers[better] = number
    return numbers, highest


def _times(size: tuple[int, int], scale: float) -> tuple[int, int]:
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
