"""What is measured of one image that is explained: small numbers and finished drawings, so that a folder of images fits in memory.

ch channels, y x image as the model sees it, k classes, gh gw grid, l layers, h heads
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.evaluating import at_model, check_finite, evaluating
from vitrail.explain.figures.lens import draw_lens
from vitrail.explain.figures.overlay import times_even
from vitrail.explain.figures.steps import draw_steps
from vitrail.explain.lens import logit_lens
from vitrail.explain.look import Look, look
from vitrail.explain.maps import Reduce, attention_map
from vitrail.explain.methods import explain_map
from vitrail.explain.steps import Row, six_steps, steps_table
from vitrail.models.classifier import Classifier, to_probabilities
from vitrail.rendering import to_svg
from vitrail.tasks.classify.report_interior import HeadNumbers, measure_heads
from vitrail.tokens import Tokens

ROWS = 8  # of the table of six steps, as many as the figure has


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to show: numbers count from 0, and all have been checked against the model."""

    method: str
    target: int | None = None  # None: each image's most likely class
    layer: int | None = None  # None: every layer, and the last for a query
    head: int | None = None
    reduce: Reduce = "mean"
    each_head: bool = False  # of `layer`
    query: tuple[int, int] | None = None
    labels: tuple[str, ...]
    attention: bool = True  # whether the model has layers to look into


class Panel(NamedTuple):
    """A small map and what it is of."""

    words: str
    shares: Float[np.ndarray, "gh gw"]


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Maps are in times an even share."""

    probabilities: Float[np.ndarray, "k"]
    target: int
    shares: Float[np.ndarray, "gh gw"]
    panels: tuple[Panel, ...] = ()  # attention by layer, or by head
    every: Float[np.ndarray, "l h gh gw"] | None = None  # attention of all layers and heads, where they have one grid
    asked: Panel | None = None  # what the query reads
    steps: str = ""  # SVG
    rows: Sequence[Row] = ()  # of the six steps
    lens: str = ""  # SVG
    heads: HeadNumbers | None = None
    tokens: Tokens | None = None  # for their colors, which are made for several images together
    missing: Mapping[str, str] = field(default_factory=dict)  # what is not shown -> why


def explain_image(model: Classifier, image: Float[Tensor, "1 ch y x"], choice: Choice, *, measure: bool = False) -> Explained:
    """`measure`: the numbers of heads too."""
    missing: dict[str, str] = {}
    found: dict[str, Any] = {}
    seen: Look | None = None
    if choice.attention:
        seen = look(model, image)
        logits = seen.logits
    else:
        with evaluating(model), torch.no_grad():
            logits = model(at_model(model, image))
    check_finite(logits)
    if seen is not None:
        found |= {"panels": tuple(make_panels(seen, choice)), "every": every_map(seen), "tokens": seen.tokens}
        found["heads"] = measure_heads(seen) if measure else None
    chances = to_probabilities(logits.float(), multi_label=model.multi_label)[0].cpu().numpy()
    target = int(chances.argmax()) if choice.target is None else choice.target
    if seen is not None and choice.query is not None:
        found |= ask(model, image, seen, choice)
    try:
        found["lens"] = to_svg(draw_lens(logit_lens(model, image), choice.labels, target=target))
    except VitrailError as error:
        missing["the answer layer by layer"] = str(error)
    shares = explain_map(model, image, choice.method, torch.tensor([target]))
    return Explained(probabilities=chances, target=target, shares=times_even(shares)[0], missing=missing, **found)


def make_panels(seen: Look, choice: Choice) -> Iterator[Panel]:
    """Every layer, or the heads of one; what its class token reads, or what patches receive."""
    if choice.each_head:
        assert choice.layer is not None
        for head in range(seen.seen.layers[choice.layer].shape[1]):
            yield Panel(f"head {head}", _even(attention_map(seen, layer=choice.layer, head=head)))
        return
    for layer in range(len(seen.seen.layers)) if choice.layer is None else [choice.layer]:
        yield Panel(f"layer {layer}", _even(attention_map(seen, layer=layer, head=choice.head, reduce=choice.reduce)))


def every_map(seen: Look) -> Float[np.ndarray, "l h gh gw"] | None:
    maps = [
        torch.stack([attention_map(seen, layer=layer, head=head)[0] for head in range(weights.shape[1])])
        for layer, weights in enumerate(seen.seen.layers)
    ]
    return times_even(torch.stack(maps)) if len({found.shape for found in maps}) == 1 else None


def ask(model: Classifier, image: Float[Tensor, "1 ch y x"], seen: Look, choice: Choice) -> dict[str, Any]:
    """What the query reads in the chosen layer, and how it comes about in one head."""
    layer = -1 if choice.layer is None else choice.layer
    read = attention_map(seen, layer=layer, head=choice.head, query=choice.query, reduce=choice.reduce)
    steps = six_steps(model, image, layer=layer, head=choice.head or 0, query=choice.query)
    return {
        "asked": Panel(f"layer {steps.layer}, {describe_heads(choice)}", _even(read)),
        "steps": to_svg(draw_steps(steps, count=ROWS)),
        "rows": steps_table(steps, ROWS),
    }


def describe_heads(choice: Choice) -> str:
    if choice.head is not None:
        return f"head {choice.head}"
    return {"mean": "mean over the heads", "max": "largest of all heads", "min": "smallest of all heads"}[choice.reduce]


def describe_query(choice: Choice) -> str:
    assert choice.query is not None
    return f"the patch in row {choice.query[0]}, column {choice.query[1]},"


def _even(maps: Float[Tensor, "1 gh gw"]) -> Float[np.ndarray, "gh gw"]:
    return times_even(maps)[0]
