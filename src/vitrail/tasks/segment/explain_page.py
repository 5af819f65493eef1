"""The sections of a segmenter's explanation: each image with its classes, how sure they are, and class by class what speaks for them.

h w image, k classes
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.class_colors import Color
from vitrail.data.mask_painting import paint_over
from vitrail.explain.figures.overlay import fit_between, overlay, scale_end
from vitrail.explain.pixels import PixelLook, on_image
from vitrail.report.boxes import Drawn, draw_boxes
from vitrail.report.explanation import link_figures
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import ClassName, Label, Legend, Paragraph, percent

RELEVANCE = "relevance"
NONE = np.zeros(0)
SMALLEST, LARGEST = 240, 480  # pixels of the longer side of a map
FRAME = "#ffffff"  # around the cell that asks
METHOD_WORDS = {
    "occlusion": "What its pixels rest on: how far their log-odds drop when a cell is hidden",
    "gradient": "What its pixels rest on: the gradient of their log-odds times the image",
}


@dataclass(frozen=True, kw_only=True)
class ExplainedPixels:
    """An image with its classes at its own size, and the looks at some of them, on images of `size` that were padded to `padded`."""

    name: str
    image: UInt8[np.ndarray, "h w 3"]
    numbers: Int[np.ndarray, "h w"]
    unsure: Float[Tensor, "_ _"]
    probabilities: Mapping[int, Float[Tensor, "_ _"]]  # of the classes that are looked at
    looks: Sequence[PixelLook]
    size: tuple[int, int]
    padded: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Palette:
    labels: Sequence[str]
    colors: Sequence[Color]

    def name(self, number: int) -> ClassName:
        return ClassName(self.labels[number], self.colors[number])


class Choice(NamedTuple):
    """What is shown: layer and head count from 0."""

    method: str
    layer: int | None = None
    head: int | None = None


def name_maps(look: PixelLook, choice: Choice) -> Iterator[tuple[str, str, Float[Tensor, "_ _"], bool]]:
    """File name, words and map of each, and whether the cell that asks is to be seen on it."""
    method, layer, head = choice
    yield RELEVANCE, METHOD_WORDS[method], look.relevance, False
    for number, maps in enumerate(look.head):
        last = "" if len(look.head) == 1 else f", block {number}"
        yield f"class_{number}", f"What the class's own query reads in the head{last}, mean over the heads", maps.mean(0), False
        if number == len(look.head) - 1:
            for which, one in enumerate(maps):
                if head is None or which == head:
                    yield f"class_{number}_head_{which}", f"The same{last}, head {which}", one, False
    for number, maps in enumerate(look.encoder):
        yield (
            f"encoder_{number}",
            f"What the framed cell reads, layer {number} of the encoder, mean over the heads",
            maps.mean(0),
            True,
        )
    if look.encoder:
        chosen = len(look.encoder) - 1 if layer is None else layer
        for number, one in enumerate(look.encoder[chosen]):
            if head is None or number == head:
                yield f"encoder_{chosen}_head_{number}", f"Layer {chosen} of the encoder, head {number}", one, True


def show_look(
    shown: ExplainedPixels, look: PixelLook, palette: Palette, choice: Choice, folder: str
) -> tuple[Content, Mapping[str, bytes]]:
    """How likely the class is, and its maps, all of them on one scale; and the files of them."""
    maps = [
        (name, words, on_image(one, shown.padded, shown.size), framed) for name, words, one, framed in name_maps(look, choice)
    ]
    ends = {
        of: scale_end(
            np.concatenate([one.cpu().numpy().ravel() for name, _, one, _ in maps if (name == RELEVANCE) == of] or [NONE])
        )
        for of in (True, False)
    }  # what pixels rest on is another quantity than attention
    figures = {"probability": ("How likely it is: yellow is 1", lay(shown.image, shown.probabilities[look.label], 1.0))}
    for name, words, one, framed in maps:
        pixels = lay(shown.image, one, ends[name == RELEVANCE])
        figures[name] = (words, frame(pixels, look, shown) if framed else pixels)
    name = palette.labels[look.label]
    note = (
        f"{percent(look.share)} of the pixels, {percent(look.sure)} sure on average."
        if look.share
        else f"No pixel is {name} here: shown is where it is likeliest, with {percent(look.sure)}."
    )
    scale = f" Yellow is {ends[True]:g} times an even share, or more, of what its pixels rest on"
    if len(maps) > 1:
        scale += f", and {ends[False]:g} times of attention"
    scale += f"; the frame is around row {look.cell[0]}, column {look.cell[1]}." if look.encoder else "."
    linked, files = link_figures(figures, folder, prefix=f"class_{look.label}_")
    card = templates_of(__file__).render("look.html", name=palette.name(look.label), note=note + scale, figures=linked)
    return card, files


def lay(image: UInt8[np.ndarray, "h w 3"], one: Float[Tensor, "_ _"], highest: float) -> UInt8[np.ndarray, "y x 3"]:
    return overlay(image, one.float(), highest, smallest=SMALLEST, largest=LARGEST)


def frame(pixels: UInt8[np.ndarray, "y x 3"], look: PixelLook, shown: ExplainedPixels) -> UInt8[np.ndarray, "y x 3"]:
    """With a line around the cell that asks."""
    (rows, columns), (row, column) = look.grid, look.cell
    down = shown.padded[0] / rows * len(pixels) / shown.size[0]
    across = shown.padded[1] / columns * pixels.shape[1] / shown.size[1]
    box = [column * across, row * down, (column + 1) * across, (row + 1) * down]
    return np.asarray(draw_boxes(Image.fromarray(pixels), [Drawn(box, FRAME)], least=1))


def show_image(number: int, shown: ExplainedPixels, palette: Palette, choice: Choice) -> Section:
    folder = f"image_{number}"
    fitted = fit_between(shown.image, smallest=SMALLEST, largest=LARGEST)
    painted = fit_between(paint_over(shown.image, shown.numbers, palette.colors), smallest=SMALLEST, largest=LARGEST)
    figures = {
        "image": ("The image", fitted),
        "answer": ("The class of each pixel", painted),
        "unsure": ("How unsure it is: entropy, yellow where it knows nothing", lay(shown.image, shown.unsure, 1.0)),
    }
    there = torch.bincount(torch.from_numpy(shown.numbers.ravel().astype(np.int64)), minlength=len(palette.labels))
    order = there.argsort(descending=True).tolist()
    legend = Legend([palette.name(one) for one in order if there[one]])
    linked, whole = link_figures(figures, folder)
    body, files = list[Content](), dict[str, bytes | str](whole)
    body += [Paragraph(Label(shown.name)), templates_of(__file__).render("whole.html", legend=legend, figures=linked)]
    for look in shown.looks:
        card, made = show_look(shown, look, palette, choice, folder)
        body.append(card)
        files |= made
    return Section(f"Image {number}", body, files=files)
