"""The section that shows where the model looks, picture by picture, on one scale."""

from vitrail.data.images import PictureError
from vitrail.explain.figures.overlay import overlay, scale
from vitrail.report.contents import ClassificationReport
from vitrail.report.looks import Looks
from vitrail.report.page import Markup, element, photograph, section
from vitrail.report.pictures import LARGEST, encode_picture
from vitrail.report.samples import caption, show_picture


def show_looks(report: ClassificationReport, looks: Looks | str) -> Markup:
    if isinstance(looks, str):
        return section("Where it looks", note=f"Not shown: {looks}.")
    pictures = (_show_look(report, looks, number) for number in range(len(looks.indices)))
    note = (
        f"Shown: {looks.words}. Interpolated between the {looks.maps.shape[1]}×{looks.maps.shape[2]} patches; all on one scale."
    )
    legend = element(
        "div",
        element("span", "0"),
        photograph(encode_picture(scale(looks.highest)), "scale from nothing to much", pixelated=False),
        element("span", f"{looks.highest:g} times an even share, or more"),
        class_="legend",
    )
    return section("Where it looks", legend, element("div", *pictures, class_="looks"), note=note)


def _show_look(report: ClassificationReport, looks: Looks, number: int) -> Markup:
    index = int(looks.indices[number])
    try:
        map_over = overlay(report.picture(index), looks.maps[number], looks.highest, largest=LARGEST)
    except PictureError:
        return element("figure", element("div", "no longer there", class_="gone"), class_="sample")
    both = element(
        "div",
        show_picture(report, index),
        photograph(encode_picture(map_over), "where the model looks", pixelated=False),
        class_="two",
    )
    return element("figure", both, caption(report, index), class_="sample wrong" if report.wrong[index] else "sample")
