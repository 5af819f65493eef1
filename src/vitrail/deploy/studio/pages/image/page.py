"""The page that shows an image beside what the task's action `run` answers: a table of its values, and its images.

A task without a page of its own names it, `PAGE = "image"`, and has an action `run` whose order is an `ImageOrder`. A value that is
`png_address(...)` is shown as an image; an action whose output is `png` answers with one image alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from vitrail.data.images import read_image
from vitrail.deploy.studio.action import ImageOrder
from vitrail.deploy.studio.context import Context
from vitrail.deploy.studio.facts import Facts
from vitrail.deploy.studio.page import Page
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.uploads import UploadedImage
from vitrail.deploy.studio.working import one_line

PAGE = Page(name="image", address="/image", title="Results", web=Path(__file__).parent / "web", style="dense")


@contextmanager
def opened(context: Context, order: ImageOrder) -> Iterator[tuple[Any, Image.Image]]:
    """The model of an order, if it is of the action's task, and the upright image."""
    entry, facts = context.find_model(order.model, Facts)
    if entry.task != context.task:
        raise StudioError(facts.refusal)
    upload = context.get(order.image, UploadedImage)
    with context.studio.decoding:
        image = read_image(upload.content, name=upload.name)
    with context.computing(entry) as model, one_line(), torch.inference_mode():
        yield model, image
