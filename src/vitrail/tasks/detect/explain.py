"""Explaining where a detector looks: the boxes of each image with the highest scores, and what the model attends to for each.

h w image, gh gw grid
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from vitrail.data.images import read_image
from vitrail.data.inputs import expand as find_samples
from vitrail.data.transforms import prepare
from vitrail.explain.boxes import BoxLook, look_at_boxes
from vitrail.explain.figures.overlay import overlay, scale_end
from vitrail.explain.files import check_target
from vitrail.explain.record import choose
from vitrail.explain.samples import Samples
from vitrail.models.catalogue import describe_architecture
from vitrail.models.detr import Detector, usual_threshold
from vitrail.nn.functional.boxes import to_corners
from vitrail.report.boxes import Drawn, class_color, draw_boxes
from vitrail.report.explanation import Explanation, Figures, count_words, link_figures, list_unread
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Label, Paragraph
from vitrail.tasks.detect.data import labels_of
from vitrail.tasks.detect.options import ExplainOptions

__all__ = ["UNIT", "explain", "find_samples"]

UNIT = "image"
MOST = 5  # boxes of an image
LARGEST = 480  # pixels of the longer side of a map


class Choice(NamedTuple):
    """Block of the decoder and head, counted from 0; None: the last block, all heads."""

    layer: int | None
    head: int | None


@dataclass(frozen=True, kw_only=True)
class ExplainedImage:
    """An image with the looks at its boxes."""

    name: str
    image: UInt8[np.ndarray, "h w 3"]
    looks: Sequence[BoxLook]


def name_maps(look: BoxLook, choice: Choice) -> Iterator[tuple[str, str, Float[Tensor, "gh gw"]]]:
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
    chosen = len(look.decoder) - 1 if choice.layer is None else choice.layer
    for number, one in enumerate(look.decoder[chosen]):
        if choice.head in (None, number):
            yield f"decoder_{chosen}_head_{number}", f"Block {chosen}, head {number}", one


def explain(model: Detector, samples: Samples[Path], options: ExplainOptions) -> Explanation:
    """The boxes of each image with the highest scores, or those of one class, or one by its number."""
    labels = labels_of(model)
    check_target(options.target, labels)
    choice = choose_layer(model, options)
    shown = list(samples.each(lambda path: explain_image(model, path, labels, options)))
    height, width = model.image_size
    boxes = sum(len(one.looks) for one in shown)
    return Explanation(
        title="where it looks for objects",
        method="attention",
        details={
            "Model": describe_architecture(model),
            "It sees": f"{width}×{height} pixels, all of an image",
            "Queries": f"{model.config.queries}",
        },
        sections=chain(
            list_unread(samples.errors), (show_image(number, one, labels, choice) for number, one in enumerate(shown))
        ),
        headline=lambda: f"{count_words(boxes, 'box', 'boxes')} in {count_words(len(shown), 'image')}, explained by attention",
    )


def choose_layer(model: Detector, options: ExplainOptions) -> Choice:
    """Block of the decoder and head counted from 0; both exist."""
    blocks, heads = model.config.decoder_depth, model.config.heads
    layer = None if options.layer is None else choose([options.layer], blocks, "layer", "the decoder")[0]
    head = None if options.head is None else choose([options.head], heads, "head", "the decoder")[0]
    return Choice(layer, head)


def explain_image(model: Detector, path: Path, labels: tuple[str, ...], options: ExplainOptions) -> ExplainedImage:
    """The image's boxes by score; where one is asked for by its number, or by its class, no score is too low."""
    image = read_image(path)
    asked = options.box is not None or options.target is not None
    threshold = 0.0 if asked else usual_threshold(model.config)
    looks = look_at_boxes(model, prepare([image], model.preprocessing), threshold=threshold, most=model.config.queries)
    if options.target is not None:
        looks = [look for look in looks if labels[look.label] == options.target]
    if options.box is not None:
        looks = [looks[choose([options.box], len(looks), "box", str(path))[0]]]
    return ExplainedImage(name=str(path), image=np.asarray(image.convert("RGB")), looks=looks[:MOST])


def show_image(number: int, shown: ExplainedImage, labels: Sequence[str], choice: Choice) -> Section:
    """Its boxes, and the maps of each as files."""
    body, files = list[Content]([Paragraph(Label(shown.name))]), dict[str, bytes | str]()
    for look in shown.looks:
        figures, highest = draw_look(shown, look, labels, choice)
        linked, made = link_figures(figures, f"image_{number}", prefix=f"query_{look.query}_")
        files |= made
        body.append(
            templates_of(__file__).render(
                "look.html",
                name=Label(labels[look.label]),
                words=f"{look.score:.2f}, query {look.query}",
                note=f"Yellow: {highest:g} times an even share of the attention, or more.",
                figures=linked,
            )
        )
    if not shown.looks:
        body.append(Paragraph("No box has the score that is asked for.", "note"))
    return Section(f"Image {number}", body, files=files)


def draw_look(shown: ExplainedImage, look: BoxLook, labels: Sequence[str], choice: Choice) -> tuple[Figures, float]:
    """The box on its image, and its maps, all on one scale; and where the scale ends."""
    height, width = shown.image.shape[:2]
    corners = (to_corners(torch.tensor(look.box)).clamp(0, 1) * torch.tensor([width, height, width, height])).tolist()
    frame = Drawn(corners, class_color(look.label), f"{labels[look.label]} {look.score:.2f}")
    figures = {"box": ("The box", np.asarray(draw_boxes(Image.fromarray(shown.image), [frame])))}
    maps = list(name_maps(look, choice))
    cells = maps[0][2].numel()
    highest = scale_end(np.concatenate([cells * one.numpy().ravel() for _, _, one in maps]))
    for name, words, one in maps:
        laid = overlay(shown.image, cells * one.numpy(), highest, largest=LARGEST)
        scale = len(laid) / height
        drawn = draw_boxes(Image.fromarray(laid), [Drawn([scale * side for side in corners], class_color(look.label))], least=1)
        figures[name] = (words, np.asarray(drawn))
    return figures, highest
