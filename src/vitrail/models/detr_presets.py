"""Detectors by name."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.models import swin
from vitrail.models.detr import DetectorConfig
from vitrail.models.vit_presets import PRESETS as VITS
from vitrail.records import to_record

# For 64 pixels and for photographs of 320x240, thousands or hundreds of them, on two cores: convolutions before few tokens, and
# queries that begin at places of the image. docs/log.md has the trials.
MICRO = DetectorConfig(
    backbone=to_record(replace(VITS["vit_micro_hybrid"], image_size=(64, 64), patch=8)), num_classes=20,
    width=128, depth=1, decoder_depth=3, heads=4, hidden=256, queries=20, dropout=0.0,
    query_kind="selected", focal=True, denoising=40, position_base=20.0, position_shift=0.5,
)  # fmt: skip
SMALL = replace(
    MICRO, backbone=to_record(replace(VITS["vit_mini_hybrid"], image_size=(240, 320), patch=16, tokenizer_layers=6)),
    image_size=None, width=160, heads=5, hidden=480, queries=60, denoising=100,
)  # fmt: skip
PLAIN: dict[str, Any] = {
    "query_kind": "learned",
    "focal": False,
    "denoising": 0,
    "position_base": 10_000.0,
    "position_shift": 1.0,
}
PRESETS = MappingProxyType(
    {
        "detr_micro": MICRO,
        "detr_micro_plain": replace(MICRO, **PLAIN),
        "detr_small": SMALL,
        "detr_small_plain": replace(SMALL, **PLAIN),
        # The published transformer [Carion+ 2020, section 4], on encoders that others have trained.
        "detr_vit_small_patch16_224": DetectorConfig(backbone=to_record(VITS["vit_small_patch16_224"])),
        "detr_swin_tiny_patch4_window7_224": DetectorConfig(
            network="swin", backbone=to_record(swin.PRESETS["swin_tiny_patch4_window7_224"])
        ),
    }
)
