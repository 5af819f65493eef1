"""Weights of transformers' UperNetForSemanticSegmentation on Swin, and of its BeitForSemanticSegmentation, as ours."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert import swin
from vitrail.models.convert.foreign_records import as_count, complete
from vitrail.models.convert.prefixes import left_out
from vitrail.models.convert.renaming import check_fit, copies, shapes_of
from vitrail.models.convert.vit import from_vit
from vitrail.models.convert.vit_configs import config_from_transformers
from vitrail.models.segmentation_heads import AUXILIARY_WIDTH
from vitrail.models.segmenter import SegmenterConfig, build_segmenter
from vitrail.nn.heads.segmentation.upernet import LEVELS, SIZES
from vitrail.records import to_record

HEAD, AUXILIARY = "decode_head.", "auxiliary_head."
STAGE = re.compile(r"hidden_states_norms\.stage(\d+)\.")
# Theirs, of their modules and of their files, to ours; the last two are inside each convolution with its norm.
NAMES = tuple(
    (re.compile(pattern), ours)
    for pattern, ours in (
        (r"^decode_head\.psp_modules\.(?:blocks\.)?(\d+)\.(?:1|conv)\.", r"head.pooling.branches.\1."),
        (r"^decode_head\.(?:psp_)?bottleneck\.", "head.pooling.fuse."),
        (r"^decode_head\.lateral_convs\.", "head.lateral."),
        (r"^decode_head\.fpn_convs\.", "head.smooth."),
        (r"^decode_head\.fpn_bottleneck\.", "head.fuse."),
        (r"^decode_head\.classifier\.", "head.output."),
        (r"^auxiliary_head\.convs\.0\.", "auxiliary.0.hidden."),
        (r"^auxiliary_head\.classifier\.", "auxiliary.0.output."),
        (r"^(?:fpn\.)?fpn1\.(?:conv_transpose1|0)\.", "head.rescaling.first."),
        (r"^(?:fpn\.)?fpn1\.(?:conv_transpose2|3)\.", "head.rescaling.second."),
        (r"^(?:fpn\.)?fpn1\.(?:normalization|1)\.", "head.rescaling.norm."),
        (r"^(?:fpn\.)?fpn2\.(?:0\.)?", "head.rescaling.twice."),
        (r"\.conv\.weight$", ".convolution.weight"),
        (r"\.(?:bn|batch_norm|normalization)\.", ".norm."),
    )
)


def from_upernet(
    theirs: Mapping[str, Tensor], record: Mapping[str, Any]
) -> tuple[SegmenterConfig, dict[str, Tensor], list[str]]:
    """Our config and weights, and lines about what was left out. Their norms of the stages' maps are `feature_norms`, the last stage's that
    of our encoder; the norm that their Swin ends with reads nothing."""
    inside = record.get("backbone_config")
    if not isinstance(inside, Mapping) or inside.get("model_type") != "swin":
        kind = inside.get("model_type") if isinstance(inside, Mapping) else inside
        raise VitrailError(f"the encoder of an UPerNet that is read must be a swin, got {kind}")
    encoder = swin.config_from_transformers({**complete(inside), "id2label": {}})
    stages = len(encoder.depths)
    if inside.get("out_features", stages) not in (stages, [f"stage{number + 1}" for number in range(stages)]):
        raise VitrailError(f"out_features must be all {stages} stages, got {inside['out_features']}")
    rest = {name: tensor for name, tensor in theirs.items() if not name.startswith("backbone.")}
    bare = {name.removeprefix("backbone.").removeprefix("swin."): theirs[name] for name in theirs if name not in rest}
    norms = {name: bare.pop(name) for name in list(bare) if STAGE.match(name)}
    bare = {name: tensor for name, tensor in bare.items() if not name.startswith("layernorm.")}
    ours = {}
    for name, tensor in norms.items():
        number, kind = int(STAGE.match(name)[1]), name.split(".")[-1]  # type: ignore[index]
        if number == stages:
            bare[f"layernorm.{kind}"] = tensor
        else:
            ours[f"feature_norms.{number - 1}.{kind}"] = tensor
    ours |= {f"backbone.{name}": tensor for name, tensor in swin.from_swin(bare, encoder).items()}
    return finish(ours, rest, record, network="swin", backbone=to_record(encoder), layers=None)


def from_segmenting_beit(
    theirs: Mapping[str, Tensor], record: Mapping[str, Any]
) -> tuple[SegmenterConfig, dict[str, Tensor], list[str]]:
    """The same. Their out_indices count from 1 and begin with what the first block reads: i is what stands behind our block i - 2."""
    whole = complete(record)
    indices = whole.get("out_indices")
    if not isinstance(indices, list | tuple) or len(indices) != LEVELS or not all(type(index) is int for index in indices):
        raise VitrailError(f"out_indices must be {LEVELS} whole numbers, got {indices}")
    if min(indices) < 2 or max(indices) > whole["num_hidden_layers"] + 1:
        raise VitrailError(f"out_indices must be from 2 to {whole['num_hidden_layers'] + 1}, behind a block, got {indices}")
    if not whole.get("use_mean_pooling", True):
        raise VitrailError("use_mean_pooling must be True, got False: then a norm reads the last tokens that no map is made of")
    bare = {name.removeprefix("beit."): tensor for name, tensor in theirs.items() if name.startswith("beit.")}
    rest = {name: tensor for name, tensor in theirs.items() if not name.startswith("beit.")}
    encoder = config_from_transformers(whole, bare)
    # The norm of their classifier is not in their file: ours is kept as it begins, and nothing reads it.
    unread = {"pooler.layernorm.weight": torch.ones(encoder.width), "pooler.layernorm.bias": torch.zeros(encoder.width)}
    ours = {f"backbone.{name}": tensor for name, tensor in from_vit({**bare, **unread}, encoder).items()}
    layers = tuple(index - 2 for index in indices)
    wide = {**record, "hidden_size": encoder.width}
    return finish(ours, rest, wide, network="vit", backbone=to_record(encoder), layers=layers)


def finish(
    ours: dict[str, Tensor], rest: Mapping[str, Tensor], record: Mapping[str, Any], *, network: str, backbone: dict[str, Any],
    layers: tuple[int, ...] | None,
) -> tuple[SegmenterConfig, dict[str, Tensor], list[str]]:  # fmt: skip
    """The heads. An auxiliary one of a form that ours has not is left out: it is for learning only."""
    if list(record.get("pool_scales", SIZES)) != list(SIZES):
        raise VitrailError(f"pool_scales must be {SIZES}, got {record['pool_scales']}")
    width = as_count("hidden_size", record.get("hidden_size", 512))
    usual = (min(AUXILIARY_WIDTH, width), 1, False)
    options = (("auxiliary_channels", 256), ("auxiliary_num_convs", 1), ("auxiliary_concat_input", False))
    helped = any(name.startswith(AUXILIARY) for name in rest)
    known = helped and tuple(record.get(name, default) for name, default in options) == usual
    gone = {name: tensor for name, tensor in rest.items() if name.startswith(AUXILIARY) and not known}
    classes = rest.get(f"{HEAD}classifier.weight")
    if classes is None:
        raise VitrailError(f"a weight of this model is missing: {HEAD}classifier.weight")
    third = 2 if layers is None else layers[2]  # the map that their auxiliary head reads
    config = SegmenterConfig(
        network=network, backbone=backbone, head="upernet", num_classes=len(classes), layers=layers, head_width=width,
        auxiliary=(third,) if known else (),
    )  # fmt: skip
    ours |= {rename(name): tensor for name, tensor in rest.items() if name not in gone}
    check_fit(ours, shapes_of(build_segmenter, config))
    return config, copies(ours), left_out(gone)


def rename(name: str) -> str:
    for pattern, ours in NAMES:
        name = pattern.sub(ours, name)
    return name
