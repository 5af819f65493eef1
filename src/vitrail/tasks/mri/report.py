"""The report of an MRI run: zero-filled, reconstructed and fully measured slices with their errors, the masks, every slice's score.

h w image, n slices
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, UInt8

from vitrail.data.mri.opening import ScanData
from vitrail.learn.training.state import Row
from vitrail.models.reconstructor import Reconstructor
from vitrail.report.compare import PART, Pane, gray_images, show_comparison, show_comparisons
from vitrail.report.images import encode_exact
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Cell, Label, Photograph, SortableTable
from vitrail.tasks.mri.data import describe_sampling, sampling_of
from vitrail.tasks.mri.objective import ReconstructedSlice, ReconstructionScores, score
from vitrail.tasks.mri.options import Options
from vitrail.tasks.stages import Scored, Setup

BAND = 24  # pixels: how tall a mask that is the same for all rows is drawn
MANY = 12  # slices, above which a table can be searched


def sections(scored: Scored[ScanData], setup: Setup[Options, ScanData, None], rows: Sequence[Row]) -> Iterable[Section]:
    """Some slices and their masks, then the scores of all."""
    found, names = scored.evaluation, scored.extras
    assert isinstance(found, ReconstructionScores)
    if found.examples:
        yield show_slices(found.examples, names)
        yield show_masks(found.examples, names, describe_sampling(sampling_of(setup.options)))
    if len(found.rows):
        yield show_scores(found, names)


def commands(run: str, model: Reconstructor) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Score it on another scan": f"vitrail eval {run} --data scan.npz --out scores/",
        "Start another run from it": f"vitrail train --task mri --data DATA --weights {run}",
    }


def show_slices(some: Sequence[ReconstructedSlice], names: Sequence[str]) -> Section:
    note = (
        "Magnitudes, on one scale for each slice: the lines that were not measured left at zero, what the model makes of that, and the "
        "image from all lines. Errors are differences of magnitudes, enlarged to their own scale."
    )
    return Section("Slices", [show_comparisons([show_slice(one, names) for one in some])], note=note, needs=(PART,))


def show_slice(one: ReconstructedSlice, names: Sequence[str]) -> Content:
    given, found, truth = gray_images(one.zero_filled, one.reconstructed, one.truth)
    return show_comparison(
        names[one.number],
        given=Pane(title="zero-filled", image=given, note=f"{score(one.zero_filled, one.truth)[0]:.2f} dB"),
        restored=Pane(title="reconstructed", image=found, note=f"{score(one.reconstructed, one.truth)[0]:.2f} dB"),
        truth=Pane(title="all lines", image=truth),
        errors=True,
    )


def show_masks(some: Sequence[ReconstructedSlice], names: Sequence[str], sampling: str) -> Section:
    """Each slice's mask as an image of its k-space: white is measured, the zero frequency in the middle."""
    masks = [
        (
            Photograph(encode_exact(draw_mask(one.mask)), f"mask of {names[one.number]}", pixelated=True),
            Label(names[one.number]),
            f"{one.mask.mean():.1%} measured",
        )
        for one in some
    ]
    note = f"{sampling}. White lines of k-space were measured; low frequencies are in the middle."
    return Section("Measured lines", [templates_of(__file__).render("masks.html", masks=masks)], note=note)


def draw_mask(mask: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h2 w 1"]:
    """A mask of whole lines as a band of them; one that differs from row to row as it is."""
    rows = np.repeat(mask, BAND, axis=0) if len(mask) == 1 else mask
    return np.where(rows, 255, 0).astype(np.uint8)[:, :, None]


def show_scores(found: ReconstructionScores, names: Sequence[str]) -> Section:
    """The slices, the worst first."""
    after, before, alike = found.column("psnr"), found.column("psnr_zero_filled"), found.column("ssim")
    rows = [
        (
            Cell(Label(names[index]), names[index]),
            Cell(f"{before[n]:.2f} dB", float(before[n])),
            Cell(f"{after[n]:.2f} dB", float(after[n])),
            Cell(f"{after[n] - before[n]:+.2f} dB", float(after[n] - before[n])),
            Cell(f"{alike[n]:.4f}", float(alike[n])),
        )
        for n, index in sorted(enumerate(found.indices.tolist()), key=lambda pair: after[pair[0]])
    ]
    head = ("slice", "zero-filled", "reconstructed", "gained", "SSIM")
    filtered = "slices" if len(rows) > MANY else ""
    return Section("Every slice", [SortableTable(head, rows, ordered=(2, "ascending"), filtered=filtered)])
