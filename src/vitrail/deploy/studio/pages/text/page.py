"""The page of text: a sentence, what the model writes, and the attention of each word."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from vitrail.deploy.studio.action import Action, Order
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.pages.text.facts import TextFacts
from vitrail.deploy.studio.pages.text.looks import LONGEST_TEXT, TextLook, describe_text_look, run_text, text_attention
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.working import work

PAGE = Page(name="text", address="/text", title="Text", web=Path(__file__).parent / "web")
MOST_SENTENCES = 48  # of one session


class TextOrder(Order):
    model: StrictStr
    text: StrictStr
    seed: Annotated[StrictInt, Field(ge=0, le=2**31)] = 0


class TextQuery(Order):
    look: str
    kind: str
    layer: int = -1
    head: str = "mean"


def read(context: Context, order: TextOrder) -> dict[str, Any]:
    """What the model writes, and an id to ask for its attention by."""
    entry, facts = context.find_model(order.model, TextFacts, "This model looks at images: it cannot read text.")
    if len(order.text) > LONGEST_TEXT:
        raise StudioError(f"The text has {len(order.text):,} characters: give at most {LONGEST_TEXT:,}.", 413)
    with context.computing(entry) as model:
        version = entry.version
        look, written, notes, milliseconds = work(run_text, model, order.text, facts, seed=order.seed)
    found = TextLook(model=entry.id, version=version, look=look, text=written, notes=notes, milliseconds=milliseconds)
    return describe_text_look(context.put(found, most=MOST_SENTENCES), found)


def attention(context: Context, query: TextQuery) -> dict[str, Any]:
    """From what is kept: the model is not asked again."""
    found = context.get(query.look, TextLook)
    return {"weights": text_attention(found, kind=query.kind, layer=query.layer, head=query.head)}


ACTIONS: Mapping[str, Action] = {
    "read": Action(function=read, order=TextOrder),
    "attention": Action(function=attention, order=TextQuery, method="GET", weight="light"),
}
