"""One picture of `vitrail explain`: its part of the page, and its figures as files.

h w picture, c channels, gh gw grid
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8

from vitrail.explain.figures.maps import draw_maps
from vitrail.explain.figures.overlay import fit_between
from vitrail.files import write_whole
from vitrail.preprocessing import Preprocessing
from vitrail.rendering import to_png
from vitrail.report.explained import Choice, Explained, Panel, describe_query
from vitrail.report.page import Markup, bar, drawing, element, label, photograph, table
from vitrail.report.pictures import encode_jpeg, encode_picture, is_small
from vitrail.report.placing import crop_seen, lay_colors, lay_over

LARGE, SMALL = 480, 160  # pixels of the longer side in the page
OVERLAID = 48  # maps of all layers and heads; more are drawn without the picture below, which takes long
ANSWERS = 5


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Where the scales end that all pictures share, in times an even share."""

    shares: float
    attention: float


@dataclass(frozen=True, kw_only=True)
class Card:
    """A picture at its own resolution with all that is shown of it. It lives only while its part of the page is made."""

    number: int
    name: str
    picture: UInt8[np.ndarray, "h w c"]
    found: Explained
    colors: Float[np.ndarray, "gh gw 3"] | None
    choice: Choice
    scales: Scales
    preprocessing: Preprocessing

    @property
    def folder(self) -> str:
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(self.name).stem)[:40]
        return f"pictures/{self.number:03d}_{stem}"

    @cached_property
    def large(self) -> UInt8[np.ndarray, "_ _ c"]:
        return fit_between(self.picture, largest=LARGE)

    @cached_property
    def small(self) -> UInt8[np.ndarray, "_ _ c"]:
        return fit_between(self.picture, largest=SMALL)

    def why(self, picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "_ _ 3"]:
        """The map of the method over the picture, in one of its sizes."""
        return lay_over(picture, self.found.shares, self.scales.shares, self.preprocessing)

    def attention(
        self, picture: UInt8[np.ndarray, "h w c"], panel: Panel, *, query: tuple[int, int] | None = None
    ) -> UInt8[np.ndarray, "_ _ 3"]:
        return lay_over(picture, panel.shares, self.scales.attention, self.preprocessing, query=query)


def write_figures(card: Card, out: Path) -> dict[str, str]:
    """The files of a picture: what they show -> their path from the page."""
    folder, found = out / card.folder, card.found
    folder.mkdir(parents=True)
    files: dict[str, bytes | str] = {"overlay.jpg": encode_jpeg(card.why(card.picture))}
    if found.asked is not None:
        files["query.jpg"] = encode_jpeg(card.attention(card.picture, found.asked, query=card.choice.query))
    if found.every is not None:
        few = found.every.shape[0] * found.every.shape[1] <= OVERLAID
        seen = crop_seen(card.large, card.preprocessing) if few else None
        files["attention.png"] = to_png(draw_maps(torch.as_tensor(found.every), picture=seen, highest=card.scales.attention))
    if card.colors is not None:
        files["colors.jpg"] = encode_jpeg(lay_colors(card.picture, card.colors, card.preprocessing))
    files |= {name: text for name, text in (("lens.svg", found.lens), ("steps.svg", found.steps)) if text}
    for name, content in files.items():
        write_whole(folder / name, content)
    return {name.partition(".")[0]: f"{card.folder}/{name}" for name in files}


def show_card(card: Card, files: dict[str, str]) -> Markup:
    return element("article", *_parts(card, files), class_="card explained", id=f"picture-{card.number}")


def show_thumbnail(card: Card) -> Markup:
    """For the table of contents: a link to the card."""
    answer = card.choice.labels[int(card.found.probabilities.argmax())]
    picture = photograph(encode_jpeg(card.why(card.small)), card.name, pixelated=False)
    words = element("figcaption", element("b", label(answer, columns=24)), element("span", Path(card.name).name, class_="name"))
    return element("a", element("figure", picture, words, class_="sample"), href=f"#picture-{card.number}")


def _parts(card: Card, files: dict[str, str]) -> Iterator[Markup]:
    found, (height, width) = card.found, card.picture.shape[:2]
    explained = card.choice.labels[found.target]
    yield element("h3", element("bdi", card.name), element("span", f" {width}×{height}", class_="note"))
    shown = [
        figure(encode_picture(card.picture, largest=LARGE), "the picture", pixelated=is_small(card.picture)),
        figure(encode_jpeg(card.why(card.large)), f"why {explained}, by {card.choice.method}", link=files["overlay"]),
    ]
    if card.colors is not None:
        colored = encode_jpeg(lay_colors(card.large, card.colors, card.preprocessing))
        shown.append(figure(colored, "its tokens as colors", link=files["colors"]))
    if (asked := found.asked) is not None:
        words = f"what {describe_query(card.choice)} reads: {asked.words}"
        framed = card.attention(card.large, asked, query=card.choice.query)
        shown.append(figure(encode_jpeg(framed), words, link=files["query"]))
    yield element("div", *shown, _show_answers(card), class_="views")
    left = []
    if found.panels:
        title = "Attention by head" if card.choice.each_head else "Attention by layer"
        more = [element("a", "all layers and heads", href=files["attention"])] if "attention" in files else []
        small = (figure(encode_jpeg(card.attention(card.small, panel)), panel.words) for panel in found.panels)
        left += [element("h4", title, *more), element("div", *small, class_="panels")]
    if found.steps:
        left += [drawing(found.steps, "the six steps of self-attention for this patch", kind="wide"), _show_rows(card)]
    right = [drawing(found.lens, "what the head would say behind each layer")] if found.lens else []
    if left or right:
        yield element("div", *([element("div", *left)] if left else []), *right, class_="deep")


def figure(picture: bytes, words: str, *, pixelated: bool = False, link: str = "") -> Markup:
    shown = photograph(picture, words, pixelated=pixelated)
    return element("figure", element("a", shown, href=link) if link else shown, element("figcaption", words), class_="view")


def _show_answers(card: Card) -> Markup:
    chances, labels, target = card.found.probabilities, card.choice.labels, card.found.target
    order = np.argsort(-chances, kind="stable")[:ANSWERS].tolist()
    order += [] if target in order else [target]
    rows = (
        element(
            "tr",
            element("th", label(labels[k], columns=32), scope="row"),
            element("td", bar(float(chances[k]))),
            class_="target" if k == target else "",
        )
        for k in order
    )
    return element("div", element("table", element("tbody", *rows)), class_="answers")


def _show_rows(card: Card) -> Markup:
    head = ("patch or token", "q·k", "scaled", "weight", "weight · |value|")
    rows = [
        (row.name, f"{row.score:.3f}", f"{row.scaled:.3f}", f"{100 * row.weight:.2f} %", f"{row.length:.4f}")
        for row in card.found.rows
    ]
    return element("details", element("summary", "the same as a table"), table(head, rows))
