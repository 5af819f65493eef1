"""The palette, the house style of every figure, and a Figure as SVG text or PNG bytes.

Backgrounds are transparent and colors mid-tones, so that a figure can stand on a light or a dark page. In the SVG each color of
the palette is a CSS variable with itself as fallback, which lets the page choose, and text stays text, which lets the
reader's fonts show any alphabet.
"""

import hashlib
import io
import re
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK, STRONG, BLUE, ORANGE = "#66707d", "#3b424b", "#3a74bd", "#cc671d"
VARIABLES: Mapping[str, str] = MappingProxyType(
    {INK: "--figure-ink", STRONG: "--figure-strong", BLUE: "--figure-blue", ORANGE: "--figure-orange"}
)
STYLE: Mapping[Any, Any] = MappingProxyType(
    {
        "font.size": 9,
        "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same layout on every machine
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.linewidth": 0.7,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "lines.linewidth": 1.8,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "vitrail",
    }
)
_SETTINGS = threading.RLock()  # matplotlib's settings belong to the whole process: one thread at a time may borrow them


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save inside: matplotlib's defaults and ours, whatever the user has set; all put back afterwards."""
    with _SETTINGS, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the browser has the letters
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def new_figure(width: float, height: float) -> Figure:
    """To draw on inside `house_style`; in inches."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))


def rule(axes: Axes) -> None:
    """Faint lines to read heights by."""
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.7)


def to_svg(figure: Figure) -> str:
    """An `<svg>` element to stand inside a page: the same figure gives the same text, and two figures share no id."""
    buffer = io.StringIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<style[^>]*>[^<]*</style>", "", text)  # its rule is for "*": it would reach the whole page
    used = set(re.findall(r'(?:url\(|href=")#(\w+)', text))
    prefix = "f" + hashlib.sha256(text.encode()).hexdigest()[:8]
    # Letters of a label cannot be touched: inside text, matplotlib writes < and > as entities.
    return re.sub(r"<[^<>]+>", lambda tag: _rewrite_tag(tag[0], used, prefix), text).strip()


def _rewrite_tag(tag: str, used: set[str], prefix: str) -> str:
    """Drop the ids nobody refers to, prefix the others, and put CSS variables for the colors of the palette."""
    tag = re.sub(r' id="([^"]*)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", tag)
    tag = re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", tag)
    for color, variable in VARIABLES.items():
        tag = tag.replace(f": {color}", f": var({variable}, {color})")
    return tag


def to_png(figure: Figure, *, dpi: int = 144, background: str = "white") -> bytes:
    """The figure as a PNG file's bytes; `background="none"` leaves it transparent."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="png", dpi=dpi, facecolor=background, metadata={"Software": None})
    return buffer.getvalue()


def shorten(text: str, columns: int) -> str:
    """On one line, without control characters, at most `columns` wide, "…" where cut."""
    text = " ".join("".join("�" if unicodedata.category(c) in ("Cc", "Cs") and not c.isspace() else c for c in text).split())
    if count_columns(text) <= columns:
        return text
    while text and count_columns(text) >= columns:
        text = text[:-1]
    return text.rstrip() + "…"


def count_columns(text: str) -> int:
    """The width of a text in letters; an East Asian letter counts for two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
