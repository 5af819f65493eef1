"""Images of different sizes as one batch.

ch channels, h w one image, p numbers of all images
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError


class Ragged:
    """Images behind each other in one piece of memory, which workers hand over as quickly as a batch of one size.

    It has what is asked of a batch's tensor: `len`, `to`, `flip` and `tensor_split`. Iterating gives views.
    """

    def __init__(self, numbers: Float[Tensor, "p"], shapes: Sequence[tuple[int, ...]]) -> None:
        """`shapes` of the images: (ch, h, w)."""
        self.numbers, self.shapes = numbers, tuple(shapes)
        self.ends = tuple(accumulate(channels * height * width for channels, height, width in self.shapes))
        if numbers.numel() != (self.ends[-1] if self.ends else 0):
            raise VitrailError(f"{numbers.numel()} numbers do not fill images of the shapes {self.shapes}")

    @classmethod
    def join(cls, images: Sequence[Float[Tensor, "_ _ _"]]) -> "Ragged":
        """Of images that stand apart; an empty list, or what is no image, is refused."""
        check_images(images)
        return cls(torch.cat([image.flatten() for image in images]), [tuple(image.shape) for image in images])

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, number: int) -> Float[Tensor, "ch h w"]:
        shape = self.shapes[number]
        end = self.ends[number]
        return self.numbers[end - shape[0] * shape[1] * shape[2] : end].view(shape)

    def __iter__(self) -> Iterator[Float[Tensor, "ch h w"]]:
        return (self[number] for number in range(len(self)))

    def flip(self, axis: int) -> "Ragged":
        """Each image mirrored along one of its own axes, -1 its width."""
        return Ragged.join([image.flip(axis) for image in self])

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Ragged":
        return Ragged(self.numbers.to(device, non_blocking=non_blocking), self.shapes)

    def tensor_split(self, parts: int) -> list["Ragged"]:
        """Parts of nearly equal numbers of images, as torch's function of this name has them."""
        borders = [len(piece) for piece in torch.empty(len(self)).tensor_split(parts)]
        found, start = list[Ragged](), 0
        for count in borders:
            first, last = (self.ends[at - 1] if at else 0 for at in (start, start + count))
            found.append(Ragged(self.numbers[first:last], self.shapes[start : start + count]))
            start += count
        return found


def check_images(images: Sequence[Tensor]) -> None:
    """A list of images, each (ch, h, w), all of as many channels."""
    if not len(images):
        raise VitrailError("expected at least one image, got an empty list")
    for number, image in enumerate(images):
        if image.ndim != 3 or image.shape[0] != images[0].shape[0]:
            raise VitrailError(
                f"expected images of shape ({images[0].shape[0]}, h, w), got {tuple(image.shape)} for image {number}"
                if images[0].ndim == 3
                else f"expected images of shape (ch, h, w), got {tuple(image.shape)} for image {number}"
            )
