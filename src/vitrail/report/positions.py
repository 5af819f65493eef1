"""The section that shows what a model's positions know of the grid  [Dosovitskiy+ 2021, fig. 7 middle]."""

from vitrail.explain.figures.similarity import SHOWN, draw_similarity
from vitrail.explain.positions import Similarity
from vitrail.rendering import to_svg
from vitrail.report.page import Markup, drawing, section


def show_positions(similarity: Similarity | str) -> Markup:
    if isinstance(similarity, str):
        return section("Positions", note=similarity)
    note = (
        "How alike the position of a patch is to that of every patch: each small map belongs to the patch at its place in the "
        "grid, and shows the whole grid. Maps that brighten at their own row and column mean that the model knows its neighbors. "
        f"Shown: {similarity.words}."
    )
    rows, columns = similarity.maps.shape[:2]
    some = f" {min(rows, SHOWN)}×{min(columns, SHOWN)} of {rows}×{columns} maps." if max(rows, columns) > SHOWN else ""
    return section(
        "Positions",
        drawing(to_svg(draw_similarity(similarity)), "similarity of positions", kind="positions"),
        note=note + some,
    )
