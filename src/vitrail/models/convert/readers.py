"""One reader for each kind of model of ours: from weights under timm's or transformers' names, with transformers' record or without."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.beit import BEiTConfig
from vitrail.models.convert import swin as swin_names
from vitrail.models.convert.beit import HEAD, from_masked_beit, from_words
from vitrail.models.convert.hints import Hints
from vitrail.models.convert.mae import apart, config_from_vitmae, decoder_from_shapes, from_mae
from vitrail.models.convert.prefixes import left_out
from vitrail.models.convert.renaming import PROJECTIONS, check_fit, find_style, learned, shapes_of
from vitrail.models.convert.swin_shapes import depths_of, swin_from_shapes
from vitrail.models.convert.upernet import from_segmenting_beit, from_upernet
from vitrail.models.convert.vit import from_vit
from vitrail.models.convert.vit_configs import config_from_transformers
from vitrail.models.convert.vit_names import ATTENTION, MASK_TOKEN, MODELS, library
from vitrail.models.convert.vit_shapes import BLOCK, PATCHES, config_from_shapes, expect, shapes_of_blocks
from vitrail.models.swin import build_swin
from vitrail.models.vit import ViTConfig
from vitrail.records import to_record

Record = Mapping[str, Any] | None


class Found(NamedTuple):
    """A model of ours, not built yet, and what was supposed or left out."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    notes: list[str]


def read_vit(theirs: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> Found:
    bare, notes = plain(theirs, record)
    gone = {name: bare.pop(name) for name in list(bare) if name == MASK_TOKEN or name in unread_head(bare)}
    config, more = vit_config(bare, record, eps, hints)
    return Found("vit", config, from_vit(bare, config), [*left_out(gone), *notes, *more])


def read_mae(theirs: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> Found:
    bare, notes = plain(theirs, record)
    encoder, _ = apart(bare)
    backbone, more = vit_config(encoder, record, eps, hints)
    config, why = decoder_from_shapes(bare, backbone)
    if record is not None:
        said, why = config_from_vitmae(record, backbone), []
        agree("decoder_hidden_size", said.decoder_width, config.decoder_width)
        agree("decoder_num_hidden_layers", said.decoder_depth, config.decoder_depth)
        config = said
    return Found("mae", config, from_mae(bare, config), [*notes, *more, *why])


def read_masked_beit(theirs: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> Found:
    if record is not None:
        config, weights = from_masked_beit(theirs, record)
        return Found("beit", config, weights, [])
    bare, notes = plain(theirs, record)
    inside = {
        name: tensor for name, tensor in bare.items() if not name.startswith(f"{HEAD}.") and not name.endswith("mask_token")
    }
    backbone, more = vit_config(inside, None, eps, hints)
    config = BEiTConfig(backbone=to_record(backbone), codes=len(bare[f"{HEAD}.weight"]))
    named = {f"beit.{name}" if name == MASK_TOKEN else name: tensor for name, tensor in bare.items()}
    return Found("beit", config, from_words(named, config), [*notes, *more])


def read_swin(theirs: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> Found:
    bare = {name.removeprefix("swinv2.").removeprefix("swin."): tensor for name, tensor in theirs.items()}
    style = find_style(bare)
    if record is None:
        config, notes = swin_from_shapes(bare, style, hints=hints)
    else:
        head = bare.get("classifier.weight")
        labels = {str(number): "" for number in range(0 if head is None else len(head))}
        config, notes = swin_names.config_from_transformers({**record, "id2label": labels}), []
        agree("depths", config.depths, depths_of(bare))
        agree("embed_dim", config.width, len(expect(bare, (PATCHES[library(style)],), dims=4)))
    weights = swin_names.from_swin(bare, config)
    check_fit(weights, shapes_of(build_swin, config), list(swin_names.pairs(config, style)))
    return Found("swin", config, weights, notes)


def read_upernet(theirs: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> Found:
    """A segmenter, whose file has weights of an encoder and of heads beside it."""
    if record is None:
        raise VitrailError(
            "weights of a segmenter alone do not say which maps its heads read: expected config.json beside them"
        )
    read = from_segmenting_beit if record["model_type"] == "beit" else from_upernet
    config, weights, notes = read(theirs, record)
    return Found("segmenter", config, weights, notes)


def vit_config(bare: Mapping[str, Tensor], record: Record, eps: float, hints: Hints) -> tuple[ViTConfig, list[str]]:
    """From a record, or without one from shapes."""
    if record is None:
        return config_from_shapes(bare, find_style(bare), eps=eps, hints=hints)
    config = config_from_transformers({**record, "qkv_bias": True}, bare)  # where it is False, `plain` has put zeros
    shapes = shapes_of_blocks(bare, find_style(bare))
    agree("hidden_size", config.width, shapes.width)
    agree("num_hidden_layers", config.depth, shapes.depth)
    agree("patch_size", config.patch, shapes.patch)
    agree("num_channels", config.in_channels, shapes.channels)
    return config, []


def agree(name: str, said: object, there: object) -> None:
    """What a record says is what the weights have; looked at before a model of such a size is built."""
    if said != there:
        raise VitrailError(f"config.json: {name} must be {there}, as the weights have it, got {said}")


def plain(theirs: Mapping[str, Tensor], record: Record) -> tuple[dict[str, Tensor], list[str]]:
    """Without what is computed and without the model's name; where no query, key or value of any block has a bias, with zeros for them,
    unless a record says that they have."""
    bare = learned(theirs, *MODELS)
    if record is not None and record.get("qkv_bias", True):
        return bare, []
    style = find_style(bare)
    ours = {ours: their for their, ours in ATTENTION[style].items()}
    weights = ["attn.qkv"] if style == "timm" else [ours[f"attention.{name}"] for name in PROJECTIONS]
    zeros = {}
    for name, tensor in bare.items():
        before, layer = name.removesuffix(".weight"), next((one for one in weights if name.endswith(f".{one}.weight")), None)
        if layer is None or not BLOCK.match(name):
            continue
        if f"{before}.bias" in bare or before.removesuffix("qkv") + "q_bias" in bare:
            return bare, []
        zeros[f"{before}.bias"] = torch.zeros(len(tensor))
    return {**bare, **zeros}, ["queries, keys and values have no biases: zeros here"] if zeros else []


def unread_head(bare: Mapping[str, Tensor]) -> set[str]:
    """transformers' DINOv2 with classes reads the class token and the mean side by side, as no head of ours does: features, then."""
    scaled = any(name.endswith("layer_scale1.lambda1") for name in bare)
    return {name for name in bare if scaled and name.startswith("classifier.")}
