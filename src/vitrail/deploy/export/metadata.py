"""What an exported file says of itself, so that it can be used without this library: texts that are JSON."""

import json
from typing import Any

from vitrail.deploy.export.interface import Interface
from vitrail.models.model import Model
from vitrail.records import to_record
from vitrail.version import __version__


def metadata_of(
    model: Model, interface: Interface, *, size: tuple[int, ...] | None = None, size_step: int | None = None
) -> dict[str, str]:
    """How an image, or a scan, becomes its input, what its numbers mean, and where it comes from.

    `size` is what images are brought to, by default as the model has it. `size_step`: sides may be any multiples of it; None: the
    size is fixed.
    """
    described = describe_scan(model.config) if model.preprocessing is None else to_record(model.preprocessing)
    if size is not None:
        described["size"] = list(size)
    facts = {
        "preprocessing": described,
        "labels": None if model.labels is None else list(model.labels),
        "multi_label": model.multi_label,
        "input": interface.input,
        "output": next(iter(interface.outputs)),
        "outputs": interface.outputs,
        "task": model.pipeline_tag,
        "size_step": size_step,
        "architecture": model.architecture,
        "config": to_record(model.config),
        "vitrail_version": __version__,
    }
    return {name: json.dumps(value) for name, value in facts.items()}  # in ASCII: some readers mistake anything else


def describe_scan(config: Any) -> dict[str, Any]:
    """What makes a model's volumes of a file: turned to `axes`, voxels of `spacing` mm (null: as they come), the two numbers of `window`
    to 0 and 1 and clipped (null: percentiles 0.5 and 99.5 of the scan), and pieces of `size`. `values` are the files' numbers of the classes."""
    return {
        "size": list(config.image_size),
        "channels": config.in_channels,
        "axes": "RAS",
        "spacing": config.spacing,
        "window": config.window,
        "values": config.values or list(range(config.num_classes)),
    }
