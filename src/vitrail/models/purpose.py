"""What a model is for: what it reads and what it answers with decide which task scores it and what its card says."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from vitrail.models.catalogue import ARCHITECTURES

Purpose = Literal[
    "classify",
    "features",
    "translate",
    "language",
    "fill",
    "caption",
    "igpt",
    "restore",
    "mri",
    "pretrain",
    "segment",
    "detect",
    "segment3d",
]

# Hugging Face's names of these. Not every model of pixels draws pictures, but all have features to read.
PIPELINES: Mapping[Purpose, str] = MappingProxyType(
    {
        "classify": "image-classification",
        "features": "image-feature-extraction",
        "translate": "translation",
        "language": "text-generation",
        "fill": "fill-mask",
        "caption": "image-to-text",
        "igpt": "image-feature-extraction",
        "restore": "image-to-image",
        "mri": "image-to-image",
        "pretrain": "image-feature-extraction",
        "segment": "image-segmentation",
        "detect": "object-detection",
        "segment3d": "image-segmentation",
    }
)


def purpose_of(model: Any) -> Purpose:
    """By what it takes (see the catalogue); of text, whether it reads one sentence before it writes another."""
    takes = ARCHITECTURES[model.architecture].takes
    if takes == "pictures":
        return "classify" if model.num_classes else "features"
    if takes == "captions":
        return "caption"
    if takes == "pixels":
        return "igpt"
    if takes == "restoration":
        return "restore"
    if takes == "k-space":
        return "mri"
    if takes == "volumes":
        return "segment3d"
    if takes == "views":
        return "pretrain"
    if takes == "segmentation":
        return "segment"
    if takes == "boxes":
        return "detect"
    if hasattr(model, "encode"):
        return "translate"
    return "language" if model.config.causal else "fill"
