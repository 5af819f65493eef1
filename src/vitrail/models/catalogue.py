"""The one table from a model's name to its config and builder."""

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import nn

from vitrail.errors import VitrailError, suggestion
from vitrail.models import (
    beit,
    captioner,
    convolution_free,
    detr,
    detr_presets,
    dino,
    dvae,
    igpt,
    language,
    mask_predict,
    masked_autoencoder,
    moco,
    reconstructor,
    segmenter,
    segmenter_presets,
    seq2seq,
    show_attend_tell,
    swinir,
    transformer,
    unet,
    unetr,
    vit_restorer,
)
from vitrail.models.backbones import NETWORKS
from vitrail.models.features import FeatureMaps
from vitrail.models.model import Model
from vitrail.models.pretrained import find_packaged, find_recommended, split_tag, weights_of
from vitrail.nn.initialization import shapes_only
from vitrail.records import from_record, has_field, to_record

Takes = Literal[
    "images", "text", "captions", "pixels", "restoration", "k-space", "views", "segmentation", "boxes", "volumes"
]  # captions: images and words; views: images without labels; segmentation: images and masks; boxes: and objects


class Architecture(NamedTuple):
    """How models of one kind are made from their config, and what they read."""

    config: type[Any]
    build: Callable[[Any], Any]
    takes: Takes = "images"


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        **{name: Architecture(network.config, network.build) for name, network in NETWORKS.items()},
        "transformer": Architecture(transformer.TransformerConfig, transformer.build_transformer, "text"),
        "language": Architecture(language.LanguageConfig, language.build_language, "text"),
        "mask_predict": Architecture(mask_predict.MaskPredictConfig, mask_predict.build_mask_predict, "text"),
        "seq2seq": Architecture(seq2seq.Seq2SeqConfig, seq2seq.build_seq2seq, "text"),
        "show_attend_tell": Architecture(
            show_attend_tell.ShowAttendTellConfig, show_attend_tell.build_show_attend_tell, "captions"
        ),
        "captioner": Architecture(captioner.CaptionerConfig, captioner.build_captioner, "captions"),
        "reconstructor": Architecture(reconstructor.ReconstructorConfig, reconstructor.build_reconstructor, "k-space"),
        "unetr": Architecture(unetr.UNETRConfig, unetr.build_unetr, "volumes"),
        "convolution_free": Architecture(
            convolution_free.ConvolutionFreeConfig, convolution_free.build_convolution_free, "volumes"
        ),
        "igpt": Architecture(igpt.IGPTConfig, igpt.build_igpt, "pixels"),
        "mae": Architecture(masked_autoencoder.MAEConfig, masked_autoencoder.build_mae, "views"),
        "dino": Architecture(dino.DINOConfig, dino.build_dino, "views"),
        "moco": Architecture(moco.MoCoConfig, moco.build_moco, "views"),
        "dvae": Architecture(dvae.DVAEConfig, dvae.build_dvae, "views"),
        "beit": Architecture(beit.BEiTConfig, beit.build_beit, "views"),
        "detr": Architecture(detr.DetectorConfig, detr.build_detector, "boxes"),
        "swinir": Architecture(swinir.SwinIRConfig, swinir.build_swinir, "restoration"),
        "unet": Architecture(unet.UNetConfig, unet.build_unet, "restoration"),
        "vit_restorer": Architecture(vit_restorer.ViTRestorerConfig, vit_restorer.build_vit_restorer, "restoration"),
        "segmenter": Architecture(segmenter.SegmenterConfig, segmenter.build_segmenter, "segmentation"),
    }
)

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{name: network.presets for name, network in NETWORKS.items()},
        "transformer": transformer.PRESETS,
        "language": language.PRESETS,
        "mask_predict": mask_predict.PRESETS,
        "seq2seq": seq2seq.PRESETS,
        "show_attend_tell": show_attend_tell.PRESETS,
        "captioner": captioner.PRESETS,
        "reconstructor": reconstructor.PRESETS,
        "igpt": igpt.PRESETS,
        "dvae": dvae.PRESETS,
        "detr": detr_presets.PRESETS,
        "swinir": swinir.PRESETS,
        "unet": unet.PRESETS,
        "vit_restorer": vit_restorer.PRESETS,
        "segmenter": segmenter_presets.PRESETS,
        "unetr": unetr.PRESETS,
        "convolution_free": convolution_free.PRESETS,
    }
)
MODELS: Mapping[str, tuple[str, Any]] = MappingProxyType(
    {name: (architecture, config) for architecture, presets in PRESETS.items() for name, config in presets.items()}
)

# What other libraries call our options; answered with our name, never accepted in silence.
FOREIGN = MappingProxyType(
    {
        "img_size": "image_size", "input_size": "image_size", "in_chans": "in_channels", "num_channels": "in_channels",
        "channels": "in_channels", "embed_dim": "width", "hidden_size": "width", "dim": "width", "num_heads": "heads",
        "num_layers": "depth", "patch_size": "patch", "global_pool": "pool", "drop_path_rate": "drop_path",
        "drop_rate": "dropout", "attn_drop_rate": "attention_dropout", "init_values": "layer_scale", "num_labels": "num_classes",
        "reg_tokens": "prefix", "layer_norm_eps": "eps", "d_model": "width", "nhead": "heads", "dim_feedforward": "hidden",
        "num_encoder_layers": "depth", "num_decoder_layers": "decoder_depth", "vocab_size": "vocabulary",
        "max_position_embeddings": "longest", "checkpoint_path": "pretrained",
    }
)  # fmt: skip


