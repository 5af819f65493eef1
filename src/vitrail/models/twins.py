"""What models of two networks share, one of which learns and one of which follows it.

b batch, v views, ch channels, h w view, z width of what a head gives
"""

from dataclasses import fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.backbones import build_backbone
from vitrail.records import to_record

ALWAYS_WHOLE = {"drop_path": 0.0, "dropout": 0.0, "attention_dropout": 0.0, "token_keep": 1.0}  # of one that does not learn


def still_copy(backbone: Any) -> Any:
    """The same weights, which receive no gradient, in a network of which nothing is left out at random."""
    known = {field.name for field in fields(backbone.config)}
    config = replace(backbone.config, **{name: value for name, value in ALWAYS_WHOLE.items() if name in known})
    copy = build_backbone(backbone.architecture, to_record(config))
    copy.load_state_dict(backbone.state_dict())
    copy.preprocessing = backbone.preprocessing
    return copy.requires_grad_(False)


def read_views(backbone: Any, head: nn.Module, views: Float[Tensor, "b v ch h w"]) -> Float[Tensor, "v b z"]:
    """What a network and its head make of views, all of them at a time."""
    features = backbone.forward_head(backbone.forward_features(views.flatten(0, 1)), pre_logits=True)
    return head(features).unflatten(0, views.shape[:2]).transpose(0, 1)
