"""Whose weights these are, and what they are here: from any origin's tensors, and its config.json if there is one, to our architecture, config
and weights. `ORIGINS` is the one table of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.models.backbones import PretrainedConfig
from vitrail.models.convert import google, meta
from vitrail.models.convert.beit import HEAD as WORDS
from vitrail.models.convert.foreign_records import DEFAULTS, complete
from vitrail.models.convert.hints import Hints, read_hints
from vitrail.models.convert.hybrid import STEM
from vitrail.models.convert.images import HALF, IMAGENET, preprocessing_of
from vitrail.models.convert.prefixes import inner
from vitrail.models.convert.readers import Found, read_mae, read_masked_beit, read_swin, read_upernet, read_vit
from vitrail.models.convert.swin_shapes import is_swin, new_names
from vitrail.models.convert.upernet import HEAD as SEGMENTER
from vitrail.preprocessing import Preprocessing
from vitrail.records import to_record

SEGMENTERS = ("upernet", "segmenting beit")
Library = Literal["transformers", "timm", "google", "meta"]


class Origin(NamedTuple):
    """A library and one of its models."""

    library: Library
    family: str

    def __str__(self) -> str:
        return f"{self.library} {self.family}"


class Reader(NamedTuple):
    """How weights of an origin are read, the eps of their norms where no record says it, and the colors of their images."""

    read: Callable[[Mapping[str, Tensor], Mapping[str, Any] | None, float, Hints], Found]
    eps: float
    colors: tuple[tuple[float, ...], ...]


class Converted(NamedTuple):
    """A model of ours, not built yet, and lines about it for whoever brought it."""

    architecture: str
    config: Any
    weights: dict[str, Tensor]
    notes: tuple[str, ...]
    preprocessing: Preprocessing | None = None
    labels: tuple[str, ...] | None = None
    origin: Origin | None = None


ORIGINS: Mapping[Origin, Reader] = MappingProxyType(
    {
        Origin("transformers", "vit"): Reader(read_vit, 1e-12, HALF),
        Origin("transformers", "deit"): Reader(read_vit, 1e-12, IMAGENET),
        Origin("transformers", "beit"): Reader(read_vit, 1e-12, HALF),
        Origin("transformers", "masked beit"): Reader(read_masked_beit, 1e-12, HALF),
        Origin("transformers", "vit_mae"): Reader(read_vit, 1e-12, IMAGENET),  # its encoder alone
        Origin("transformers", "mae"): Reader(read_mae, 1e-12, IMAGENET),
        Origin("transformers", "dinov2"): Reader(read_vit, 1e-6, IMAGENET),
        Origin("transformers", "dinov2_with_registers"): Reader(read_vit, 1e-6, IMAGENET),
        Origin("transformers", "swin"): Reader(read_swin, 1e-5, IMAGENET),
        Origin("transformers", "swinv2"): Reader(read_swin, 1e-5, IMAGENET),
        Origin("transformers", "upernet"): Reader(read_upernet, 1e-5, IMAGENET),
        Origin("transformers", "segmenting beit"): Reader(read_upernet, 1e-12, HALF),
        Origin("timm", "vit"): Reader(read_vit, 1e-6, HALF),
        Origin("timm", "scaled vit"): Reader(read_vit, 1e-6, IMAGENET),  # DeiT III, DINOv2: with layer scale
        Origin("timm", "deit"): Reader(read_vit, 1e-6, IMAGENET),
        Origin("timm", "beit"): Reader(read_vit, 1e-6, HALF),
        Origin("timm", "hybrid"): Reader(read_vit, 1e-6, HALF),
        Origin("timm", "swin"): Reader(read_swin, 1e-5, IMAGENET),
        Origin("timm", "swinv2"): Reader(read_swin, 1e-5, IMAGENET),
        Origin("google", "vit"): Reader(read_vit, 1e-6, HALF),
        Origin("google", "hybrid"): Reader(read_vit, 1e-6, HALF),
        Origin("meta", "dino"): Reader(read_vit, 1e-6, IMAGENET),
        Origin("meta", "dinov2"): Reader(read_vit, 1e-6, IMAGENET),
        Origin("meta", "mae"): Reader(read_mae, 1e-6, IMAGENET),
        Origin("meta", "masked beit"): Reader(read_masked_beit, 1e-6, HALF),
    }
)


def recognize(tensors: Mapping[str, Tensor], record: Mapping[str, Any] | None = None) -> Origin:
    """Whose these are, by what their config.json says and by how the weights are named."""
    if not tensors:
        raise VitrailError("there are no weights in this file")
    if any("/" in name for name in tensors):
        return Origin("google", "hybrid" if any(name.endswith("conv_root/kernel") for name in tensors) else "vit")
    if any(name.startswith(SEGMENTER) for name in tensors):
        beit = any(name.startswith("beit.") for name in tensors)
        return Origin("transformers", "segmenting beit" if beit else "upernet")
    bare, start, _ = inner(tensors)
    if record is not None and "model_type" in record and "architecture" not in record:
        return within_transformers(bare, check_choice("model_type", str(record["model_type"]), DEFAULTS))
    if any("embeddings.patch_embeddings." in name for name in bare):
        return within_transformers(bare, kind_of_names(bare))
    if "patch_embed.proj.weight" not in bare:
        raise VitrailError(
            f"no origin is known whose weights are named like {next(iter(tensors))}: {', '.join(sorted({o.library for o in ORIGINS}))} are read"
        )
    return of_timm_or_meta(bare, start)


def within_transformers(bare: Mapping[str, Tensor], kind: str) -> Origin:
    if kind == "beit" and any(name.startswith(f"{WORDS}.") for name in bare):
        return Origin("transformers", "masked beit")
    if kind in ("vit", "vit_mae") and any(name.startswith("decoder.") for name in bare):
        return Origin("transformers", "mae")
    return Origin("transformers", kind)


def kind_of_names(bare: Mapping[str, Tensor]) -> str:
    """transformers' model type, where no record says it."""
    own = next((name.split(".")[0] for name in bare if ".embeddings." in name), "")
    if own in DEFAULTS:
        return own
    marks = {
        "swinv2": ".logit_scale",
        "swin": ".blocks.0.",
        "dinov2_with_registers": "register_tokens",
        "dinov2": "layer_scale1.lambda1",
        "deit": "distillation_token",
    }
    beit = ("lambda_1", "relative_position_bias_table", "pooler.layernorm.weight")
    found = next((kind for kind, mark in marks.items() if any(mark in name for name in bare)), None)
    return found or ("beit" if any(name.endswith(beit) for name in bare) else "vit")