def list_models(pattern: str = "*") -> list[str]:
    """Names of the catalogue that match a shell pattern, in alphabetical order."""
    return sorted(name for name in MODELS if fnmatch.fnmatch(name, pattern))


def image_models(pattern: str = "*") -> list[str]:
    """Those of them that take images and nothing else: the classifiers."""
    return [name for name in list_models(pattern) if ARCHITECTURES[MODELS[name][0]].takes == "images"]


def model_config(name: str, **overrides: Any) -> tuple[str, Any]:
    """The architecture and the config that a name and its overrides stand for; nothing is built."""
    if name not in MODELS:
        raise VitrailError(f'unknown model "{name}"{suggestion(name, MODELS)} (vitrail models lists them all)')
    architecture, config = MODELS[name]
    known = [field.name for field in fields(config)]
    for option in overrides:
        if option in FOREIGN:
            raise VitrailError(f'"{option}" is called "{FOREIGN[option]}" here')
        if option not in known:
            raise VitrailError(f'{name} has no option "{option}"{suggestion(option, known)}')
    if isinstance(overrides.get("image_size"), int):
        overrides["image_size"] = (overrides["image_size"],) * len(getattr(config, "image_size", (0, 0)))
    record = to_record(config) | overrides
    return architecture, from_record(type(config), record, what=name)


def create_model(
    name: str,
    *,
    pretrained: str | Path | bool | None = None,
    features_only: bool = False,
    out_indices: int | Sequence[int] | None = None,
    **overrides: Any,
) -> Any:
    """A new model. Overrides are the fields of its config: num_classes, image_size, position, depth, ...

    Untrained, or with the weights of `pretrained`: True (the package's, or those recommended for the name), a tag, or all that `vt.load` takes,
    adapted to the size, patch, channels and classes asked for, which VitrailWarnings tell. With `features_only` it returns a list of maps (b channels h w) behind the blocks, or stages, `out_indices`: an int asks
    for the last ones; by default the last three of a plain encoder, all of an encoder of stages. Its `feature_info` is timm's.
    """
    if out_indices is not None and not features_only:
        raise VitrailError("out_indices goes with features_only=True")
    name, tag = split_tag(name)
    if tag and name in MODELS and pretrained is not True:
        raise VitrailError(
            f'"{name}.{tag}" names weights: pretrained=True reads them, and "{name}" alone is the model without them'
        )
    if pretrained is True:
        model_config(name)  # a name that nobody knows is said first
        pretrained = weights_of(name, tag)
    elif isinstance(pretrained, str) and (known := named_tag(name, pretrained)) is not None:
        pretrained = known
    if pretrained:
        from vitrail.models.importing import import_as  # which needs this table

        model = import_as(name, pretrained, overrides)
    else:
        architecture, config = model_config(name, **overrides)
        model = ARCHITECTURES[architecture].build(config)
    return FeatureMaps(model, out_indices=out_indices) if features_only else model


def named_tag(name: str, tag: str) -> str | None:
    """The weights that a tag alone stands for beside a name, as in pretrained="v1"; None where it is no such tag."""
    title = f"{name}.{tag}"
    known = re.fullmatch(r"[\w]+", tag) and (find_packaged(title) is not None or find_recommended(title) is not None)
    return weights_of(name, tag) if known else None


def build_model(architecture: str, config: Any) -> Any:
    """A model from a config read from a file."""
    return ARCHITECTURES[architecture].build(config)


def rebuild(model: Model, **changes: Any) -> Any:
    """A model with the same weights and preprocessing, and some fields of its config changed: dropout is a recipe's, not a model's."""
    again = build_model(model.architecture, replace(model.config, **changes))
    again.load_state_dict(model.state_dict())
    again.preprocessing = model.preprocessing
    again.labels, again.multi_label = model.labels, model.multi_label
    if isinstance(model, segmenter.Segmenter):
        again.colors = model.colors
    return again


def rebuild_merging(model: Model, merge: int | None) -> Any:
    """The same model with so many tokens merged in each block; None: as it is."""
    if merge is None:
        return model
    if not has_field(model.config, "merge"):
        raise VitrailError(f"merge={merge}: a model of the kind {model.architecture} merges no tokens; a vit does")
    return rebuild(model, merge=merge).train(model.training)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def describe_architecture(model: Model) -> str:
    return f"{model.architecture}, {count_parameters(model):,} parameters"


def table_row(name: str) -> dict[str, Any]:
    """What `vitrail models` tells of a model; built on the meta device, so that even the largest takes no memory."""
    architecture, config = MODELS[name]
    with shapes_only():
        parameters = count_parameters(create_model(name))
    facts = {field: getattr(config, field, None) for field in ("width", "depth", "heads", "patch")}
    if has_field(config, "depths"):
        facts["depth"] = sum(config.depths)
    if has_field(config, "decoder_depth"):
        facts["depth"] = config.depth + config.decoder_depth
    takes = ARCHITECTURES[architecture].takes
    size = None if takes == "restoration" else getattr(config, "image_size", None)  # restorers read any
    reads = {"image_size": None if size is None else list(size), "takes": takes}
    return {"name": name, "family": architecture, "parameters": parameters, **facts, **reads}
