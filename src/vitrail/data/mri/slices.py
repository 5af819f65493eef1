"""One slice of a scan: what several coils measured, and what is known beside it.

c coils, h rows, w columns
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, overload, runtime_checkable

import numpy as np
from jaxtyping import Bool, Complex, Complex64, Inexact, Shaped
from torch import from_numpy

from vitrail.errors import VitrailError
from vitrail.nn.functional.fourier import sense_adjoint, to_image, to_kspace


@dataclass(frozen=True, kw_only=True, eq=False)
class Slice:
    """The coils' k-space, with the zero frequency at h // 2, w // 2; sensitivities and the image sought where they are known.

    A stored image may be the center alone: fastMRI's are 320 x 320 where its k-space is 640 x 368.
    """

    kspace: Complex64[np.ndarray, "c h w"]
    maps: Complex64[np.ndarray, "c h w"] | None
    target: Inexact[np.ndarray, "height width"] | None
    name: str
    peak: float | None = None  # the largest magnitude of the volume's images, which fastMRI measures PSNR against

    @property
    def size(self) -> tuple[int, int]:
        return self.kspace.shape[1], self.kspace.shape[2]


@runtime_checkable
class Slices(Protocol):
    """A list of slices, in memory or not."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Slice: ...

    def __iter__(self) -> Iterator[Slice]: ...


class LazySlices:
    """What lists of slices that are not in memory share: `read` makes one when it is asked for.

    Where it `varies`, `draw` makes another version of a slice for each number, to learn from; otherwise it is always the same one.
    """

    varies = False

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Slice]:
        return map(self.read, range(len(self)))

    def read(self, index: int) -> Slice:
        raise NotImplementedError

    def draw(self, index: int, *, number: int, rows: int | None = None) -> Slice:
        """One version of a slice, of so many neighboring rows of its image, all by default."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Slice: ...
    @overload
    def __getitem__(self, index: slice) -> "SomeSlices": ...
    def __getitem__(self, index: int | slice) -> "Slice | SomeSlices":
        if isinstance(index, slice):
            return SomeSlices(self, np.arange(len(self))[index])
        if not -len(self) <= index < len(self):
            raise IndexError(f"slice {index} of {len(self)}")
        return self.read(index % len(self))


class SomeSlices(LazySlices):
    """Slices of another list by number, in that order."""

    def __init__(self, whole: Slices, indices: Shaped[np.ndarray, "n"]) -> None:
        self.whole, self.indices = whole, indices
        self.varies = isinstance(whole, LazySlices) and whole.varies

    def __len__(self) -> int:
        return len(self.indices)

    def draw(self, index: int, *, number: int, rows: int | None = None) -> Slice:
        assert isinstance(self.whole, LazySlices)
        return self.whole.draw(int(self.indices[index]), number=number, rows=rows)

    def read(self, index: int) -> Slice:
        return self.whole[int(self.indices[index])]


class JoinedSlices(LazySlices):
    """Several lists one behind the other."""

    def __init__(self, parts: Sequence[Slices]) -> None:
        self.parts = parts
        self.ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, index: int) -> Slice:
        part = int(np.searchsorted(self.ends, index, side="right"))
        return self.parts[part][index - int(self.ends[part]) + len(self.parts[part])]


def images_of(kspace: Complex[np.ndarray, "*b h w"]) -> Complex64[np.ndarray, "*b h w"]:
    """`to_image` of arrays."""
    return to_image(from_numpy(np.ascontiguousarray(kspace, dtype=np.complex64))).numpy()


def kspace_of(images: Complex[np.ndarray, "*b h w"]) -> Complex64[np.ndarray, "*b h w"]:
    """`to_kspace` of arrays."""
    return to_kspace(from_numpy(np.ascontiguousarray(images, dtype=np.complex64))).numpy()


def combine(
    kspace: Complex64[np.ndarray, "c h w"], maps: Complex64[np.ndarray, "c h w"], mask: Bool[np.ndarray, "w"] | None = None
) -> Complex64[np.ndarray, "h w"]:
    """A^H y of one slice: with all lines the image, with a mask the zero-filled one."""
    seen = None if mask is None else from_numpy(mask)[None, None]
    return sense_adjoint(from_numpy(kspace)[None], from_numpy(maps)[None], seen)[0].numpy()


def brightness(image: Inexact[np.ndarray, "h w"]) -> float:
    """The 99th percentile of the magnitude: a scale that a few bright vessels do not move. 1 for an image of nothing."""
    return float(np.percentile(np.abs(image), 99)) or 1.0


def crop_center(image: Inexact[np.ndarray, "*b h w"], size: tuple[int, int]) -> Inexact[np.ndarray, "*b height width"]:
    """The middle of an image, around h // 2, w // 2."""
    if not (1 <= size[0] <= image.shape[-2] and 1 <= size[1] <= image.shape[-1]):
        raise VitrailError(f"cannot crop {image.shape[-2]} x {image.shape[-1]} to {size[0]} x {size[1]}")
    top, left = image.shape[-2] // 2 - size[0] // 2, image.shape[-1] // 2 - size[1] // 2
    return image[..., top : top + size[0], left : left + size[1]]


def crop_slice(one: Slice, size: tuple[int, int]) -> Slice:
    """The slice with a smaller field of view, say without the margins of an oversampled readout; its k-space has fewer points."""
    kspace = kspace_of(crop_center(images_of(one.kspace), size))
    maps = None if one.maps is None else np.ascontiguousarray(crop_center(one.maps, size))
    target = one.target
    if target is not None:
        target = crop_center(target, (min(size[0], target.shape[0]), min(size[1], target.shape[1])))
    return Slice(kspace=kspace, maps=maps, target=target, name=one.name, peak=one.peak)
