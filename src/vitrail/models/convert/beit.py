"""Weights of transformers' BeitForMaskedImageModeling as ours, and back. BEiT without its visual words is read by `convert/vit.py`."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.beit import BEiTConfig, build_beit
from vitrail.models.convert.renaming import Style, check_fit, copies, move, shapes_of
from vitrail.models.convert.vit import from_transformers, from_vit, take, to_vit
from vitrail.models.convert.vit_names import kind_of
from vitrail.models.vit import ViTConfig
from vitrail.records import from_record, to_record

HEAD = "lm_head"
MASK_TOKEN = "beit.embeddings.mask_token"


def from_masked_beit(theirs: Mapping[str, Tensor], record: Mapping[str, Any]) -> tuple[BEiTConfig, dict[str, Tensor]]:
    """Our config and weights, from theirs and what their config.json says. Their last norm stands before their head, ours behind the encoder."""
    if not record.get("use_mean_pooling", True):
        raise VitrailError("use_mean_pooling must be True, got False: then their masked model norms its tokens twice")
    bare = {name: tensor for name, tensor in theirs.items() if not name.startswith(HEAD)}
    backbone, _ = from_transformers(bare, {**record, "use_mean_pooling": False})
    config = BEiTConfig(backbone=to_record(backbone), codes=record["vocab_size"])
    return config, from_words(theirs, config)


def from_words(theirs: Mapping[str, Tensor], config: BEiTConfig) -> dict[str, Tensor]:
    """Our weights for a model of this config, from transformers' or the authors'."""
    left = dict(theirs)
    token = MASK_TOKEN if MASK_TOKEN in left else MASK_TOKEN.split(".")[-1]
    ours = move(left, [(HEAD, "head")]) | {"mask_token": take(left, token).flatten()}
    weights = from_vit(left, from_record(ViTConfig, config.backbone, what="backbone"))
    ours |= {f"backbone.{name}": tensor for name, tensor in weights.items()}
    check_fit(ours, shapes_of(build_beit, config), [(HEAD, "head")])
    return copies(ours)


def to_masked_beit(ours: Mapping[str, Tensor], config: BEiTConfig, *, style: Style) -> dict[str, Tensor]:
    """Their weights, of their modules or of their files. Refused where theirs does not compute what ours does."""
    backbone = from_record(ViTConfig, config.backbone, what="backbone")
    if style == "timm":
        raise VitrailError("timm has no BEiT that names visual words: export the backbone")
    if kind_of(backbone) != "beit" or backbone.last_norm != "tokens":
        raise VitrailError(
            f'the backbone of a masked BEiT has position="relative_table" and last_norm="tokens", got "{backbone.position}", "{backbone.last_norm}"'
        )
    check_fit(ours, shapes_of(build_beit, config))
    left = dict(ours)
    theirs = move(left, [("head", HEAD)]) | {MASK_TOKEN: left.pop("mask_token")[None, None]}
    for name, tensor in to_vit(
        {name.removeprefix("backbone."): part for name, part in left.items()}, backbone, style=style
    ).items():
        theirs[name if name.startswith("layernorm.") else f"beit.{name}"] = tensor
    return copies(theirs)
