"""The page of attention: one pass over an image, with cells of it erased or moved, and views of what went on inside."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt

from vitrail.data.transforms import center_box
from vitrail.deploy.studio.action import Action, ImageOrder, Order
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.models import StudioModel
from vitrail.deploy.studio.numbers import pack, plain
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pages.attention.facts import AttentionFacts, describe
from vitrail.deploy.studio.pages.attention.passes import GENEROUS, Look, all_rows, arrange, attention_row, run_pass
from vitrail.deploy.studio.pages.attention.views import (
    show_colors,
    show_lens,
    show_map,
    show_similarity,
    show_steps,
    show_token,
)
from vitrail.deploy.studio.pixels import encode_pixels, prepare_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage
from vitrail.deploy.studio.working import work
from vitrail.explain.positions import position_similarity

__all__ = ["ACTIONS", "PAGE", "describe"]

PAGE = Page(name="attention", address="/", title="Images", web=Path(__file__).parent / "web")
MOST_PREDICTIONS = 20
MOST_LOOKS = 1_000  # remembered by what was asked for, so that the same is not computed again


class LookOrder(ImageOrder):
    erased: list[StrictInt] = Field(default_factory=list, max_length=100_000)
    order: Annotated[list[StrictInt], Field(max_length=100_000)] | None = None


class LookQuery(Order):
    look: str


class LayersQuery(LookQuery):
    query: str = "received"


class AttentionQuery(LayersQuery):
    layer: int = -1
    head: str = "mean"


class MapQuery(LookQuery):
    method: str = "auto"
    target: int | None = None


class ColorsQuery(LookQuery):
    layer: int = -1


class TokenQuery(LookQuery):
    query: str


class StepsQuery(TokenQuery):
    layer: int = -1
    head: int = 0


class SimilarityQuery(Order):
    model: str
    cell: int


def look(context: Context, order: LookOrder) -> dict[str, Any]:
    """One pass, or the one that was made of the same before; who asks for it meanwhile gets the same."""
    entry, facts = context.find_model(order.model, AttentionFacts)
    key = (context.session, entry.id, entry.stored, order.image, digest(order.erased, order.order))
    return context.studio.flights.once(key, lambda: find_look(context, key, entry, facts, order))


def find_look(context: Context, key: Hashable, entry: StudioModel, facts: AttentionFacts, order: LookOrder) -> dict[str, Any]:
    image, remembered = context.get(order.image, UploadedImage), context.studio.remembered
    name = remembered.get(key)
    if name is not None:
        try:
            return describe_look(name, context.get(name, Look), facts, image)
        except StudioError:
            remembered.pop(key, None)
    found = make_look(context, entry, facts, order, image)
    name = context.put(found)
    if len(remembered) >= MOST_LOOKS:
        remembered.clear()
    remembered[key] = name
    return describe_look(name, found, facts, image)


def make_look(context: Context, entry: StudioModel, facts: AttentionFacts, order: LookOrder, image: UploadedImage) -> Look:
    with context.studio.decoding:
        fitted = image.fit(facts.preprocessing)
    seen = arrange(fitted, facts.grid, erased=order.erased, order=order.order)
    budget = context.studio.store.budget
    with context.computing(entry) as model:
        version = entry.version
        probabilities, layers, milliseconds = work(
            run_pass,
            model,
            prepare_pixels(seen, facts.preprocessing),
            grid=facts.grid,
            prefix=facts.prefix,
            elements=facts.elements,
            attention=facts.attention and facts.attention_bytes < budget,
            half=2 * GENEROUS * facts.attention_bytes > budget,
        )
    return Look(
        model=entry.id, version=version, image=order.image, grid=facts.grid, prefix=facts.prefix, has_class=facts.has_class,
        seen=seen, probabilities=probabilities, layers=layers, milliseconds=milliseconds,
    )  # fmt: skip


def seen(context: Context, query: LookQuery) -> bytes:
    return encode_pixels(context.get(query.look, Look).seen)


def attention(context: Context, query: AttentionQuery) -> dict[str, Any]:
    """From what is kept: the model is not asked again."""
    return attention_row(use(context, query), layer=query.layer, head=query.head, query=query.query)


def layers(context: Context, query: LayersQuery) -> dict[str, Any]:
    return {"maps": all_rows(use(context, query), query.query)}


def lens(context: Context, query: LookQuery) -> bytes:
    _, facts = context.find_model(use(context, query).model, AttentionFacts)
    return view(context, query, show_lens, {"labels": facts.labels})


def similarity(context: Context, query: SimilarityQuery) -> dict[str, Any]:
    entry, _ = context.find_model(query.model, AttentionFacts)
    context.studio.models.get(entry.id)
    return show_similarity(work(entry.derive, position_similarity), query.cell)


def ask_view(show: Callable[..., dict[str, Any]]) -> Callable[[Context, LookQuery], bytes]:
    """A view whose options are those of its query."""
    return lambda context, asked: view(context, asked, show, asked.model_dump(exclude={"look"}))


def view(context: Context, asked: LookQuery, show: Callable[..., dict[str, Any]], options: dict[str, Any]) -> bytes:
    """What `show` computes with the model of a look; once, and then it is kept with the look."""
    found = use(context, asked)
    key = (show.__name__, *options.items())

    def compute() -> bytes:
        if key not in found.answers:
            entry = context.studio.models.find(found.model)
            with context.computing(entry) as model:
                if entry.version != found.version:
                    raise StudioError("The model has learned more since this look: look again.", 410)
                found.answers[key] = pack(work(show, model, found, **options))
            context.studio.store.shrink()
        return found.answers[key]

    return context.studio.flights.once((asked.look, key), compute)


def use(context: Context, query: LookQuery) -> Look:
    """The look, and its image with it counts as used."""
    found = context.get(query.look, Look)
    with suppress(StudioError):  # a look stands without its image
        context.get(found.image, UploadedImage)
    return found


def digest(erased: Sequence[int], order: Sequence[int] | None) -> str:
    """Of which cells are erased, however often and in whatever order they are named, and of where cells are; of one length for any grid."""
    return hashlib.sha256(repr((sorted(set(erased)), None if order is None else list(order))).encode()).hexdigest()


def describe_look(name: str, look: Look, facts: AttentionFacts, image: UploadedImage) -> dict[str, Any]:
    height, width = image.size
    rows, columns = facts.preprocessing.size
    box = center_box((width, height), (columns, rows)) if facts.preprocessing.fit == "crop" else (0, 0, width, height)
    best = look.probabilities.argsort(descending=True, stable=True)[:MOST_PREDICTIONS].tolist()
    scores = plain(look.probabilities)
    return {
        "id": name,
        "grid": look.grid,
        "prefix": look.prefix,
        "layers": len(look.layers),
        "heads": len(look.layers[0]) if look.layers else 0,
        "predictions": [{"index": i, "label": facts.labels[i], "score": scores[i]} for i in best],
        "ms": look.milliseconds,
        "box": [float(side) for side in box],
        "fits": facts.preprocessing.fit,
        "kept": bool(look.layers),
        "version": hashlib.sha256(repr(look.version).encode()).hexdigest()[:12],
    }


ACTIONS: Mapping[str, Action] = {
    "look": Action(function=look, order=LookOrder),
    "seen": Action(function=seen, order=LookQuery, method="GET", output="png", weight="light"),
    "attention": Action(function=attention, order=AttentionQuery, method="GET", weight="light"),
    "layers": Action(function=layers, order=LayersQuery, method="GET", weight="light"),
    "map": Action(function=ask_view(show_map), order=MapQuery, method="GET"),
    "colors": Action(function=ask_view(show_colors), order=ColorsQuery, method="GET"),
    "lens": Action(function=lens, order=LookQuery, method="GET"),
    "steps": Action(function=ask_view(show_steps), order=StepsQuery, method="GET"),
    "tokens": Action(function=ask_view(show_token), order=TokenQuery, method="GET"),
    "similarity": Action(function=similarity, order=SimilarityQuery, method="GET"),
}
