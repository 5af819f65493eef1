"""Sections about what was learned from crops: whether it collapsed, which images are neighbors, where the class token looks.

b images, ch channels, h w image
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import read_some
from vitrail.data.transforms import normalize, to_unit
from vitrail.errors import VitrailError
from vitrail.explain.figures.overlay import overlay, scale_end, times_even
from vitrail.explain.look import look
from vitrail.explain.maps import attention_map
from vitrail.learn.metrics.collapse import tell_health
from vitrail.learn.metrics.nearest_neighbors import nearest_neighbors
from vitrail.models.backbones import mean_features
from vitrail.rendering import BLUE, ORANGE, house_style, new_figure, rule, to_svg
from vitrail.report.contact_sheet import ACROSS, Row, draw_contact_sheet, encode_sheet
from vitrail.report.images import share_scale, to_pil
from vitrail.report.page import Content, Section
from vitrail.report.parts import Drawing, Paragraph, Poster

QUERIES, NEAREST, KNOWN = 8, 5, 5000  # images that ask, neighbors of each, and among how many they are sought
LOOKS = 8  # images whose attention is shown
HEADS = ACROSS - 2  # beside the image and the mean of all
TOGETHER = 256  # images at a time

Rows = Sequence[Mapping[str, float | int]]


class Found(NamedTuple):
    """Images that could be read: their numbers, their bytes (b h w ch), and their features."""

    indices: list[int]
    images: np.ndarray
    features: torch.Tensor


def show_health(rows: Rows, metrics: Mapping[str, float]) -> Section:
    """In words, and over the epochs: entropies of the teacher's outputs where it has such, spread of features, neighbors' accuracy."""
    words = tell_health(metrics)
    kind = "verdict wrong" if words.startswith("collapsed") else "verdict"
    body: list[Content] = [Paragraph(words[0].upper() + words[1:] + ".", kind)]
    if rows:
        body.append(Drawing(to_svg(draw_watch(rows)), "entropy, spread and neighbors' accuracy over the epochs"))
    note = (
        "Where all images give the same output nothing is learned, however low the loss. Labels are only looked at here: "
        "nothing is learned from them."
    )
    return Section("Does it tell images apart?", body, note=note)


def draw_watch(rows: Rows) -> Figure:
    """A panel for each thing that was measured."""
    lines: dict[str, list[tuple[str, str, str]]] = {
        "Entropy of the teacher's outputs, of the most": [
            ("val_entropy", "of their mean", BLUE), ("val_single_entropy", "of single ones", ORANGE)
        ],
        "Spread of features": [("val_spread", "", BLUE)],
        "Accuracy of nearest neighbors": [("val_knn", "", BLUE)],
    }  # fmt: skip
    shown = {title: some for title, some in lines.items() if any(some[0][0] in row for row in rows)}
    with house_style():
        figure = new_figure(3.9 * len(shown), 2.9)
        for axes, (title, some) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
            for key, name, color in some:
                points = [(row["epoch"], row[key]) for row in rows if key in row and np.isfinite(row[key])]
                epochs, values = zip(*points, strict=True) if points else ((), ())
                axes.plot(epochs, values, color=color, label=name, marker="o" if len(points) <= 12 else None, markersize=3)
            axes.set_title(title, loc="left", fontsize="medium")
            axes.set_xlabel("epoch")
            highest = max(value for key, _, _ in some for row in rows if np.isfinite(value := row.get(key, 0.0)))
            axes.set_ylim(0, 1.06 * (1.0 if len(some) > 1 else highest or 1.0))
            rule(axes)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
            measured = {row["epoch"] for key, _, _ in some for row in rows if key in row}
            if len(measured) == 1:
                axes.set_xticks(sorted(measured))
            if len(some) > 1:
                axes.legend(loc="best", labelcolor="linecolor")
        return figure


def show_neighbors(backbone: Any, data: DataSet) -> Section:
    """Some validation images, and the training images that are nearest to each."""
    asked, known = read_features(backbone, data["val"], QUERIES), read_features(backbone, data["train"], KNOWN)
    if not asked.indices or not known.indices:
        return Section("Nearest neighbors", note="There are no images to show.")
    nearness, numbers = nearest_neighbors(known.features, asked.features, k=NEAREST)
    rows = []
    for place, image in enumerate(asked.images):
        found = numbers[place].tolist()
        title, note = describe_query(data, asked.indices[place], [known.indices[number] for number in found])
        near = f"cosines {nearness[place, 0]:.2f} to {nearness[place, -1]:.2f}"
        rows.append(Row(title, note or near, [to_pil(one) for one in (image, *known.images[found])]))
    sheet = draw_contact_sheet("A validation image, then its nearest training images", rows)
    note = f"By the cosine of their features, among {len(known.indices):,} training images, which are not mirrored or cropped here."
    return Section("Nearest neighbors", [Poster(encode_sheet(sheet), "images and their neighbors", font=11)], note=note)


def describe_query(data: DataSet, index: int, neighbors: Sequence[int]) -> tuple[str, str]:
    """What the image is, and how many neighbors are the same; where there are no labels, its number."""
    if len(data.classes) < 2 or data.multi_label:
        return data["val"].name(index), ""
    label = int(data["val"].labels[index])
    same = int((data["train"].labels[np.array(neighbors)] == label).sum())
    return data.classes[label], f"{same} of {len(neighbors)} neighbors too"


def show_class_attention(backbone: Any, split: Split) -> Section:
    """What the class token reads in the last layer, all heads together and each by itself  [Caron+ 2021, figure 1]; of a model
    without one, what cells receive from all others."""
    title = "Where it looks"
    some = read_features(backbone, split, LOOKS, features=False)
    if not some.indices:
        return Section(title, note="There are no images to show.")
    try:
        seen = look(backbone, normalize(to_unit(some.images), backbone.preprocessing), layers=[-1])
        heads = min(HEADS, seen.seen.layers[-1].shape[1])
        maps = [attention_map(seen), *(attention_map(seen, head=head) for head in range(heads))]
    except (VitrailError, AttributeError) as error:
        return Section(title, note=f"Not shown: {error}.")
    shares = times_even(torch.stack(maps, dim=1))  # b 1+heads gh gw
    highest = scale_end(shares)
    rows = [
        Row(
            f"image {index}",
            "all heads, then each",
            [to_pil(image), *(to_pil(overlay(image, one, highest)) for one in own)],
        )
        for index, image, own in zip(some.indices, some.images, shares, strict=True)
    ]
    what = "what the class token reads of it" if seen.class_token else "what its cells receive from one another"
    sheet = draw_contact_sheet(f"The image; {what} in the last layer", rows)
    note = "No label says what the object is. Shown: " + what + ". Interpolated between the patches; all on one scale."
    return Section(
        title, [share_scale(highest), Poster(encode_sheet(sheet), "attention of the last layer", font=11)], note=note
    )


def read_features(backbone: Any, split: Split, count: int, *, features: bool = True) -> Found:
    """Evenly chosen images of a split as the model sees them; those that cannot be read are passed over."""
    some = read_some(split, backbone.preprocessing, count)
    if some is None:
        return Found([], np.empty(0), torch.empty(0, 0))
    arrays, found = some.images, list[torch.Tensor]()
    device, was_training = next(backbone.parameters()).device, backbone.training
    backbone.eval()
    with torch.inference_mode():
        for start in range(0, len(arrays) if features else 0, TOGETHER):
            images = normalize(to_unit(arrays[start : start + TOGETHER]), backbone.preprocessing)
            found.append(mean_features(backbone, images.to(device)).float().cpu())
    backbone.train(was_training)
    return Found(some.indices, arrays, torch.cat(found) if found else torch.empty(0, 0))
