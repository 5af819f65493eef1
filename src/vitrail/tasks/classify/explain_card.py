"""One image that is explained: its part of the page, and its figures as files.

h w image, c channels, gh gw grid
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from markupsafe import Markup

from vitrail.explain.figures.maps import draw_maps
from vitrail.explain.figures.overlay import fit_between
from vitrail.explain.figures.placing import crop_seen, lay_colors, lay_over
from vitrail.preprocessing import Preprocessing
from vitrail.rendering import to_png
from vitrail.report.images import encode_image, encode_jpeg, is_small
from vitrail.report.page import templates_of
from vitrail.report.parts import Bar, Drawing, Label, Photograph, Table
from vitrail.tasks.classify.explain_image import Choice, Explained, Panel, describe_query

LARGE, SMALL = 480, 160  # pixels of the longer side in the page
OVERLAID = 48  # maps of all layers and heads; more are drawn without the image below, which takes long
ANSWERS = 5


class View(NamedTuple):
    """An image with its words, and a link to a file."""

    photograph: Photograph
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Where the scales end that all images share, in times an even share."""

    shares: float
    attention: float


@dataclass(frozen=True, kw_only=True)
class Card:
    """An image at its own resolution with all that is shown of it. It lives only while its part of the page is made."""

    number: int
    name: str
    image: UInt8[np.ndarray, "h w c"]
    found: Explained
    colors: Float[np.ndarray, "gh gw 3"] | None
    choice: Choice
    scales: Scales
    preprocessing: Preprocessing

    @property
    def folder(self) -> str:
        stem = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(self.name).stem)[:40]
        return f"images/{self.number:03d}_{stem}"

    @cached_property
    def large(self) -> UInt8[np.ndarray, "_ _ c"]:
        return fit_between(self.image, largest=LARGE)

    @cached_property
    def small(self) -> UInt8[np.ndarray, "_ _ c"]:
        return fit_between(self.image, largest=SMALL)

    def why(self, image: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "_ _ 3"]:
        """The map of the method over the image, in one of its sizes."""
        return lay_over(image, self.found.shares, self.scales.shares, self.preprocessing)

    def attention(
        self, image: UInt8[np.ndarray, "h w c"], panel: Panel, *, query: tuple[int, int] | None = None
    ) -> UInt8[np.ndarray, "_ _ 3"]:
        return lay_over(image, panel.shares, self.scales.attention, self.preprocessing, query=query)


def draw_files(card: Card) -> dict[str, bytes | str]:
    """The files of an image, by their names."""
    found = card.found
    files: dict[str, bytes | str] = {"overlay.jpg": encode_jpeg(card.why(card.image))}
    if found.asked is not None:
        files["query.jpg"] = encode_jpeg(card.attention(card.image, found.asked, query=card.choice.query))
    if found.every is not None:
        few = found.every.shape[0] * found.every.shape[1] <= OVERLAID
        seen = crop_seen(card.large, card.preprocessing) if few else None
        files["attention.png"] = to_png(draw_maps(torch.as_tensor(found.every), image=seen, highest=card.scales.attention))
    if card.colors is not None:
        files["colors.jpg"] = encode_jpeg(lay_colors(card.image, card.colors, card.preprocessing))
    return files | {name: text for name, text in (("lens.svg", found.lens), ("steps.svg", found.steps)) if text}


def show_thumbnail(card: Card) -> Markup:
    """For the table of contents: a link to the card."""
    label = Label(card.choice.labels[int(card.found.probabilities.argmax())], columns=24)
    image = Photograph(encode_jpeg(card.why(card.small)), card.name)
    return templates_of(__file__).render(
        "thumbnail.html", number=card.number, image=image, label=label, name=Path(card.name).name
    )


def show_card(card: Card, files: dict[str, str]) -> Markup:
    """`files`: what each shows -> its path from the page."""
    found, (height, width) = card.found, card.image.shape[:2]
    return templates_of(__file__).render(
        "card.html",
        number=card.number,
        name=card.name,
        size=f"{width}×{height}",
        views=list_views(card, files),
        answers=list_answers(card),
        attention="Attention by head" if card.choice.each_head else "Attention by layer",
        all_heads=files.get("attention"),
        panels=[View(Photograph(encode_jpeg(card.attention(card.small, panel)), panel.words)) for panel in found.panels],
        steps=Drawing(found.steps, "the six steps of self-attention for this patch", kind="wide") if found.steps else None,
        rows=list_rows(card),
        lens=Drawing(found.lens, "what the head would say behind each layer") if found.lens else None,
    )


def list_views(card: Card, files: dict[str, str]) -> list[View]:
    found, explained = card.found, card.choice.labels[card.found.target]
    shown = [
        View(Photograph(encode_image(card.image, largest=LARGE), "the image", pixelated=is_small(card.image))),
        View(
            Photograph(encode_jpeg(card.why(card.large)), f"why {explained}, by {card.choice.method}"), files.get("overlay", "")
        ),
    ]
    if card.colors is not None:
        colored = encode_jpeg(lay_colors(card.large, card.colors, card.preprocessing))
        shown.append(View(Photograph(colored, "its tokens as colors"), files.get("colors", "")))
    if (asked := found.asked) is not None:
        words = f"what {describe_query(card.choice)} reads: {asked.words}"
        framed = card.attention(card.large, asked, query=card.choice.query)
        shown.append(View(Photograph(encode_jpeg(framed), words), files.get("query", "")))
    return shown


def list_answers(card: Card) -> list[tuple[Label, Bar, bool]]:
    """The likeliest classes and the target: name, probability, whether it is the target."""
    probabilities, labels, target = card.found.probabilities, card.choice.labels, card.found.target
    order = np.argsort(-probabilities, kind="stable")[:ANSWERS].tolist()
    order += [] if target in order else [target]
    return [(Label(labels[k], columns=32), Bar(float(probabilities[k])), k == target) for k in order]


def list_rows(card: Card) -> Table:
    head = ("patch or token", "q·k", "scaled", "weight", "weight · |value|")
    rows = [
        (row.name, f"{row.score:.3f}", f"{row.scaled:.3f}", f"{100 * row.weight:.2f} %", f"{row.length:.4f}")
        for row in card.found.rows
    ]
    return Table(head, rows)
