"""Explaining what a model makes of pictures: `vitrail explain`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.examples import spread
from vitrail.data.images import PictureError, read_picture
from vitrail.data.inputs import expand, open_or_error
from vitrail.data.transforms import prepare
from vitrail.errors import VitrailError, check_choice
from vitrail.explain.cells import cell_tokens
from vitrail.explain.colors import token_colors
from vitrail.explain.figures.overlay import scale_end
from vitrail.explain.files import Done, Progress, check_out, check_target, unread_error
from vitrail.explain.look import look
from vitrail.explain.methods import METHODS, default_method, lack, methods_for
from vitrail.explain.positions import position_similarity
from vitrail.explain.record import attention_layers, choose
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.report.explained import Choice, Explained, explain_picture
from vitrail.report.explanation import Explanation, write_explanation
from vitrail.report.interior import Interior, find_filters, mean_heads
from vitrail.report.picture_card import Card, Scales
from vitrail.report.placing import seen_box
from vitrail.tasks.classify.options import ExplainOptions
from vitrail.tasks.classify.predict import Pipeline

TOGETHER = 24  # pictures whose tokens are colored together: what is kept of them until then is bounded
MEASURED = 8  # pictures that the numbers of heads are a mean over


@dataclass(kw_only=True)
class Kept:
    """A picture between being looked at and being drawn."""

    path: Path
    found: Explained
    cropped: bool  # whether the model saw a part of it only
    colors: np.ndarray | None = None


def explain(run: str, inputs: list[str], options: ExplainOptions, *, progress: Progress = lambda done, total: None) -> Done:
    """index.html and its figures in a new folder, which is made when all that was asked for is known to be possible.

    Every picture is looked at first, and little is kept of each: all maps are drawn on one scale.
    """
    out = check_out(options.out)
    paths = expand(inputs)
    model = load(run).eval()
    if not hasattr(model, "num_classes") or not hasattr(model, "forward_features"):
        raise VitrailError(
            f"{run}: a model of the kind {model.architecture} does not classify pictures: there is no answer to explain"
        )
    choice = choose_what(model, options)
    chosen = [paths[number] for number in spread(len(paths), options.limit)]
    errors: list[str] = []
    kept = list(look_at(model, chosen, choice, errors, progress))
    if not kept:
        raise unread_error(errors)
    explanation = describe(run, model, choice, kept, len(paths), errors)
    out.mkdir(parents=True, exist_ok=True)
    cards = draw(model, choice, kept, explanation.scales, errors)
    page = write_explanation(explanation, count(cards, len(kept), progress), out)
    return Done(page=page, pictures=len(chosen) - len(errors), found=len(paths), method=choice.method, errors=tuple(errors))


def choose_what(model: Any, options: ExplainOptions) -> Choice:
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


def check_attention(model: Any, options: ExplainOptions) -> tuple[int | None, int | None]:
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


def look_at(model: Any, paths: list[Path], choice: Choice, errors: list[str], progress: Progress) -> Iterator[Kept]:
    """Every picture that can be read, in order; of the others their errors."""
    done = measured = 0
    for start in range(0, len(paths), TOGETHER):
        kept = []
        for path in paths[start : start + TOGETHER]:
            picture = open_or_error(path, model.preprocessing.size)
            done += 1
            progress(done, 2 * len(paths))
            if isinstance(picture, VitrailError):
                errors.append(str(picture))
                continue
            image = prepare([picture], model.preprocessing)
            found = explain_picture(model, image, choice, measure=measured < MEASURED)
            box = seen_box((picture.height, picture.width), model.preprocessing)
            kept.append(Kept(path=path, found=found, cropped=box != (0, 0, *picture.size)))
            measured += 1
        yield from color(kept)


def color(kept: list[Kept]) -> list[Kept]:
    """Colors for the tokens of these pictures together; the tokens are let go."""
    tokens = [one.found.tokens for one in kept if one.found.tokens is not None]
    if tokens:
        for one, colors in zip(kept, token_colors(tokens).cpu().numpy(), strict=True):
            one.colors, one.found = colors, replace(one.found, tokens=None)
    return kept


def describe(run: str, model: Any, choice: Choice, kept: list[Kept], count: int, errors: list[str]) -> Explanation:
    """What the page tells beside its pictures."""
    heads = [one.found.heads for one in kept if one.found.heads is not None]
    filters = find_filters(model)
    missing = dict(kept[0].found.missing)
    if (why := lack(model, "attention")) is not None:
        missing["attention, six steps, colors of tokens and numbers of heads"] = why
    return Explanation(
        title=f"{Path(run).name or run}: what it makes of pictures",
        facts=describe_model(model, choice),
        count=count,
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
            pictures=len(heads),
            heads=mean_heads(heads) if heads else None,
            filters=None if isinstance(filters, str) else filters,
            missing={"filters": filters} if isinstance(filters, str) else {},
        ),
        positions=position_similarity(model),
        missing=missing,
        unread=errors,
        together=min(TOGETHER, len(kept)) if kept[0].colors is not None else 0,
    )


def describe_model(model: Any, choice: Choice) -> dict[str, str]:
    height, width = model.image_size
    facts = {
        "Model": f"{model.architecture}, {count_parameters(model):,} parameters",
        "It sees": f"{width}×{height} pixels, {'the middle of a picture' if model.preprocessing.fit == 'crop' else 'all of a picture'}",
        "Classes": f"{len(choice.labels):,}",
    }
    if choice.attention:
        heads = [layer.heads for layer in attention_layers(model).values()]
        same = f"{len(heads)} layers of {heads[0]} heads" if len(set(heads)) == 1 else f"{len(heads)} layers"
        facts["Attention"] = same
    facts["Ways to explain it"] = ", ".join(methods_for(model))
    return facts


def common_scale(maps: Iterable[np.ndarray]) -> float:
    """Where the scale of these maps, in times an even share, ends."""
    return scale_end(np.concatenate([found.flatten() for found in maps] or [np.zeros(0)]))


def draw(model: Any, choice: Choice, kept: list[Kept], scales: Scales, errors: list[str]) -> Iterator[Card]:
    """The pictures once more, one at a time, at their own resolution."""
    for number, one in enumerate(kept):
        try:
            picture = read_picture(one.path)
        except PictureError as error:  # gone since it was looked at
            errors.append(str(error))
            continue
        yield Card(
            number=number,
            name=str(one.path),
            picture=np.asarray(picture).reshape(picture.height, picture.width, -1),
            found=one.found,
            colors=one.colors,
            choice=choice,
            scales=scales,
            preprocessing=model.preprocessing,
        )


def count(cards: Iterator[Card], total: int, progress: Progress) -> Iterator[Card]:
    """The same, counted when the next one is asked for: then the last is drawn."""
    for done, card in enumerate(cards):
        progress(total + done, 2 * total)
        yield card