def of_timm_or_meta(bare: Mapping[str, Tensor], start: str) -> Origin:
    names = set(bare)
    if is_swin(bare):
        return Origin("timm", "swinv2" if any(name.endswith("logit_scale") for name in names) else "swin")
    if "decoder_embed.weight" in names:
        return Origin("meta", "mae")
    if f"{WORDS}.weight" in names:
        return Origin("meta", "masked beit")
    if any(name.endswith("relative_position_bias_table") for name in names):
        return Origin("timm", "beit")
    if "mask_token" in names or "register_tokens" in names or any(".mlp.w12." in name for name in names):
        return Origin("meta", "dinov2")
    if any(name.startswith(("head.mlp.", "head.last_layer.")) for name in names) or start.endswith("backbone."):
        return Origin("meta", "dino")
    if any(name.startswith(STEM) for name in names):
        return Origin("timm", "hybrid")
    if any(name.endswith((".ls1.gamma", ".gamma_1")) for name in names):
        return Origin("timm", "scaled vit")
    return Origin("timm", "deit" if "dist_token" in names else "vit")


def convert(
    tensors: Mapping[str, Tensor],
    record: Mapping[str, Any] | None = None,
    *,
    image_size: tuple[int, int] | None = None,
    heads: int | None = None,
) -> Converted:
    """Our architecture, config and weights. `record` is their config.json, with preprocessor_config.json under the key `preprocessor`.

    Without a record the config comes from names and shapes; `image_size` and `heads` are for what these cannot tell. A weight that has no
    place, or lacks, is named.
    """
    origin = recognize(tensors, record)
    reader, hints = ORIGINS[origin], read_hints(record, image_size=image_size, heads=heads)
    floats = as_floats(tensors)
    if origin.library == "google":
        bare, found = google.as_timm(floats)
        hints, notes = hints._replace(heads=found or hints.heads), list[str]()
    elif origin.family in SEGMENTERS:  # all of the file is the model
        bare, notes = floats, []
    else:
        bare, _, notes = inner(floats)
    if origin.library in ("meta", "timm"):
        bare, more = meta.as_timm(new_names(bare) if is_swin(bare) else bare)
        notes += more
    whole = None
    if origin.library == "transformers" and record is not None and "model_type" in record:
        whole = dict(record) if origin.family in SEGMENTERS else complete(record)
    model = reader.read(bare, whole, reader.eps, hints)
    notes += model.notes
    if origin.library == "timm" and model.architecture == "vit" and model.config.position == "learned_1d":
        model = model._replace(config=replace(model.config, position_antialias=True))  # so timm resizes them, for any model
    inner_config = model.config.backbone if isinstance(model.config, PretrainedConfig) else to_record(model.config)
    size = tuple(inner_config["image_size"])
    channels = model.config.in_channels
    preprocessing, more = preprocessing_of(record, size, channels, usual=reader.colors, origin=str(origin))
    labels = labels_of(record, getattr(model.config, "num_classes", 0))
    return Converted(model.architecture, model.config, model.weights, (*notes, *more), preprocessing, labels, origin)


def as_floats(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In single precision, whatever a file has them in; counts and masks stay."""
    return {name: tensor.to(torch.float32) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def labels_of(record: Mapping[str, Any] | None, classes: int) -> tuple[str, ...] | None:
    """The names of the classes, where a record has one for each and they are more than numbers."""
    record = record or {}
    found = record.get("label_names") or record.get("id2label")
    if isinstance(found, Mapping):
        found = [found.get(str(number), found.get(number)) for number in range(len(found))]
    if not isinstance(found, list | tuple) or len(found) != classes or not classes:
        return None
    if not all(isinstance(name, str) for name in found) or all(name == f"LABEL_{number}" for number, name in enumerate(found)):
        return None
    return tuple(found)
