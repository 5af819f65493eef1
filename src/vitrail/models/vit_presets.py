"""Vision Transformers by name: the published sizes, and those for small images."""

from dataclasses import replace
from types import MappingProxyType

from vitrail.models.vit import ViTConfig

# Sizes of [Dosovitskiy+ 2021, table 1]; Ti and S of [Touvron+ 2021, DeiT, table 1].
SIZES = MappingProxyType(
    {
        "tiny": ViTConfig(width=192, depth=12, heads=3),
        "small": ViTConfig(width=384, depth=12, heads=6),
        "base": ViTConfig(width=768, depth=12, heads=12),
        "large": ViTConfig(width=1024, depth=24, heads=16),
        "huge": ViTConfig(width=1280, depth=32, heads=16),
    }
)
GIANT = ViTConfig(width=1536, depth=40, heads=24, mlp_ratio=8 / 3, activation="swiglu")  # [Oquab+ 2024, DINOv2]
SMALL_IMAGES = ViTConfig(
    width=64, depth=4, heads=2, mlp_ratio=2.0, patch="auto", image_size=(32, 32), num_classes=10,
    tokenizer="conv", prefix=0, pool="attention", position="learned_1d",
)  # fmt: skip
HYBRID = replace(SMALL_IMAGES, patch=8, tokenizer_layers=4, tokenizer_pooling="early")
PRESETS = MappingProxyType(
    {
        **{
            f"vit_{name}_patch{patch}_224": replace(size, patch=patch)
            for name, size in SIZES.items()
            for patch in (32, 16, 14, 8)
        },
        # [Touvron+ 2021, table 1]: the ViT's sizes, and with the distillation token.
        **{
            f"deit_{name}{word}_patch16_224": replace(SIZES[name], distilled=distilled, prefix=1 + distilled)
            for name in ("tiny", "small", "base")
            for word, distilled in (("", False), ("_distilled", True))
        },
        # [Oquab+ 2024]; with registers [Darcet+ 2024].
        **{
            f"vit_{name}_patch14_{word}dinov2": replace(
                size,
                patch=14,
                image_size=(518, 518),
                layer_scale=1e-5,
                prefix=1 + registers,
                prefix_rows=not registers,
                position_antialias=bool(registers),
            )
            for name, size in (*((name, SIZES[name]) for name in ("small", "base", "large")), ("giant", GIANT))
            for word, registers in (("", 0), ("reg4_", 4))
        },
        # [Bao+ 2022], as they are trained with labels: a relative table for each layer.
        **{
            f"beit_{name}_patch16_{side}": replace(
                SIZES[name],
                image_size=(side, side),
                position="relative_table",
                layer_scale=scale,
                pool="mean",
                last_norm="pooled",
            )
            for name, scale, sides in (("base", 0.1, (224, 384)), ("large", 1e-5, (224, 384, 512)))
            for side in sides
        },
        "vit_base_r50_s16_224": replace(SIZES["base"], tokenizer="resnet"),
        # For 8 to 64 pixels and datasets of thousands, on two cores; about 0.2, 0.8 and 3 million parameters.
        "vit_nano_conv": replace(SMALL_IMAGES, width=72, depth=3, heads=3),
        "vit_micro_conv": replace(SMALL_IMAGES, width=128, depth=5, heads=4),
        "vit_mini_conv": replace(SMALL_IMAGES, width=224, depth=7, heads=4),
        # Many tokens of small images, 196 of 28x28 and 256 of 32x32: what token merging is tried on.
        "vit_nano_conv2": replace(SMALL_IMAGES, depth=6, patch=2, tokenizer_pooling="first"),
        # Patches alone, for small images: what the comparisons of positions use.
        **{
            f"vit_nano_patch{patch}_32": replace(SMALL_IMAGES, depth=4, heads=4, patch=patch, tokenizer="patch", pool="mean")
            for patch in (1, 2, 4, 8)
        },
        # What learns without labels from small images.
        **{
            f"vit_{name}_patch{patch}_32": replace(
                SMALL_IMAGES, width=width, depth=depth, heads=heads, patch=patch, tokenizer="patch", pool="mean"
            )
            for name, width, depth, heads in (("micro", 128, 5, 4), ("mini", 192, 6, 3))
            for patch in (2, 4, 8)
        },
        # The same with a class token and, distilled, with one for a teacher's answers.
        **{
            f"deit_{name}{word}_patch4_32": replace(
                SMALL_IMAGES,
                width=width,
                depth=depth,
                heads=heads,
                patch=4,
                tokenizer="patch",
                pool="class",
                distilled=distilled,
                prefix=1 + distilled,
            )
            for name, width, depth, heads in (("nano", 64, 4, 4), ("micro", 128, 5, 4))
            for word, distilled in (("", False), ("_distilled", True))
        },
        # The same with what BEiT has instead of absolute positions: one relative table for all layers, and layer scale  [Bao+ 2022].
        **{
            f"beit_{name}_patch{patch}_32": replace(
                SMALL_IMAGES,
                width=width,
                depth=depth,
                heads=heads,
                patch=patch,
                tokenizer="patch",
                pool="mean",
                position="relative_table",
                position_where="layers",
                layer_scale=0.1,
            )
            for name, width, depth, heads in (("nano", 64, 4, 4), ("micro", 128, 5, 4), ("mini", 192, 6, 3))
            for patch in (2, 4, 8)
        },
        "beit_tiny_patch16_224": replace(SIZES["tiny"], position="relative_table", position_where="layers", layer_scale=0.1),
        # For 24 to 64 pixels: more convolutions, fewer tokens and blocks. What learns fastest from thousands of images.
        "vit_nano_hybrid": replace(HYBRID, width=96, depth=2, heads=3),
        "vit_micro_hybrid": replace(HYBRID, width=128, depth=2, heads=4),
        "vit_mini_hybrid": replace(HYBRID, width=160, depth=2, heads=5, tokenizer_layers=5),
        # The same for a few hundred larger images, 180x240 say, each of whose cells has an answer of its own.
        "vit_micro_hybrid_deep": replace(HYBRID, width=128, depth=4, heads=4, tokenizer_layers=5),
        # For photographs of 64 to 160 pixels: the backbone whose weights come with the package (benchmarks/backbone.md).
        "vitrail_small": replace(
            HYBRID,
            width=256,
            depth=3,
            heads=4,
            patch=16,
            image_size=(96, 96),
            num_classes=199,
            tokenizer="residual",
            tokenizer_widths=(32, 64, 128),
            tokenizer_depths=(1, 1, 2, 1),
            tokenizer_norm="group",
        ),
    }
)
