"""Explaining what a classifier makes of images: what is looked at in each, and what is kept of it. explain_page.py shows it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from vitrail.data.images import ImageError, read_image
from vitrail.data.inputs import expand as find_samples
from vitrail.data.transforms import prepare
from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import cell_tokens
from vitrail.explain.colors import token_colors
from vitrail.explain.figures.overlay import scale_end
from vitrail.explain.figures.placing import seen_box
from vitrail.explain.files import check_target
from vitrail.explain.look import look
from vitrail.explain.methods import METHODS, default_method, lack, methods_for
from vitrail.explain.positions import position_similarity
from vitrail.explain.record import attention_layers, choose
from vitrail.explain.samples import Samples
from vitrail.models.catalogue import describe_architecture
from vitrail.models.classifier import Classifier
from vitrail.report.explanation import Explanation
from vitrail.tasks.classify.explain_card import Card, Scales
from vitrail.tasks.classify.explain_image import Choice, Explained, explain_image
from vitrail.tasks.classify.explain_page import About, describe_count, show_explanation
from vitrail.tasks.classify.options import ExplainOptions
from vitrail.tasks.classify.predict import Pipeline
from vitrail.tasks.classify.report_interior import Interior, find_filters, mean_heads

__all__ = ["UNIT", "explain", "find_samples"]

UNIT = "image"
TOGETHER = 24  # images whose tokens are colored together: what is kept of them until then is bounded
MEASURED = 8  # images that the numbers of heads are a mean over


@dataclass(kw_only=True)
class Kept:
    """An image between being looked at and being drawn."""

    path: Path
    found: Explained
    cropped: bool  # whether the model saw a part of it only
    colors: np.ndarray | None = None


def explain(model: Classifier, samples: Samples[Path], options: ExplainOptions) -> Explanation:
    """Every image is looked at first, and little is kept of each: all maps are drawn on one scale."""
    choice = choose_what(model, options)
    kept = list(look_at(model, samples, choice))
    about = describe(model, choice, kept, samples)
    return Explanation(
        title="what it makes of images",
        method=choice.method,
        details=describe_model(model, choice),
        sections=show_explanation(about, draw(model, choice, kept, about.scales, samples)),
        headline=lambda: describe_count(about, samples.explained),
    )


def choose_what(model: Classifier, options: ExplainOptions) -> Choice:
    """The options as numbers of this model, each checked against it."""
    labels = Pipeline(model).labels
    check_choice("method", options.method, ("auto", *(name for name, method in METHODS.items() if not method.hidden)))
    method = default_method(model) if options.method == "auto" else options.method
    if (why := lack(model, METHODS[method].needs)) is not None:
        raise VitrailError(f"--method {method} does not work here: {why}; choose from {', '.join(methods_for(model))}")
    target = check_target(options.target, labels)
    layer, head = check_attention(model, options)
    return Choice(
        method=method,
        target=target,
        layer=layer,
        head=head,
        reduce=options.head if isinstance(options.head, str) else "mean",
        each_head=layer is not None and options.head is None,
        query=options.query,
        labels=labels,
        attention=lack(model, "attention") is None,
    )


def check_attention(model: Classifier, options: ExplainOptions) -> tuple[int | None, int | None]:
    """Layer and head counted from 0; both, and the query, exist in the model."""
    asked = {"--layer": options.layer, "--head": options.head, "--query": options.query}
    given = [name for name, value in asked.items() if value is not None]
    if not given:
        return None, None
    if (why := lack(model, "attention")) is not None:
        raise VitrailError(f"{given[0]} is about attention: {why}")
    layers = list(attention_layers(model).values())
    layer = None if options.layer is None else choose([options.layer], len(layers), "layer", "the model")[0]
    head = None
    if isinstance(options.head, int):
        for number in range(len(layers)) if layer is None else [layer]:
            [head] = choose([options.head], layers[number].heads, "head", f"layer {number}")
    if options.query is not None:
        nothing = torch.zeros(1, model.preprocessing.channels, *model.image_size)
        seen = look(model, nothing, layers=[-1 if layer is None else layer], queries=[0])
        cell_tokens(options.query, seen.places(0)[0])
    return layer, head


def look_at(model: Classifier, samples: Samples[Path], choice: Choice) -> Iterator[Kept]:
    """Every image that can be read, in order."""
    measured, kept = 0, list[Kept]()

    def look_at_one(path: Path) -> Kept:
        image = read_image(path, target=model.preprocessing.size)
        found = explain_image(model, prepare([image], model.preprocessing), choice, measure=measured < MEASURED)
        box = seen_box((image.height, image.width), model.preprocessing)
        return Kept(path=path, found=found, cropped=box != (0, 0, *image.size))

    for one in samples.each(look_at_one, passes=2):
        kept.append(one)
        measured += 1
        if len(kept) == TOGETHER:
            yield from color(kept)
            kept = []
    yield from color(kept)


def color(kept: list[Kept]) -> list[Kept]:
    """Colors for the tokens of these images together; the tokens are let go."""
    tokens = [one.found.tokens for one in kept if one.found.tokens is not None]
    if tokens:
        for one, colors in zip(kept, token_colors(tokens).cpu().numpy(), strict=True):
            one.colors, one.found = colors, replace(one.found, tokens=None)
    return kept


def describe(model: Classifier, choice: Choice, kept: list[Kept], samples: Samples[Path]) -> About:
    """What the page tells beside its images."""
    heads = [one.found.heads for one in kept if one.found.heads is not None]
    filters = find_filters(model)
    missing = dict(kept[0].found.missing)
    if (why := lack(model, "attention")) is not None:
        missing["attention, six steps, colors of tokens and numbers of heads"] = why
    return About(
        count=samples.found,
        choice=choice,
        class_token=getattr(model.head, "pool_by", "") == "class",
        cropped=any(one.cropped for one in kept),
        scales=Scales(
            shares=common_scale(one.found.shares for one in kept),
            attention=common_scale(
                panel.shares for one in kept for panel in (*one.found.panels, one.found.asked) if panel is not None
            ),
        ),
        interior=Interior(
            images=len(heads),
            heads=mean_heads(heads) if heads else None,
            filters=None if isinstance(filters, str) else filters,
            missing={"filters": filters} if isinstance(filters, str) else {},
        ),
        positions=position_similarity(model),
        missing=missing,
        unread=samples.errors,
        together=min(TOGETHER, len(kept)) if kept[0].colors is not None else 0,
    )


def describe_model(model: Classifier, choice: Choice) -> dict[str, str]:
    height, width = model.image_size
    details = {
        "Model": describe_architecture(model),
        "It sees": f"{width}×{height} pixels, {'the middle of an image' if model.preprocessing.fit == 'crop' else 'all of an image'}",
        "Classes": f"{len(choice.labels):,}",
    }
    if choice.attention:
        heads = [layer.heads for layer in attention_layers(model).values()]
        same = f"{len(heads)} layers of {heads[0]} heads" if len(set(heads)) == 1 else f"{len(heads)} layers"
        details["Attention"] = same
    details["Ways to explain it"] = ", ".join(methods_for(model))
    return details


def common_scale(maps: Iterable[np.ndarray]) -> float:
    """Where the scale of these maps, in times an even share, ends."""
    return scale_end(np.concatenate([found.flatten() for found in maps] or [np.zeros(0)]))


def draw(model: Classifier, choice: Choice, kept: list[Kept], scales: Scales, samples: Samples[Path]) -> Iterator[Card]:
    """The images once more, one at a time, at their own resolution; counted when the next one is asked for: then the last is drawn."""
    for number, one in enumerate(kept):
        try:
            image = read_image(one.path)
        except ImageError as error:  # gone since it was looked at
            samples.errors.append(str(error))
        else:
            yield Card(
                number=number,
                name=str(one.path),
                image=np.asarray(image).reshape(image.height, image.width, -1),
                found=one.found,
                colors=one.colors,
                choice=choice,
                scales=scales,
                preprocessing=model.preprocessing,
            )
        samples.count()
