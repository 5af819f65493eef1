"""The values that pages are made of: names, bars, drawings, images, tables. How each looks is a macro of parts.html.

A value stands in a template, or in a section's body, as it is: it renders itself.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from vitrail.data.class_colors import Color
from vitrail.rendering import shorten
from vitrail.report.page import Content, templates_of

Direction = Literal["ascending", "descending"]


class Part:
    """Something that a macro lays out."""

    __slots__ = ()
    macro: ClassVar[str]

    def __html__(self) -> str:
        made: str = getattr(templates_of(__file__).macros("parts.html"), self.macro)(self)
        return made


@dataclass(frozen=True, slots=True)
class Label(Part):
    """A class name: of any length, in any alphabet and direction, without disturbing the line it stands in.

    A line may break behind _ - and /, where people would break such names themselves.
    """

    macro: ClassVar[str] = "label"
    name: str
    columns: int = 120

    @property
    def pieces(self) -> list[str]:
        return re.split(r"(?<=[_/-])(?=\w)", shorten(self.name, self.columns))


@dataclass(frozen=True, slots=True)
class Confused(Part):
    """Two classes in a line, one taken for the other."""

    macro: ClassVar[str] = "confused"
    true: Label
    predicted: Label

    @classmethod
    def of(cls, true: str, predicted: str) -> "Confused":
        return cls(Label(true, columns=40), Label(predicted, columns=40))


@dataclass(frozen=True, slots=True)
class ClassName(Part):
    """A class by its color and name."""

    macro: ClassVar[str] = "class_name"
    name: str
    color: Color

    @property
    def label(self) -> Label:
        return Label(self.name, columns=32)


@dataclass(frozen=True, slots=True)
class Legend(Part):
    """Classes in one line."""

    macro: ClassVar[str] = "legend"
    classes: Sequence[ClassName]


@dataclass(frozen=True, slots=True)
class Bar(Part):
    """A share as a number with a bar behind it."""

    macro: ClassVar[str] = "bar"
    share: float

    @property
    def words(self) -> str:
        return percent(self.share)


READABLE = 9  # pixels: the smallest text of a figure on any screen; a narrower one scrolls


@dataclass(frozen=True, slots=True)
class Drawing(Part):
    """A figure of ours. Its SVG is trusted: matplotlib escaped the texts in it."""

    macro: ClassVar[str] = "drawing"
    svg: str
    description: str
    kind: str = ""

    @property
    def style(self) -> str:
        size = re.search(r'viewBox="0 0 ([\d.]+)', self.svg)
        if size is None:
            return ""
        fonts = [float(font) for font in re.findall(r"font(?:-size)?: ?(?:[\w ]+ )?([\d.]+)px", self.svg)]
        readable = f"; --readable: {float(size[1]) * READABLE / min(fonts):.0f}px" if fonts else ""
        return f"--natural: {size[1]}px{readable}"


@dataclass(frozen=True, slots=True)
class Photograph(Part):
    """A PNG, WebP or JPEG image of the data, in the page itself."""

    macro: ClassVar[str] = "photograph"
    image: bytes
    description: str
    pixelated: bool = False  # whether its pixels are to be seen

    @property
    def source(self) -> str:
        kind = "png" if self.image.startswith(b"\x89PNG") else "webp" if self.image.startswith(b"RIFF") else "jpeg"
        return f"data:image/{kind};base64,{base64.b64encode(self.image).decode()}"


@dataclass(frozen=True, slots=True)
class Poster(Photograph):
    """A PNG image with texts in it, in a box of its own: so wide that its smallest text, `font` pixels of the image high, can be read."""

    macro: ClassVar[str] = "poster"
    font: int = 14  # seven points in what `to_png` makes

    @property
    def style(self) -> str:
        width = int.from_bytes(self.image[16:20], "big")  # where PNG has it
        return f"--readable: {-(-width * READABLE // self.font)}px"


@dataclass(frozen=True, slots=True)
class Scale(Part):
    """The legend of a color scale: from 0 to what `words` say."""

    macro: ClassVar[str] = "scale"
    ramp: Photograph
    words: str


@dataclass(frozen=True, slots=True)
class Definitions(Part):
    """Name above (facts) or beside (options) value."""

    macro: ClassVar[str] = "described"
    pairs: Mapping[str, str]
    kind: str


@dataclass(frozen=True, slots=True)
class Bullets(Part):
    """A list."""

    macro: ClassVar[str] = "bullets"
    lines: Sequence[str]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph(Part):
    macro: ClassVar[str] = "paragraph"
    content: Content
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table(Part):
    """The first column is what a row is about; the others are numbers."""

    macro: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[Content]]


class Cell(NamedTuple):
    """What a sortable table shows, and what it sorts by: a number (NaN: always last) or a text."""

    content: Content
    value: float | str

    @property
    def sorts_by(self) -> str:
        value = self.value
        return value if isinstance(value, str) else "" if value != value else f"{value:.9g}"


@dataclass(frozen=True, slots=True)
class SortableTable(Part):
    """A table that page.js sorts by its headers. `ordered`: the column that `rows` are sorted by now, and which way.

    `filtered` names what the rows are ("classes") where there are so many that one wants to search them; `card` is the class of a box
    around it.
    """

    macro: ClassVar[str] = "sortable_table"
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    ordered: tuple[int, Direction] | None = None
    filtered: str = ""
    card: str = ""


@dataclass(frozen=True, slots=True)
class Insight:
    """A drawing with its title and a link to its file above, or a note below."""

    drawing: Drawing
    title: str = ""
    link: str = ""
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Insights(Part):
    """Drawings side by side where there is room."""

    macro: ClassVar[str] = "insights"
    some: Sequence[Insight]


class LinkedFigure(NamedTuple):
    """An image of a page that is a file beside it too."""

    photograph: Photograph
    words: str
    link: str


@dataclass(frozen=True, slots=True)
class LinkedFigures(Part):
    macro: ClassVar[str] = "linked_figures"
    some: Sequence[LinkedFigure]
    kind: str = "looks"


def percent(share: float, *, digits: int = 1) -> str:
    """0.5 as "50.0 %"; a dash where the share is not a number."""
    return "–" if share != share else f"{100 * share:.{digits}f} %"


def spell_options(options: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Options as words: nested ones under dotted names, no value as a dash."""
    found: dict[str, str] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            found |= spell_options(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            found[f"{prefix}{key}"] = ", ".join(map(str, value)) or "–"
        elif isinstance(value, bool):
            found[f"{prefix}{key}"] = "true" if value else "false"
        else:
            found[f"{prefix}{key}"] = "–" if value is None or value == "" else str(value)
    return found
