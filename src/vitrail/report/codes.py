"""Sections of the report about visual codes: how they are used, what is drawn from them, how well masked ones are named.

b batch, ch channels, h w image, gh gw grid
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from vitrail.data.transforms import to_bytes
from vitrail.errors import VitrailError
from vitrail.explain.figures.overlay import scale_end, times_even
from vitrail.explain.figures.references import draw_references
from vitrail.explain.reference_points import reference_points
from vitrail.learn.metrics.code_usage import Usage, describe_usage, warn_of_collapse
from vitrail.preprocessing import Preprocessing
from vitrail.rendering import BLUE, INK, house_style
from vitrail.report.figures import to_svg
from vitrail.report.page import Markup, drawing, element, percent, photograph, section
from vitrail.report.pictures import encode_picture, is_small

HIDDEN = 128  # the gray of a hidden patch


def show_usage(usage: Usage) -> Markup:
    """The codes from the most frequent to the rarest, and a warning where few are in use."""
    facts = (usage.used, usage.perplexity, len(usage.counts))
    note = f"On the validation images {describe_usage(*facts)}."
    warning = warn_of_collapse(*facts)
    words = [element("p", f"Warning: {warning}.", class_="note")] if warning else []
    return section("Its vocabulary", *words, drawing(to_svg(draw_usage(usage)), "how often each code is used"), note=note)


def draw_usage(usage: Usage) -> Figure:
    """Sorted, in times an even share."""
    shares = np.sort(usage.counts)[::-1] * (len(usage.counts) / max(1, usage.counts.sum()))
    with house_style():
        figure = Figure(figsize=(6.4, 2.6), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12))
        axes = figure.subplots()
        axes.fill_between(np.arange(len(shares) + 1), np.append(shares, 0.0), step="post", color=BLUE, linewidth=0)
        axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, len(shares)), ylim=(0, None), xlabel="codes, the most frequent first")
        axes.set_title("How often a code is used, in times an even share", loc="left")
        return figure


def show_drawn(images: Float[Tensor, "b ch h w"], drawn: Float[Tensor, "b ch h w"], preprocessing: Preprocessing) -> Markup:
    """Validation images, and what is drawn from their likeliest codes."""
    pairs = zip(to_bytes(images, preprocessing), to_bytes(drawn, preprocessing), strict=True)
    figures = (
        element("figure", element("div", show(picture, "image"), show(again, "from its codes"), class_="two"), class_="sample")
        for picture, again in pairs
    )
    note = "Left the image, right what is drawn from the likeliest code of each patch."
    return section("Images from their codes", element("div", *figures, class_="looks"), note=note)


def show_named(
    images: Float[Tensor, "b ch h w"],
    hidden: Bool[Tensor, "b gh gw"],
    true: Float[Tensor, "b ch h w"],
    guessed: Float[Tensor, "b ch h w"],
    *,
    right: Bool[Tensor, "b gh gw"],
    given: Preprocessing,
    tokenizer: Preprocessing,
) -> Markup:
    """The image, what is visible of it, and what the tokenizer draws: from the true codes, and with those that the model names in the
    place of masked ones. `right`: where a code is the true one."""
    pictures = to_bytes(images, given)
    covered = cover(pictures, hidden)
    rows = zip(pictures, covered, to_bytes(true, tokenizer), to_bytes(guessed, tokenizer), hidden, right, strict=True)
    names = ("image", "what is visible", "true codes", "codes as named")
    figures = []
    for *four, where, good in rows:
        count = int(where.sum())
        samples = [
            element("figure", show(picture, name), element("figcaption", name), class_="sample")
            for picture, name in zip(four, names, strict=True)
        ]
        words = (
            f"{int((good & where).sum())} of {count} masked codes right, {percent(float((good & where).sum()) / max(1, count))}"
        )
        figures.append(
            element("div", element("p", words, class_="note"), element("div", *samples, class_="strip"), class_="pair")
        )
    note = (
        "Validation images. Gray patches are masked. Third, the tokenizer's drawing from the true codes; "
        "fourth, from the true codes of what is visible and the model's own of what is masked."
    )
    return section("Masked patches", element("div", *figures, class_="pairs"), note=note)


def show_references(model: Any, images: Float[Tensor, "b ch h w"]) -> Markup:
    """What some patches read in the last layer."""
    try:
        found = reference_points(model, images)
    except VitrailError as error:
        return section("What patches read", note=f"Not shown: {error}.")
    highest = scale_end(times_even(found.maps))
    rows = (
        drawing(to_svg(draw_references(picture, found.points, maps, highest=highest)), "what some patches read")
        for picture, maps in zip(to_bytes(images, model.preprocessing), found.maps.cpu(), strict=True)
    )
    note = "Attention of the patch under the dot over all patches, in the last layer, the heads' mean; all on one scale."
    return section("What patches read", *rows, note=note)


def cover(pictures: UInt8[np.ndarray, "b h w ch"], hidden: Bool[Tensor, "b gh gw"]) -> UInt8[np.ndarray, "b h w ch"]:
    """The same with hidden patches in gray."""
    rows, columns = (side // cells for side, cells in zip(pictures.shape[1:3], hidden.shape[1:], strict=True))
    masks = hidden.repeat_interleave(rows, 1).repeat_interleave(columns, 2)[..., None].numpy()
    return np.where(masks, np.uint8(HIDDEN), pictures)


def show(picture: UInt8[np.ndarray, "h w ch"], words: str) -> Markup:
    return photograph(encode_picture(picture), words, pixelated=is_small(picture))
