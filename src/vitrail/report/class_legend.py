"""A class by its color and name."""

from vitrail.data.class_colors import Color
from vitrail.report.page import Markup, element, join, label


def show_class(name: str, color: Color) -> Markup:
    square = f"display:inline-block;width:.9em;height:.9em;border-radius:.2em;margin:0 .35em 0 0;background:rgb{color}"
    words = element("span", element("span", style=square), label(name, columns=32), style="margin-right:1em;white-space:nowrap")
    return join(words, " ")
