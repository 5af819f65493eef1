"""The config of a plain Vision Transformer from the names and shapes of its weights alone, timm's or transformers'.

Two things are in no shape: the number of heads, unless a table has a column for each, and the eps of the norms, which is the
origin's. What had to be supposed is said in a line.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert.grids import grid_from_offsets, grid_from_rows
from vitrail.models.convert.hints import Hints
from vitrail.models.convert.hybrid import STEM, stem_depths
from vitrail.models.convert.renaming import Style
from vitrail.models.convert.vit_configs import head_options, ratio_of
from vitrail.models.convert.vit_names import NESTED_SCALES, POSITION, SCALES, TABLE, library
from vitrail.models.vit import ViTConfig, resolve_config
from vitrail.models.vit_presets import PRESETS
from vitrail.nn.functional.offsets import PREFIX_ROWS
from vitrail.nn.tokenizers.resnet_stem import stem_stride

BLOCK = re.compile(r"(?:blocks|layers|encoder\.layer)\.(\d+)\.")
PATCHES = {"timm": "patch_embed.proj.weight", "transformers": "embeddings.patch_embeddings.projection.weight"}
EXPAND = ("mlp.fc1.weight", "intermediate.dense.weight", "mlp.weights_in.weight", "mlp.gate_proj.weight")
CONTRACT = ("mlp.fc2.weight", "output.dense.weight", "mlp.weights_out.weight", "mlp.down_proj.weight")
TOKENS = {
    "timm": ("cls_token", "dist_token", "reg_token"),
    "transformers": ("embeddings.cls_token", "embeddings.distillation_token", "embeddings.register_tokens"),
}
WIDTH_OF_A_HEAD = 64  # in every published plain ViT but the largest


class Shapes(NamedTuple):
    """What the weights of the blocks and the patches say."""

    width: int
    depth: int
    hidden: int
    gated: bool
    scaled: bool
    patch: int
    channels: int
    stem: tuple[int, ...] | None  # blocks of each stage of a ResNet before the patches

    def like(self, preset: ViTConfig) -> bool:
        """Whether the blocks of a preset have these shapes."""
        hidden, gated = int(preset.width * preset.mlp_ratio), preset.activation == "swiglu"
        return (preset.width, preset.depth, hidden, gated) == (self.width, self.depth, self.hidden, self.gated)


def config_from_shapes(theirs: Mapping[str, Tensor], style: Style, *, eps: float, hints: Hints) -> tuple[ViTConfig, list[str]]:
    """Our config, and what was supposed. `theirs` are the weights of a model without its name before them."""
    shapes, whose = shapes_of_blocks(theirs, style), library(style)
    width, patch, notes = shapes.width, shapes.patch, list[str]()
    preset = PRESETS.get(hints.name or "")
    preset = preset if preset is not None and shapes.like(preset) else None
    first, second, registers = (token_count(theirs, name, width) for name in TOKENS[whose])
    prefix = first + second + registers
    options: dict[str, Any] = {"prefix": prefix, "distilled": bool(second) and whose == "timm"}
    hint = None if hints.image_size is None else (hints.image_size[0] // patch, hints.image_size[1] // patch)
    tables = [name for name in theirs if name.endswith(TABLE)]
    if tables and POSITION[whose] in theirs:
        raise VitrailError(f"positions are absolute or relative here, got both {POSITION[whose]} and {tables[0]}")
    if tables:
        table = theirs[tables[0]]
        grid, guessed = grid_from_offsets(len(table) - PREFIX_ROWS, hint, what=tables[0])
        options |= {"position": "relative_table", "position_where": "auto" if BLOCK.search(tables[0]) else "layers"}
        heads, why = table.shape[1], ""
    elif (rows := theirs.get(POSITION[whose])) is None:
        raise VitrailError(f"no positions are among the weights: neither {POSITION[whose]} nor a relative table")
    else:
        grid, owned, guessed = grid_from_rows(rows.shape[-2], (prefix, 1, 0) if prefix else (0,), hint, what=POSITION[whose])
        options["prefix_rows"] = bool(owned) or not prefix
        heads, why = supposed_heads(shapes, preset, hints)
    if guessed:
        notes.append(f"a grid of {grid[0]}x{grid[1]} cells: nearest to the image's size that was given, {hints.image_size}")
    if why:
        notes.append(f"{heads} heads: {why}")
    options |= pooling_options(theirs, style, prefix, hints) | head_of(theirs, style)
    if registers and shapes.scaled:
        options["position_antialias"] = not tables
    if second and whose == "transformers":
        options["distilled"] = "distillation_classifier.weight" in theirs
    if shapes.stem is not None:
        options |= {"tokenizer": "resnet", "tokenizer_depths": shapes.stem}
    scale = (1e-5 if preset is None else preset.layer_scale or 1e-5) if shapes.scaled else None  # where learning began
    activation = "swiglu" if shapes.gated else hints.activation
    config = ViTConfig(
        width=width,
        depth=shapes.depth,
        heads=heads,
        mlp_ratio=ratio_of(shapes.hidden, width),
        patch=patch,
        image_size=(grid[0] * patch, grid[1] * patch),
        in_channels=shapes.channels,
        eps=eps,
        layer_scale=scale,
        activation=activation,
        **options,
    )
    return resolve_config(config), notes


def shapes_of_blocks(theirs: Mapping[str, Tensor], style: Style) -> Shapes:
    whose, found = library(style), [match for name in theirs if (match := BLOCK.match(name))]
    filters = expect(theirs, (PATCHES[whose],), dims=4)
    if not found:
        raise VitrailError(f"no blocks of a transformer are among the weights, which begin with {next(iter(theirs))}")
    before = found[0].group().removesuffix(found[0].group(1) + ".") + "0."
    expand = expect(theirs, [before + name for name in EXPAND], dims=2)
    contract = expect(theirs, [before + name for name in CONTRACT], dims=2)
    width, channels, side, other = filters.shape
    if side != other:
        raise VitrailError(f"patches must be squares, got {side}x{other} in {PATCHES[whose]}")
    stem = stem_depths(theirs) if any(name.startswith(STEM) for name in theirs) else None
    if stem is not None:
        channels, side = (
            expect(theirs, (f"{STEM}stem.conv.weight", f"{STEM}conv.weight"), dims=4).shape[1],
            side * stem_stride(stem),
        )
    hidden = contract.shape[1]
    return Shapes(
        width=width,
        depth=1 + max(int(match.group(1)) for match in found),
        hidden=hidden,
        gated=f"{before}mlp.gate_proj.weight" in theirs or len(expand) == 2 * hidden,
        scaled=any(before + name in theirs for names in (SCALES, NESTED_SCALES) for name in names[whose]),
        patch=side,
        channels=channels,
        stem=stem,
    )


def supposed_heads(shapes: Shapes, preset: ViTConfig | None, hints: Hints) -> tuple[int, str]:
    """How many, and why that many; nothing to say where they were given."""
    if hints.heads is not None:
        return hints.heads, ""
    if preset is not None:
        return preset.heads, f"it is called {hints.name}"
    alike = {name: other for name, other in PRESETS.items() if shapes.like(other)}
    if len({other.heads for other in alike.values()}) == 1:
        name = next((name for name, other in alike.items() if other.patch == shapes.patch), next(iter(alike)))
        return alike[name].heads, f"the preset {name} has these shapes"
    if shapes.width % WIDTH_OF_A_HEAD:
        raise VitrailError(
            f"how many heads the model has is not known, and its width {shapes.width} is no multiple of {WIDTH_OF_A_HEAD}: tell heads"
        )
    return (
        shapes.width // WIDTH_OF_A_HEAD,
        f"no preset has these shapes, and {WIDTH_OF_A_HEAD} of the width {shapes.width} are usual for each",
    )


def pooling_options(theirs: Mapping[str, Tensor], style: Style, prefix: int, hints: Hints) -> dict[str, Any]:
    """A norm behind the pooling stands for the mean, as in BEiT and in MAE fine-tuned; no class token does too."""
    if ("fc_norm.weight" if style == "timm" else "pooler.layernorm.weight") in theirs:
        return {"pool": "mean", "last_norm": "pooled"}
    return {"pool": "mean" if not prefix else hints.pool or "class"}


def head_of(theirs: Mapping[str, Tensor], style: Style) -> dict[str, Any]:
    """As many classes as the last layer has rows; without one, features."""
    if style != "timm":
        return head_options("", {}, theirs)
    last, hidden = theirs.get("head.weight"), theirs.get("pre_logits.fc.weight")
    return {"num_classes": 0 if last is None else len(last), "head_hidden": None if hidden is None else len(hidden)}


def token_count(theirs: Mapping[str, Tensor], name: str, width: int) -> int:
    return theirs[name].numel() // width if name in theirs else 0


def expect(theirs: Mapping[str, Tensor], names: Any, *, dims: int) -> Tensor:
    """The weight of one of these names, or a line that says which one lacks."""
    found = next((theirs[name] for name in names if name in theirs), None)
    if found is None:
        raise VitrailError(f"a weight of this model is missing: {names[0]}")
    if found.ndim != dims or not found.numel():
        raise VitrailError(f"{names[0]} must have {dims} axes, got the shape {tuple(found.shape)}")
    return found
