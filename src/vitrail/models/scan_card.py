"""What the card of a model says that reconstructs MRI scans."""

from collections.abc import Iterable
from typing import Any

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import block, literal

TITLE = "reconstruction of accelerated scans"


def describe_reconstructor(model: Any) -> Iterable[str]:
    yield f"A model of the Vitrail library for accelerated MRI: {count_parameters(model):,} parameters, any size and number of coils."
    kept = {"none": "not enforced", "hard": "kept as they were measured", "sense": "fitted by a few steps of SENSE"}[
        model.config.consistency
    ]
    yield (
        f"The zero-filled picture of all coils goes through {literal(model.config.network)}, which takes out what the missing lines "
        f"of k-space left in it; measured lines are {kept}."
    )


def use_reconstructor() -> Iterable[str]:
    yield "## How to use it"
    yield block(
        [
            "import vitrail as vt",
            "",
            'model = vt.load("path/to/this/folder")',
            "image = model(kspace, mask, maps)  # complex: (b, c, h, w), (b, 1, w) True where measured, (b, c, h, w) to (b, h, w)",
        ],
        "python",
    )
    yield block(["vitrail eval path/to/this/folder --data scan.npz --out scores/"], "bash")


def scan_limits() -> list[str]:
    return [
        "No medical device: details that were not measured may be invented, or missing, without any sign of it.",
        "Another body, contrast, scanner, or acceleration than it was trained for may cost more than it gains.",
    ]
