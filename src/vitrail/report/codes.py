"""Sections of the report about visual codes: how they are used, what is drawn from them, how well masked ones are named.

b batch, ch channels, h w image, gh gw grid
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from vitrail.data.transforms import to_bytes
from vitrail.errors import VitrailError
from vitrail.explain.figures.overlay import scale_end, times_even
from vitrail.explain.figures.references import draw_references
from vitrail.explain.reference_points import reference_points
from vitrail.learn.metrics.code_usage import Usage, describe_usage, warn_of_collapse
from vitrail.models.classifier import Classifier
from vitrail.preprocessing import Preprocessing
from vitrail.rendering import BLUE, INK, house_style, new_figure, to_svg
from vitrail.report.images import encode_image, is_small
from vitrail.report.page import Section, templates_of
from vitrail.report.parts import Drawing, Paragraph, Photograph, percent

MASKED = 128  # the gray of a masked patch


class Named(NamedTuple):
    """An image with what is visible of it, and what is drawn from its codes."""

    words: str
    views: list[Photograph]


def show_usage(usage: Usage) -> Section:
    """The codes from the most frequent to the rarest, and a warning where few are in use."""
    numbers = (usage.used, usage.perplexity, len(usage.counts))
    note = f"On the validation images {describe_usage(*numbers)}."
    warning = warn_of_collapse(*numbers)
    words = [Paragraph(f"Warning: {warning}.", "note")] if warning else []
    return Section("Its vocabulary", [*words, Drawing(to_svg(draw_usage(usage)), "how often each code is used")], note=note)


def draw_usage(usage: Usage) -> Figure:
    """Sorted, in times an even share."""
    shares = np.sort(usage.counts)[::-1] * (len(usage.counts) / max(1, usage.counts.sum()))
    with house_style():
        figure = new_figure(6.4, 2.6)
        axes = figure.subplots()
        axes.fill_between(np.arange(len(shares) + 1), np.append(shares, 0.0), step="post", color=BLUE, linewidth=0)
        axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, len(shares)), ylim=(0, None), xlabel="codes, the most frequent first")
        axes.set_title("How often a code is used, in times an even share", loc="left")
        return figure


def show_drawn(images: Float[Tensor, "b ch h w"], drawn: Float[Tensor, "b ch h w"], preprocessing: Preprocessing) -> Section:
    """Validation images, and what is drawn from their likeliest codes."""
    pairs = zip(to_bytes(images, preprocessing), to_bytes(drawn, preprocessing), strict=True)
    shown = [(show(image, "image"), show(again, "from its codes")) for image, again in pairs]
    note = "Left the image, right what is drawn from the likeliest code of each patch."
    return Section("Images from their codes", [templates_of(__file__).render("codes_drawn.html", pairs=shown)], note=note)


def show_named(
    images: Float[Tensor, "b ch h w"],
    masked: Bool[Tensor, "b gh gw"],
    true: Float[Tensor, "b ch h w"],
    predicted: Float[Tensor, "b ch h w"],
    *,
    right: Bool[Tensor, "b gh gw"],
    given: Preprocessing,
    tokenizer: Preprocessing,
) -> Section:
    """The image, what is visible of it, and what the tokenizer draws: from the true codes, and with those that the model names in the
    place of masked ones. `right`: where a code is the true one."""
    originals = to_bytes(images, given)
    rows = zip(
        originals,
        cover(originals, masked),
        to_bytes(true, tokenizer),
        to_bytes(predicted, tokenizer),
        masked,
        right,
        strict=True,
    )
    names = ("image", "what is visible", "true codes", "predicted codes")
    shown = []
    for *four, where, good in rows:
        count, hits = int(where.sum()), int((good & where).sum())
        views = [show(image, name) for image, name in zip(four, names, strict=True)]
        shown.append(Named(f"{hits} of {count} masked codes correct, {percent(hits / max(1, count))}", views))
    note = (
        "Validation images. Gray patches are masked. Third, the tokenizer's drawing from the true codes; "
        "fourth, from the true codes of what is visible and the model's own of what is masked."
    )
    return Section("Masked patches", [templates_of(__file__).render("codes_named.html", images=shown)], note=note)


def show_references(model: Classifier, images: Float[Tensor, "b ch h w"]) -> Section:
    """What some patches read in the last layer."""
    try:
        found = reference_points(model, images)
    except VitrailError as error:
        return Section("What patches read", note=f"Not shown: {error}.")
    highest = scale_end(times_even(found.maps))
    rows = [
        Drawing(to_svg(draw_references(image, found.points, maps, highest=highest)), "what some patches read")
        for image, maps in zip(to_bytes(images, model.preprocessing), found.maps.cpu(), strict=True)
    ]
    note = "Attention of the patch under the dot over all patches, in the last layer, the heads' mean; all on one scale."
    return Section("What patches read", rows, note=note)


def cover(images: UInt8[np.ndarray, "b h w ch"], masked: Bool[Tensor, "b gh gw"]) -> UInt8[np.ndarray, "b h w ch"]:
    """The same with masked patches in gray."""
    rows, columns = (side // cells for side, cells in zip(images.shape[1:3], masked.shape[1:], strict=True))
    masks = masked.repeat_interleave(rows, 1).repeat_interleave(columns, 2)[..., None].numpy()
    return np.where(masks, np.uint8(MASKED), images)


def show(image: UInt8[np.ndarray, "h w ch"], words: str) -> Photograph:
    return Photograph(encode_image(image), words, pixelated=is_small(image))
