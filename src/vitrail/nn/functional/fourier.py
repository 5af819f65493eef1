"""The physics of an MRI scan: Fourier transforms, coils, which lines were measured, and what an image must agree with.

b batch, c coils, h rows, w columns; k-space is the image's Fourier transform, with the zero frequency at h // 2, w // 2.
A line is a column of k-space; a mask is True where it was measured, for each column (h = 1) or each point.
A scanner with c coils of sensitivities S_1 … S_c that measures the lines M sees  y_i = M F (S_i x):  y = A x in short.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

TOLERANCE = 1e-7  # of the gradient at the start: nothing is gained in single precision below it
PLANE = (-2, -1)


def to_kspace(image: Complex[Tensor, "*b h w"]) -> Complex[Tensor, "*b h w"]:
    """F x: the orthonormal Fourier transform over the plane. Pixel h // 2, w // 2 is the origin, as is that frequency after it."""
    return torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(image, dim=PLANE), norm="ortho"), dim=PLANE)


def to_image(kspace: Complex[Tensor, "*b h w"]) -> Complex[Tensor, "*b h w"]:
    """F^H k = F^-1 k."""
    return torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(kspace, dim=PLANE), norm="ortho"), dim=PLANE)


def root_sum_of_squares(images: Complex[Tensor, "*b c h w"]) -> Float[Tensor, "*b h w"]:
    """sqrt(sum_i |x_i|²) over the coils: an image that needs no sensitivities  [Roemer+ 1990]."""
    return torch.linalg.vector_norm(images, dim=-3)


def sense_forward(
    image: Complex[Tensor, "b h w"], maps: Complex[Tensor, "b c h w"], mask: Bool[Tensor, "#b #h w"] | None = None
) -> Complex[Tensor, "b c h w"]:
    """A x = M F (S_i x) for each coil i  [Pruessmann+ 2001]; without a mask every line is measured."""
    kspace = to_kspace(maps * image[:, None])
    return kspace if mask is None else kspace * mask[:, None]


def sense_adjoint(
    kspace: Complex[Tensor, "b c h w"], maps: Complex[Tensor, "b c h w"], mask: Bool[Tensor, "#b #h w"] | None = None
) -> Complex[Tensor, "b h w"]:
    """A^H y = sum_i conj(S_i) F^H M y_i: the zero-filled image; with every line and sum |S_i|² = 1, the image itself."""
    measured = kspace if mask is None else kspace * mask[:, None]
    return (maps.conj() * to_image(measured)).sum(dim=1)


class Kept(NamedTuple):
    """A reconstruction that agrees with the scan: the coils' k-space, and the image that they give together."""

    image: Complex[Tensor, "b h w"]
    kspace: Complex[Tensor, "b c h w"]


def keep_measured(
    image: Complex[Tensor, "b h w"],
    kspace: Complex[Tensor, "b c h w"],
    mask: Bool[Tensor, "#b #h w"],
    maps: Complex[Tensor, "b c h w"],
) -> Kept:
    """Data consistency: in each coil's k-space the measured lines as they are, bit for bit, and elsewhere F (S_i x).

    "Kept exactly" holds for the coils' k-space. One image cannot keep the lines of c coils where one line in R < c was
    measured: c / R equations for each unknown, which noise and the error of the maps contradict. (The image that fits them
    best, `solve_sense`, takes all of the noise along.) So both come back: the k-space, and its combination
    sum_i conj(S_i) F^H k_i, which is x + A^H (y - A x) where sum |S_i|² = 1: the step of unrolled networks
    [Hammernik+ 2018]. Of one coil with |S| = 1 the image keeps the lines as well  [Schlemper+ 2018].
    """
    filled = torch.where(mask[:, None], kspace, sense_forward(image, maps))
    return Kept(sense_adjoint(filled, maps), filled)


def solve_sense(
    kspace: Complex[Tensor, "b c h w"],
    mask: Bool[Tensor, "#b #h w"],
    maps: Complex[Tensor, "b c h w"],
    *,
    steps: int,
    start: Complex[Tensor, "b h w"] | None = None,
    weight: float = 0.0,
) -> Complex[Tensor, "b h w"]:
    """SENSE, the reconstruction that learns nothing: argmin |A x - y|² + weight |x - x0|² by conjugate gradients  [Pruessmann+ 2001].

    Towards x0 + A^+ (y - A x0): of the images that fit best the nearest to the start, zeros by default. Few steps leave out
    what is measured worst, and with it most of the noise: choose their number on validation slices (on simulated ones of 8
    coils, 6 at 4x and 8 to 12 at 8x). A `weight` keeps x near the start x0, where that is worth something: what one coil's noise says
    against it then counts less  [Aggarwal+ 2019, eq. 8].
    """
    tiny = torch.finfo(maps.dtype).tiny
    begin = image = torch.zeros_like(kspace[:, 0]) if start is None else start
    missing = kspace * mask[:, None] - sense_forward(image, maps, mask)
    direction = gradient = sense_adjoint(missing, maps, mask)
    square = _square(gradient)
    enough = TOLERANCE**2 * square
    for _ in range(steps):
        if bool((square <= enough).all()):
            break
        lines = sense_forward(direction, maps, mask)
        length = square / (_square(lines.flatten(1, 2)) + weight * _square(direction)).clamp(min=tiny)
        length = torch.where(square > enough, length, 0)  # an image that is done waits for the others of its batch
        image = image + length * direction
        missing = missing - length[..., None] * lines
        gradient = sense_adjoint(missing, maps, mask) - weight * (image - begin)
        before, square = square, _square(gradient)
        direction = gradient + square / before.clamp(min=tiny) * direction
    return image


def _square(x: Complex[Tensor, "b h w"]) -> Float[Tensor, "b 1 1"]:
    return torch.linalg.vector_norm(x, dim=PLANE, keepdim=True) ** 2
