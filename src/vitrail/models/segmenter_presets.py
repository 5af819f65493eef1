"""Segmenters by name: the published ones, and those for small pictures and small data."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.models import vit_presets
from vitrail.models.segmenter import SegmenterConfig
from vitrail.records import to_record


def on(encoder: Any, head: str, *, network: str = "vit", **settings: Any) -> SegmenterConfig:
    return SegmenterConfig(network=network, backbone=to_record(encoder), head=head, **settings)


SETR = ("setr_naive", "setr_pup", "setr_mla")
PRESETS: Mapping[str, SegmenterConfig] = MappingProxyType(
    {
        # [Zheng+ 2021, section 4.1]: T-Large at the size of its pretraining, with auxiliary heads behind blocks 10, 15 and 20.
        **{
            f"{head}_vit_large_patch16_384": on(
                replace(vit_presets.SIZES["large"], image_size=(384, 384)), head, auxiliary=(9, 14, 19)
            )
            for head in SETR
        },
        **{f"{head}_vit_tiny_patch16_224": on(vit_presets.SIZES["tiny"], head) for head in SETR},
        # For 32 to 240 pixels and data sets of hundreds, on two cores.
        **{
            f"{name}_vit_{size}_hybrid": on(
                replace(vit_presets.PRESETS[f"vit_{size}_hybrid"], image_size=(96, 96)), head, num_classes=5, head_width=width
            )
            for size, width in (("micro", 64), ("mini", 96))
            for name, head in ((*((head, head) for head in SETR), ("segmenter_linear", "linear")))
        },
    }
)
