"""What an exported file says of itself, so that it can be used without this library: texts that are JSON."""

import json
from typing import Any

from vitrail.models.purpose import PIPELINES, purpose_of
from vitrail.preprocessing import Preprocessing
from vitrail.records import to_record
from vitrail.version import __version__


def metadata_of(model: Any, *, size: tuple[int, int] | None = None, size_step: int | None = None) -> dict[str, str]:
    """How a picture becomes its input, what its numbers mean, and where it comes from.

    `size` is what pictures are brought to, by default as the model has it. `size_step`: sides may be any multiples of it; None: the
    size is fixed.
    """
    preprocessing: Preprocessing = model.preprocessing
    described = to_record(preprocessing)
    if size is not None:
        described["size"] = list(size)
    facts = {
        "preprocessing": described,
        "labels": None if model.labels is None else list(model.labels),
        "multi_label": model.multi_label,
        "output": output_name(model),
        "task": PIPELINES[purpose_of(model)],
        "size_step": size_step,
        "architecture": model.architecture,
        "config": to_record(model.config),
        "vitrail_version": __version__,
    }
    return {name: json.dumps(value) for name, value in facts.items()}  # in ASCII: some readers mistake anything else


def output_name(model: Any) -> str:
    """What comes out: logits of classes, features where there are none, or pictures."""
    return {"classify": "logits", "restore": "pictures"}.get(purpose_of(model), "features")
