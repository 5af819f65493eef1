"""Which maps of a backbone a dense head reads, and how wide they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitrail.errors import VitrailError


def all_widths(network: str, backbone: Mapping[str, Any]) -> list[int]:
    """Channels of each map that a backbone of this record can give: behind its stages, or its blocks."""
    if network == "resnet":
        return list(backbone["widths"])
    if network == "swin":
        return [backbone["width"] << stage for stage in range(len(backbone["depths"]))]
    return [backbone["width"]] * int(backbone["depth"])


def level_widths(network: str, backbone: Mapping[str, Any], levels: Sequence[int]) -> list[int]:
    """Of the maps with these numbers; negative ones count from the last."""
    widths = all_widths(network, backbone)
    for level in levels:
        if not -len(widths) <= level < len(widths):
            raise VitrailError(
                f"levels: {level} does not exist: the backbone has {len(widths)} maps to give, 0 to {len(widths) - 1}"
            )
    if len({level % len(widths) for level in levels}) != len(levels) or not levels:
        raise VitrailError(f"levels must name at least one map and each once, got {list(levels)}")
    return [widths[level] for level in levels]
