"""Coil sensitivities from the lines in the center of k-space, which every scan measures.

c coils, h rows, w columns, k points of a patch, v kept patches, g points of a coarse grid
"""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Complex, Complex64, Float32
from torch import Tensor

from vitrail.data.mri.masks import center_lines
from vitrail.errors import VitrailError, check_choice
from vitrail.nn.functional.fourier import root_sum_of_squares, to_image

Method = Literal["smooth", "espirit"]
KERNEL, KEPT = 5, 0.02  # side of ESPIRiT's patches; singular values below this share of the largest are noise
ROWS = 24  # of the calibration lines that are used at least: there is no lack of them
GRID = 32  # ESPIRiT's maps are found on so many pixels a side, and interpolated: they are smooth


def estimate_maps(
    kspace: Complex64[np.ndarray, "c h w"], calibration: int, *, method: Method = "espirit"
) -> Complex64[np.ndarray, "c h w"]:
    """Sensitivities S_i with sum_i |S_i|² = 1 from the `calibration` columns around the zero frequency.

    smooth: the coils' images of low resolution, divided by their root sum of squares  [Pruessmann+ 1999]. The image is
    still in them where it changes quickly. espirit: what stays the same under convolution with the patches that occur in the
    calibration lines  [Uecker+ 2014], which depends on the coils alone; with few lines it falls back on the smooth ones.
    The phase is that of the coils' main direction, so that S is smooth and the image keeps its own phase.
    """
    check_choice("way to estimate sensitivities", method, ("smooth", "espirit"))
    coils, h, w = kspace.shape
    if not 1 <= calibration <= w:
        raise VitrailError(f"calibration must be 1 to the {w} columns, got {calibration}")
    rows = min(max(calibration, ROWS), h)
    block = torch.from_numpy(np.ascontiguousarray(kspace[:, center_lines(h, rows)][..., center_lines(w, calibration)]))
    if not bool(block.abs().sum() > 0):
        raise VitrailError(f"the {calibration} lines in the center are empty: sensitivities cannot be estimated from them")
    if method == "espirit" and min(rows, calibration) > KERNEL and coils > 1:
        maps = _espirit(block, (h, w))
    else:
        maps = _smooth(block, (h, w))
    size = root_sum_of_squares(maps).clamp(min=1e-12)
    return (_turn(maps / size, block)).numpy().astype(np.complex64)


def normalize_maps(
    maps: Complex64[np.ndarray, "c h w"],
) -> tuple[Complex64[np.ndarray, "c h w"], Float32[np.ndarray, "h w"]]:
    """(S / size, size) with size² = sum_i |S_i|²; where the maps are 0 they stay so."""
    size = np.sqrt((np.abs(maps) ** 2).sum(axis=0))
    return maps / np.where(size > 0, size, np.float32(1)), size


def _smooth(block: Complex[Tensor, "c r q"], size: tuple[int, int]) -> Complex[Tensor, "c h w"]:
    """Low-resolution images: the block, faded out towards its edges against ringing, in an empty k-space."""
    windows = [torch.hann_window(count + 2, periodic=False)[1:-1] for count in block.shape[1:]]
    return to_image(_embed(block * windows[0][:, None] * windows[1], size))


def _espirit(block: Complex[Tensor, "c r q"], size: tuple[int, int]) -> Complex[Tensor, "c h w"]:
    """The eigenvectors of the largest eigenvalue (1 where there is an image) of a c x c matrix at each pixel.

    Patches of all coils at all positions of the block are rows of a matrix; those that occur span a small space V. A true
    k-space does not change if each of its patches is projected onto V and the overlapping results are averaged; that is a
    convolution, so in the image a matrix at each pixel, of which the sensitivities are an eigenvector of eigenvalue 1.
    """
    coils = block.shape[0]
    patches = block.unfold(1, KERNEL, 1).unfold(2, KERNEL, 1)  # c r' q' k k
    rows = patches.permute(1, 2, 0, 3, 4).reshape(-1, coils * KERNEL**2)
    values, vectors = torch.linalg.eigh(rows.mT.conj() @ rows)  # ascending; singular values are their roots
    basis = vectors[:, values.clamp(min=0).sqrt() > KEPT * values[-1].clamp(min=0).sqrt()]
    kernels = basis.conj().T.reshape(-1, coils, KERNEL, KERNEL)  # v c k k
    grid = min(size[0], GRID), min(size[1], GRID)
    seen = to_image(_embed(kernels, grid))  # v c g g
    matrix = torch.einsum("vcyx,vdyx->yxcd", seen, seen.conj())  # Hermitian
    main = torch.linalg.eigh(matrix)[1][..., -1].permute(2, 0, 1)  # c g g
    main = _turn(main, block)  # before interpolating: an eigenvector's phase is anybody's
    return _enlarge(main, size)


def _enlarge(maps: Complex[Tensor, "c g1 g2"], size: tuple[int, int]) -> Complex[Tensor, "c h w"]:
    """Interpolated between pixels, of which g // 2 and h // 2 are the same place, unlike in torch's resize."""
    lines = []
    for small, large in zip(maps.shape[1:], size, strict=True):
        places = (torch.arange(large) - large // 2) * (small / large) + small // 2
        lines.append(places * 2 / max(small - 1, 1) - 1)
    y, x = torch.meshgrid(*lines, indexing="ij")
    parts = torch.cat([maps.real, maps.imag])[None]
    places = torch.stack([x, y], dim=-1)[None]
    found = F.grid_sample(parts, places, mode="bicubic", padding_mode="border", align_corners=True)[0]
    return torch.complex(*found.chunk(2))


def _turn(maps: Complex[Tensor, "c h w"], block: Complex[Tensor, "c r q"]) -> Complex[Tensor, "c h w"]:
    """The maps with the phase at which the coils' main direction u sees them as positive: <u, S> > 0."""
    flat = block.flatten(1)
    main = torch.linalg.eigh(flat @ flat.mT.conj())[1][:, -1]  # of the coils' covariance
    seen = torch.einsum("c,chw->hw", main.conj(), maps)
    return maps * torch.polar(torch.ones_like(seen.real), -seen.angle())


def _embed(block: Complex[Tensor, "*b r q"], size: tuple[int, int]) -> Complex[Tensor, "*b h w"]:
    """The block around the zero frequency of an empty k-space."""
    whole = block.new_zeros(*block.shape[:-2], *size)
    top, left = size[0] // 2 - block.shape[-2] // 2, size[1] // 2 - block.shape[-1] // 2
    whole[..., top : top + block.shape[-2], left : left + block.shape[-1]] = block
    return whole
