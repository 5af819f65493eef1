"""Pictures of different sizes as one batch.

ch channels, h w one picture, p numbers of all pictures
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError


class Ragged:
    """Pictures behind each other in one piece of memory, which workers hand over as quickly as a batch of one size.

    It has what a training step asks of a batch's tensor: `len`, `to` and `tensor_split`. Iterating gives views.
    """

    def __init__(self, numbers: Float[Tensor, "p"], shapes: Sequence[tuple[int, ...]]) -> None:
        """`shapes` of the pictures: (ch, h, w)."""
        self.numbers, self.shapes = numbers, tuple(shapes)
        self.ends = tuple(accumulate(channels * height * width for channels, height, width in self.shapes))
        if numbers.numel() != (self.ends[-1] if self.ends else 0):
            raise VitrailError(f"{numbers.numel()} numbers do not fill pictures of the shapes {self.shapes}")

    @classmethod
    def join(cls, pictures: Sequence[Float[Tensor, "_ _ _"]]) -> "Ragged":
        """Of pictures that stand apart; an empty list, or what is no picture, is refused."""
        check_pictures(pictures)
        return cls(torch.cat([picture.flatten() for picture in pictures]), [tuple(picture.shape) for picture in pictures])

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, number: int) -> Float[Tensor, "ch h w"]:
        shape = self.shapes[number]
        end = self.ends[number]
        return self.numbers[end - shape[0] * shape[1] * shape[2] : end].view(shape)

    def __iter__(self) -> Iterator[Float[Tensor, "ch h w"]]:
        return (self[number] for number in range(len(self)))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "Ragged":
        return Ragged(self.numbers.to(device, non_blocking=non_blocking), self.shapes)

    def tensor_split(self, parts: int) -> list["Ragged"]:
        """Parts of nearly equal numbers of pictures, as torch's function of this name has them."""
        borders = [len(piece) for piece in torch.empty(len(self)).tensor_split(parts)]
        found, start = list[Ragged](), 0
        for count in borders:
            first, last = (self.ends[at - 1] if at else 0 for at in (start, start + count))
            found.append(Ragged(self.numbers[first:last], self.shapes[start : start + count]))
            start += count
        return found


def check_pictures(pictures: Sequence[Tensor]) -> None:
    """A list of pictures, each (ch, h, w), all of as many channels."""
    if not len(pictures):
        raise VitrailError("expected at least one picture, got an empty list")
    for number, picture in enumerate(pictures):
        if picture.ndim != 3 or picture.shape[0] != pictures[0].shape[0]:
            raise VitrailError(
                f"expected pictures of shape ({pictures[0].shape[0]}, h, w), got {tuple(picture.shape)} for picture {number}"
                if pictures[0].ndim == 3
                else f"expected pictures of shape (ch, h, w), got {tuple(picture.shape)} for picture {number}"
            )
