"""What the card of a model says that learned without labels."""

from collections.abc import Iterable
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal


def describe_pretrained(model: Any) -> Iterable[str]:
    """Those without a backbone, such as the vocabulary of a picture's words, are told by their size alone."""
    height, width = model.image_size
    backbone = getattr(model, "backbone", None)
    inside = (
        ""
        if backbone is None
        else f", of which the backbone, a {literal(backbone.architecture)}, has {count_parameters(backbone):,}"
    )
    yield (
        f"A model of the Vitrail library that learned by the method {literal(model.architecture)}, without labels: "
        f"{count_parameters(model):,} parameters{inside}; pictures of {height}x{width} with {model.config.in_channels} channel(s)."
    )


def use_pretrained() -> Iterable[str]:
    yield "## How to use it"
    yield block(
        [
            "import vitrail as vt",
            "",
            'model = vt.load("path/to/this/folder").backbone',
            "tokens = model.forward_features(images)",
        ],
        "python",
    )
    yield block(["vitrail train --data pictures/ --weights path/to/this/folder"], "bash")


def use_vocabulary() -> Iterable[str]:
    """Of a discrete VAE, which has no backbone."""
    yield "## How to use it"
    yield block(
        [
            "import vitrail as vt",
            "",
            'model = vt.load("path/to/this/folder")',
            "codes = model.codes(images)  # a number for each patch",
            "pictures = model.decode(codes)",
        ],
        "python",
    )
    yield block(["vitrail pretrain --method beit --data pictures/ --tokenizer path/to/this/folder"], "bash")


def pretrained_limits() -> list[str]:
    return ["It has seen no label: what its features are good for shows when some are learned from (vitrail eval --protocol)."]
