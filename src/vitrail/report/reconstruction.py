"""report.html of an MRI run: zero-filled, reconstructed and true slices with their errors, the masks, every slice's score.

h w picture, n slices
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, UInt8

from vitrail.files import write_whole
from vitrail.report.compare import PART, Pane, gray_pictures, show_comparison
from vitrail.report.page import Cell, Markup, contents, element, label, page, photograph, section, sortable_table
from vitrail.report.pictures import encode_exact
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options
from vitrail.tasks.reconstruct import ReconstructedSlice, ReconstructionScores, score

BAND = 24  # pixels: how tall a mask that is the same for all rows is drawn
MANY = 12  # slices, above which a table can be searched


@dataclass(frozen=True, kw_only=True)
class ReconstructionReport:
    """What the report shows of a run. `names` are the slices', by number; `sampling` says in words which lines were measured."""

    title: str
    headline: str
    found: ReconstructionScores
    names: Sequence[str]
    sampling: str
    facts: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Mapping[str, float | int]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_reconstruction_report(report: ReconstructionReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    metrics = report.found.metrics
    gain = metrics["psnr"] - metrics["psnr_zero_filled"]
    numbers = {
        "zero-filled": f"{metrics['psnr_zero_filled']:.2f} dB",
        "gained": f"{gain:+.2f} dB",
        "SSIM": f"{metrics['ssim']:.4f}",
        "SSIM zero-filled": f"{metrics['ssim_zero_filled']:.4f}",
    }
    header = show_header(report.title, report.headline, interval="", numbers=numbers, facts=report.facts)
    sections = list(_sections(report))
    write_whole(path, page(report.title, header, contents(sections), *sections, parts=(PART,)))


def _sections(report: ReconstructionReport) -> Iterator[Markup]:
    if report.history:
        yield show_curves(report.history)
    if report.found.examples:
        yield show_slices(report.found.examples, report.names)
        yield show_masks(report.found.examples, report.names, report.sampling)
    if len(report.found.rows):
        yield show_scores(report.found, report.names)
    if report.commands:
        yield show_commands(report.commands)
    if report.configuration:
        yield show_options(report.configuration)


def show_slices(some: Sequence[ReconstructedSlice], names: Sequence[str]) -> Markup:
    note = (
        "Magnitudes, on one scale for each slice: the lines that were not measured left at zero, what the model makes of that, and the "
        "picture from all lines. Errors are differences of magnitudes, enlarged to their own scale."
    )
    return section("Slices", element("div", *(show_slice(one, names) for one in some), class_="comparisons"), note=note)


def show_slice(one: ReconstructedSlice, names: Sequence[str]) -> Markup:
    given, found, truth = gray_pictures(one.zero_filled, one.reconstructed, one.truth)
    return show_comparison(
        names[one.number],
        given=Pane(title="zero-filled", picture=given, note=f"{score(one.zero_filled, one.truth)[0]:.2f} dB"),
        restored=Pane(title="reconstructed", picture=found, note=f"{score(one.reconstructed, one.truth)[0]:.2f} dB"),
        truth=Pane(title="all lines", picture=truth),
        errors=True,
    )


def show_masks(some: Sequence[ReconstructedSlice], names: Sequence[str], sampling: str) -> Markup:
    """Each slice's mask as a picture of its k-space: white is measured, the zero frequency in the middle."""
    figures = (
        element(
            "figure",
            photograph(encode_exact(draw_mask(one.mask)), f"mask of {names[one.number]}", pixelated=True),
            element("figcaption", label(names[one.number]), f" {one.mask.mean():.1%} measured"),
        )
        for one in some
    )
    note = f"{sampling}. White lines of k-space were measured; low frequencies are in the middle."
    return section("Measured lines", element("div", *figures, class_="zooms"), note=note)


def draw_mask(mask: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h2 w 1"]:
    """A mask of whole lines as a band of them; one that differs from row to row as it is."""
    rows = np.repeat(mask, BAND, axis=0) if len(mask) == 1 else mask
    return np.where(rows, 255, 0).astype(np.uint8)[:, :, None]


def show_scores(found: ReconstructionScores, names: Sequence[str]) -> Markup:
    """The slices, the worst first."""
    after, before, alike = found.column("psnr"), found.column("psnr_zero_filled"), found.column("ssim")
    rows = [
        (
            Cell(label(names[index]), names[index]),
            Cell(f"{before[n]:.2f} dB", float(before[n])),
            Cell(f"{after[n]:.2f} dB", float(after[n])),
            Cell(f"{after[n] - before[n]:+.2f} dB", float(after[n] - before[n])),
            Cell(f"{alike[n]:.4f}", float(alike[n])),
        )
        for n, index in sorted(enumerate(found.indices.tolist()), key=lambda pair: after[pair[0]])
    ]
    head = ("slice", "zero-filled", "reconstructed", "gained", "SSIM")
    filtered = "slices" if len(rows) > MANY else ""
    return section("Every slice", sortable_table(head, rows, ordered=(2, "ascending"), filtered=filtered))
