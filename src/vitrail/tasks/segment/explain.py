"""Explaining the classes of pixels: what is looked at in each image. explain_page.py shows it."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.base_size import to_base
from vitrail.data.class_colors import choose_colors
from vitrail.data.image_store import to_channels
from vitrail.data.images import read_image
from vitrail.data.inputs import expand as find_samples
from vitrail.errors import VitrailError
from vitrail.explain.files import check_target
from vitrail.explain.methods import MOST_CELLS
from vitrail.explain.pixels import (
    ENCODER,
    PIXEL_METHODS,
    head_grid,
    look_at_pixels,
    numbers_of,
    pixel_chances,
    uncertainty,
)
from vitrail.explain.record import attention_layers, choose
from vitrail.explain.samples import Samples
from vitrail.models.catalogue import count_parameters
from vitrail.models.dense_inference import name_pixels
from vitrail.models.segmentation_maps import whole_cells
from vitrail.models.segmenter import Segmenter
from vitrail.report.explanation import Explanation, count_words, list_unread
from vitrail.tasks.segment.explain_page import Choice, ExplainedPixels, Palette, show_image
from vitrail.tasks.segment.options import ExplainOptions

__all__ = ["UNIT", "explain", "find_samples"]

UNIT = "image"
MOST = 3  # classes of an image


def explain(model: Segmenter, samples: Samples[Path], options: ExplainOptions) -> Explanation:
    """The largest classes of each image, or the one that is asked for."""
    labels = model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))
    target = check_target(options.target, labels)
    method, (layer, head) = choose_method(model, options), choose_heads(model, options)
    shown = list(samples.each(lambda path: explain_image(model, path, options, target=target, method=method)))
    palette = Palette(labels=labels, colors=model.colors or choose_colors(labels))
    choice = Choice(method, layer, head)
    classes = sum(len(one.looks) for one in shown)
    return Explanation(
        title="why pixels have their class",
        method=method,
        details=describe(model),
        sections=chain(
            list_unread(samples.errors), (show_image(number, one, palette, choice) for number, one in enumerate(shown))
        ),
        headline=lambda: (
            f"{count_words(classes, 'class', 'classes')} in {count_words(len(shown), 'image')}, explained by {method}"
        ),
    )


def describe(model: Segmenter) -> dict[str, str]:
    height, width = model.image_size
    layers = len(numbers_of(model, ENCODER))
    return {
        "Model": f"{model.config.head} on {model.config.network}, {count_parameters(model):,} parameters",
        "It sees": f"all of an image, made to cover {width}×{height} pixels",
        "Attention of the encoder": f"{layers} layers" if layers else "none that can be shown",
    }


def choose_method(model: Segmenter, options: ExplainOptions) -> Any:
    if options.method == "auto":
        rows, columns = head_grid(model, torch.zeros(1, model.config.in_channels, *model.image_size))
        return "occlusion" if rows * columns <= MOST_CELLS else "gradient"
    if options.method not in PIXEL_METHODS:
        raise VitrailError(f"--method {options.method} does not work on pixels: choose from auto, {', '.join(PIXEL_METHODS)}")
    return options.method


def choose_heads(model: Segmenter, options: ExplainOptions) -> tuple[int | None, int | None]:
    """Layer of the encoder and head counted from 0; both exist, and so does the cell that asks."""
    numbers = numbers_of(model, ENCODER)
    for name in ("layer", "head", "query"):
        if getattr(options, name) is not None and not numbers:
            raise VitrailError(f"--{name} is about attention, and the encoder of this model has none to show")
    layer = None if options.layer is None else choose([options.layer], len(numbers), "layer", "the encoder")[0]
    head = None
    if options.head is not None:
        layers = list(attention_layers(model).values())
        heads = layers[numbers[-1 if layer is None else layer]].heads
        [head] = choose([options.head], heads, "head", "the layer")
    return layer, head


def explain_image(model: Segmenter, path: Path, options: ExplainOptions, *, target: int | None, method: Any) -> ExplainedPixels:
    read = read_image(path)
    array = to_channels(read, model.config.in_channels)
    image = to_base(array, model.preprocessing)
    size = (image.shape[2], image.shape[3])
    probabilities = pixel_chances(model, image)
    numbers, _ = name_pixels(probabilities, (array.shape[0], array.shape[1]))
    counts = np.bincount(numbers.numpy().ravel(), minlength=len(probabilities))
    largest = sorted(np.flatnonzero(counts).tolist(), key=lambda one: -counts[one])[:MOST]
    looks = [
        look_at_pixels(model, image, one, chances=probabilities, query=options.query, method=method)
        for one in (largest if target is None else [target])
    ]
    return ExplainedPixels(
        name=str(path),
        image=to_channels(read, 3),
        numbers=numbers.numpy(),
        unsure=uncertainty(probabilities),
        probabilities={look.label: probabilities[look.label] for look in looks},
        looks=looks,
        size=size,
        padded=whole_cells(size, model.stride),
    )
