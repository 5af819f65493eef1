"""Segmenters by name: the published ones, and those for small images and small data."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vitrail.models import resnet, swin, vit_presets
from vitrail.models.segmenter import SegmenterConfig
from vitrail.models.vit import ViTConfig
from vitrail.records import to_record


def on(encoder: Any, head: str, *, network: str = "vit", **settings: Any) -> SegmenterConfig:
    return SegmenterConfig(network=network, backbone=to_record(encoder), head=head, **settings)


VITS, SWINS = vit_presets.PRESETS, swin.PRESETS
SETR = ("setr_naive", "setr_pup", "setr_mla")
# Whose head it is, where the head's own name does not say it.
NAMES = {
    **{head: head for head in SETR},
    "linear": "segmenter_linear",
    "mask": "segmenter_mask",
    "upernet": "upernet",
    "trans2seg": "trans2seg",
}
SMALL = (96, 96)
HYBRIDS = (
    ("vit_micro_hybrid", 64),
    ("vit_mini_hybrid", 96),
    ("vit_micro_hybrid_deep", 64),
)  # encoders for small data, and the channels of heads for them

PRESETS: Mapping[str, SegmenterConfig] = MappingProxyType(
    {
        # [Zheng+ 2021, section 4.1]: T-Large at the size of its pretraining, with auxiliary heads behind the 10th, 15th and 20th block.
        **{
            f"{head}_vit_large_patch16_384": on(
                replace(vit_presets.SIZES["large"], image_size=(384, 384)), head, auxiliary=(9, 14, 19)
            )
            for head in SETR
        },
        **{f"{head}_vit_tiny_patch16_224": on(vit_presets.SIZES["tiny"], head) for head in SETR},
        # [Strudel+ 2021, table 2 and 6]; the mask transformer has two blocks as wide as the encoder's.
        **{
            f"segmenter_{head}_vit_{size}_patch16_384": on(replace(vit_presets.SIZES[size], image_size=(384, 384)), head)
            for size in ("tiny", "small", "base")
            for head in ("linear", "mask")
        },
        # [Liu+ 2021, section 4.3, table 3]
        **{
            f"upernet_swin_{size}_patch4_window7_512": on(
                replace(swin.SIZES[size], image_size=(512, 512)), "upernet", network="swin", auxiliary=(2,)
            )
            for size in ("tiny", "small", "base")
        },
        # [Bao+ 2022, section 3.2]; heads as wide as the encoder.
        **{
            f"upernet_beit_{size}_patch16_640": on(
                replace(VITS[f"beit_{size}_patch16_384"], image_size=(640, 640)), "upernet",
                layers=layers, auxiliary=(layers[2],), head_width=width,
            )
            for size, layers, width in (("base", (3, 5, 7, 11), 768), ("large", (7, 11, 15, 23), 1024))
        },
        # [Xie+ 2021, section 4.1]: four blocks of 256 on a ResNet-50 of stride 16, four of the decoder.
        "trans2seg_r50_512": on(
            ViTConfig(width=256, depth=4, heads=8, mlp_ratio=3.0, tokenizer="resnet", image_size=(512, 512), prefix=0, pool="mean"),
            "trans2seg", num_classes=12, head_depth=4,
        ),
        # For 32 to 240 pixels and datasets of hundreds, on two cores: every head on the same encoders.
        **{
            f"{name}_{encoder}": on(
                replace(VITS[encoder], image_size=SMALL), head, num_classes=5,
                head_width=None if head == "mask" else 32 if head == "trans2seg" else width,
            )
            for encoder, width in HYBRIDS
            for head, name in NAMES.items()
        },
        "upernet_swin_micro_96": on(
            replace(SWINS["swin_micro_patch4_window4_64"], image_size=SMALL), "upernet", network="swin", num_classes=5, head_width=64
        ),
        "upernet_resnet20_96": on(
            replace(resnet.PRESETS["resnet20_32"], image_size=SMALL), "upernet", network="resnet", num_classes=5, head_width=64
        ),
    }
)  # fmt: skip
