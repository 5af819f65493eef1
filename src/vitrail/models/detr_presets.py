"""Detectors by name."""

from dataclasses import replace
from types import MappingProxyType

from vitrail.models.detr import DetectorConfig
from vitrail.models.vit_presets import PRESETS as VITS
from vitrail.records import to_record

MICRO = DetectorConfig(
    backbone=to_record(replace(VITS["vit_micro_hybrid"], image_size=(64, 64), patch=8)), num_classes=20,
    width=128, depth=1, decoder_depth=3, heads=4, hidden=256, queries=20, dropout=0.0,
)  # fmt: skip
PRESETS = MappingProxyType({"detr_micro": MICRO})
