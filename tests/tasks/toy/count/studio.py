"""A page of the studio: an image goes in, its number of objects comes out."""

from vitrail.data.transforms import prepare
from vitrail.deploy.studio.action import Action, ImageOrder
from vitrail.deploy.studio.facts import describe_image_model as describe
from vitrail.deploy.studio.pages.image.page import opened

__all__ = ["ACTIONS", "PAGE", "describe"]

PAGE = "image"


def run(context, order):
    with opened(context, order) as (model, image):
        return {"objects": float(model(prepare([image], model.preprocessing))[0, 0])}


ACTIONS = {"run": Action(function=run, order=ImageOrder)}
