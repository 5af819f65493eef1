"""index.html of `vitrail explain` for a detector: box by box where it looked for it.

h w image, gh gw grid
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from vitrail.explain.boxes import BoxLook
from vitrail.explain.figures.overlay import overlay, scale_end
from vitrail.files import write_whole
from vitrail.nn.functional.boxes import to_corners
from vitrail.report.boxes import Drawn, class_color, draw_boxes
from vitrail.report.map_files import show_figures
from vitrail.report.page import Markup, contents, element, label, page, section
from vitrail.report.run_parts import show_header

PAGE = "index.html"
LARGEST = 480  # pixels of the longer side of a map


@dataclass(frozen=True, kw_only=True)
class ExplainedImage:
    """An image with the looks at its boxes."""

    name: str
    image: UInt8[np.ndarray, "h w 3"]
    looks: Sequence[BoxLook]


def name_maps(look: BoxLook, *, layer: int | None, head: int | None) -> Iterator[tuple[str, str, Float[Tensor, "gh gw"]]]:
    """File name, words and map of each: the encoder from the box's middle, every block of the decoder as the mean over its heads, and the
    heads of one block, by default the last."""
    if look.encoder is not None:
        yield (
            "encoder",
            "What the middle of the box reads, last block of the encoder, mean over the heads",
            look.encoder.mean(0),
        )
    for number, maps in enumerate(look.decoder):
        yield f"decoder_{number}", f"What the query reads, block {number} of the decoder, mean over the heads", maps.mean(0)
    chosen = len(look.decoder) - 1 if layer is None else layer
    for number, one in enumerate(look.decoder[chosen]):
        if head is None or number == head:
            yield f"decoder_{chosen}_head_{number}", f"Block {chosen}, head {number}", one


def show_look(
    shown: ExplainedImage,
    look: BoxLook,
    labels: Sequence[str],
    out: Path,
    folder: str,
    *,
    layer: int | None,
    head: int | None,
) -> Markup:
    """The box on its image, and its maps, all on one scale; each is a file too."""
    height, width = shown.image.shape[:2]
    corners = (to_corners(torch.tensor(look.box)).clamp(0, 1) * torch.tensor([width, height, width, height])).tolist()
    frame = Drawn(corners, class_color(look.label), f"{labels[look.label]} {look.score:.2f}")
    files = {"box": ("The box", np.asarray(draw_boxes(Image.fromarray(shown.image), [frame])))}
    maps = list(name_maps(look, layer=layer, head=head))
    cells = maps[0][2].numel()
    highest = scale_end(np.concatenate([cells * one.numpy().ravel() for _, _, one in maps]))
    for name, words, one in maps:
        laid = overlay(shown.image, cells * one.numpy(), highest, largest=LARGEST)
        scale = len(laid) / height
        drawn = draw_boxes(Image.fromarray(laid), [Drawn([scale * side for side in corners], class_color(look.label))], least=1)
        files[name] = (words, np.asarray(drawn))
    figures = show_figures(files, out, folder, prefix=f"query_{look.query}_")
    title = element("h3", label(labels[look.label]), f" {look.score:.2f}, query {look.query}")
    note = element("p", f"Yellow: {highest:g} times an even share of the attention, or more.", class_="note")
    return element("div", title, note, figures, class_="card explained")


def write_looks(
    title: str,
    details: Mapping[str, str],
    images: Sequence[ExplainedImage],
    labels: Sequence[str],
    *,
    unread: Sequence[str],
    out: Path,
    layer: int | None = None,
    head: int | None = None,
) -> Path:
    """The page, and a folder of maps for each image."""
    boxes = sum(len(one.looks) for one in images)
    header = show_header(
        title,
        f"{boxes} box{'es' * (boxes != 1)} in {len(images)} image{'s' * (len(images) != 1)}, explained by attention",
        interval="",
        numbers={},
        facts=details,
    )
    sections = [section("Not read", element("ul", *(element("li", line) for line in unread)))] if unread else []
    for number, one in enumerate(images):
        folder = f"picture_{number}"
        (out / folder).mkdir()
        cards = [show_look(one, look, labels, out, folder, layer=layer, head=head) for look in one.looks]
        none = [] if cards else [element("p", "No box has the score that is asked for.", class_="note")]
        sections.append(section(f"Image {number}", element("p", label(one.name)), *none, *cards))
    write_whole(out / PAGE, page(title, header, contents(sections), *sections))
    return out / PAGE
