"""What a page can ask for: a function, what it is given, and what it answers with. `serve/` makes an address of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictStr

from vitrail.deploy.studio.background import Job
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.uploads import LARGEST

Output = Literal["json", "png", "file", "job"]


class Order(BaseModel):
    """What an action is asked: the body of a POST, as JSON, or the query parameters of a GET. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class ImageOrder(Order):
    """A model and an image of this session, by their ids."""

    model: StrictStr
    image: StrictStr


@dataclass(frozen=True, kw_only=True)
class Action:
    """`function(context, order)` returns what JSON can hold (tensors and arrays too), or bytes. Of a `job` it returns what
    `context.begin` gave it; its progress is then at <address>/<id>, and a POST to <address>/<id>/stop ends it."""

    function: Callable[[Context, Any], Any]
    order: type[Order]
    method: Literal["GET", "POST"] = "POST"
    output: Output = "json"
    weight: Literal["heavy", "light"] = "heavy"  # whether it may wait for a model, or only looks something up
    media: str = "application/octet-stream"  # of a file
    job: type[Job] = Job


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file that a person hands in, or a sample of the run's own data that is chosen instead. What `read(context, name, content)`
    makes of it is kept; it has `to_json(id)`."""

    read: Callable[[Context, str, bytes], Any]
    kind: type[Any]  # of what is kept
    largest: int = LARGEST  # bytes of a file
    most: int  # of one session
