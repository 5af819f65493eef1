"""The report of a masked autoencoder: images it has not learned from, and one of them with ever fewer patches visible.

b batch, h w image, ch channels, c cells
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, UInt8
from matplotlib.figure import Figure

from vitrail.data.dataset import DataSet
from vitrail.data.examples import read_some
from vitrail.data.transforms import normalize, to_bytes, to_unit
from vitrail.explain.figures.sheet import Sheet
from vitrail.explain.masked_patches import reconstruct
from vitrail.learn.masking import keep_same
from vitrail.learn.training.state import Row
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.nn.functional.patches import unpatchify
from vitrail.rendering import house_style, shorten, to_png
from vitrail.report.images import as_color
from vitrail.report.page import Section
from vitrail.report.parts import Poster
from vitrail.tasks.pretraining import SHOWN, feature_commands
from vitrail.tasks.stages import Scored, Setup

RATIOS = (0.5, 0.75, 0.9)  # at which one image is shown
SIDE, GAP, MARGIN, TOP = 0.95, 0.08, 0.14, 0.42  # inches: an image's longer side, between them, around, above for the words
COLUMNS = ("original", "visible", "drawn", "drawn, with what is visible")


def sections(scored: Scored[DataSet], setup: Setup[Any, DataSet, Any], rows: Sequence[Row]) -> Iterable[Section]:
    drawn, ratios = draw_some(scored.model, setup.data, seed=setup.options.seed)
    yield from show_drawn(drawn, ratios, normalized=scored.model.config.normalize)


def commands(run: str, model: MaskedAutoencoder) -> Mapping[str, str]:
    return feature_commands(run)


class DrawnImage(NamedTuple):
    """One image, what is visible of it, what was drawn, and that with what is visible."""

    name: str
    mask_ratio: float  # share of its patches
    original: UInt8[np.ndarray, "h w ch"]
    left: UInt8[np.ndarray, "h w 4"]  # transparent where patches are masked
    drawn: UInt8[np.ndarray, "h w ch"]
    shown: UInt8[np.ndarray, "h w ch"]
    explained: float  # share of the masked patches' variance that is drawn right


def draw_some(model: MaskedAutoencoder, data: DataSet, *, seed: int) -> tuple[list[DrawnImage], list[DrawnImage]]:
    """Evenly chosen validation images at the model's own mask ratio, and the first of them at several."""
    split = data["val"]
    some = read_some(split, model.preprocessing, SHOWN)
    if some is None or some.images.shape[-1] not in (1, 3):
        return [], []
    names = [split.name(index) for index in some.indices]
    drawn = draw_images(model, some.images, names, some.indices, mask_ratio=model.config.hide, seed=seed)
    first = (some.images[:1], names[:1], some.indices[:1])
    return drawn, [draw_images(model, *first, mask_ratio=ratio, seed=seed)[0] for ratio in RATIOS]


def draw_images(
    model: MaskedAutoencoder,
    images: UInt8[np.ndarray, "b h w ch"],
    names: Sequence[str],
    indices: Sequence[int],
    *,
    mask_ratio: float,
    seed: int,
) -> list[DrawnImage]:
    """The masked patches are those of evaluation, to which more are added as the ratio grows."""
    device, plain = next(model.parameters()).device, model.preprocessing
    tokenizer = model.backbone.tokenizer
    grid = tokenizer.grid(images.shape[1:3])
    kept = keep_same(np.array(indices), math.prod(grid), mask_ratio, seed=seed).to(device)
    found = reconstruct(model, normalize(to_unit(images), plain).to(device), kept, statistics="seen")
    cells = ~found.hidden[..., None].expand(-1, -1, math.prod(tokenizer.patch))
    visible = unpatchify(cells, tokenizer.patch, grid)[:, 0].cpu().numpy()
    drawn, shown = (to_bytes(some.cpu(), plain) for some in (found.drawn, found.shown))
    return [
        DrawnImage(name, mask_ratio, images[i], leave(images[i], visible[i]), drawn[i], shown[i], float(found.explained[i]))
        for i, name in enumerate(names)
    ]


def leave(image: UInt8[np.ndarray, "h w ch"], visible: Bool[np.ndarray, "h w"]) -> UInt8[np.ndarray, "h w 4"]:
    """The image where it is visible, transparent elsewhere."""
    opaque = np.concatenate([as_color(image), np.full((*visible.shape, 1), 255, np.uint8)], axis=2)
    return opaque * visible[..., None].astype(np.uint8)


def draw_rows(some: Sequence[DrawnImage], *, show_ratio: bool = False) -> Figure:
    """A row for each: original, visible, drawn, drawn with what is visible; `show_ratio` writes the mask ratio before it."""
    height, width = some[0].original.shape[:2]
    high, wide = SIDE * height / max(height, width), SIDE * width / max(height, width)
    begin = MARGIN + (0.42 if show_ratio else 0.0)
    with house_style():
        sheet = Sheet(begin + 4 * (wide + GAP) + 0.62 + MARGIN, TOP + len(some) * (high + GAP) - GAP + MARGIN)
        for column, words in enumerate(COLUMNS):
            sheet.write(begin + column * (wide + GAP), TOP - 0.1, words.replace(", ", ",\n"), fontsize=7, linespacing=1.1)
        sheet.write(begin + 4 * (wide + GAP), TOP - 0.1, "explained", fontsize=7)
        for row, one in enumerate(some):
            top = TOP + row * (high + GAP)
            if show_ratio:
                sheet.write(MARGIN, top + high / 2, f"{100 * one.mask_ratio:.0f} %", fontsize=7.5, va="center")
            for column, pixels in enumerate((as_color(one.original), one.left, as_color(one.drawn), as_color(one.shown))):
                sheet.image(begin + column * (wide + GAP), top, wide, high, pixels)
            words = f"{100 * one.explained:.0f} %".replace("-", "−")
            sheet.write(begin + 4 * (wide + GAP), top + high / 2, words, fontsize=7.5, va="center")
        return sheet.figure


def show_drawn(images: Sequence[DrawnImage], ratios: Sequence[DrawnImage], *, normalized: bool) -> list[Section]:
    """The sections; none where there is no image to show. `ratios`: one image, with more and more of it masked."""
    if not images:
        return []
    colors = (
        "The model predicts each patch normalized by itself, so it says nothing of a patch's mean color and contrast: those that a masked "
        "patch is shown with are interpolated from the visible patches, none from the image itself. Where they do not fit, "
        "a patch has the right drawing in the wrong color, which the loss does not count."
        if normalized
        else "The model predicts pixels as they are: all colors are its own."
    )
    note = (
        f"Images that were not learned from, {100 * images[0].mask_ratio:.0f} % of their patches masked, always the same ones. The loss counts masked "
        f"patches alone; what is drawn in the place of the others is not trained. {colors} Explained: the share of the variance within masked patches "
        "that is drawn right; 0 % is each patch in its mean color."
    )
    names = ", ".join(shorten(one.name, 40) for one in images)
    views = [Poster(to_png(draw_rows(images)), f"images drawn from a part of their patches: {names}")]
    if ratios:
        words = ", ".join(f"{100 * one.mask_ratio:.0f} %" for one in ratios)
        drawn = to_png(draw_rows(ratios, show_ratio=True))
        views.append(Poster(drawn, f"the image {ratios[0].name} with {words} masked"))
    return [Section("Masked patches", views, note=note)]
