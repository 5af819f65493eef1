"""Google's .npz files of Vision Transformers (ViT, AugReg, SAM) and of hybrids: flax's names and layouts as timm's, and back.

d width, h heads, e width of a head

A dense layer's kernel is in x out there; a convolution's is height x width x in x out; attention's has its heads on an axis of their own,
d h e into them and h e d out of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.convert.hybrid import STEM
from vitrail.models.convert.renaming import PROJECTIONS, copies, join_projections, move, split_projections
from vitrail.models.convert.vit import to_vit
from vitrail.models.vit import ViTConfig

BEFORE = ("opt/target/", "params/")  # in some files
ATTENTION = "MultiHeadDotProductAttention_1/"
OUTSIDE = {
    "cls": "cls_token",
    "Transformer/posembed_input/pos_embedding": "pos_embed",
    "embedding/kernel": "patch_embed.proj.weight",
    "embedding/bias": "patch_embed.proj.bias",
    "Transformer/encoder_norm/scale": "norm.weight",
    "Transformer/encoder_norm/bias": "norm.bias",
    "pre_logits/kernel": "pre_logits.fc.weight",
    "pre_logits/bias": "pre_logits.fc.bias",
    "head/kernel": "head.weight",
    "head/bias": "head.bias",
}
INSIDE = {
    "LayerNorm_0/scale": "norm1.weight",
    "LayerNorm_0/bias": "norm1.bias",
    "LayerNorm_2/scale": "norm2.weight",
    "LayerNorm_2/bias": "norm2.bias",
    "MlpBlock_3/Dense_0/kernel": "mlp.fc1.weight",
    "MlpBlock_3/Dense_0/bias": "mlp.fc1.bias",
    "MlpBlock_3/Dense_1/kernel": "mlp.fc2.weight",
    "MlpBlock_3/Dense_1/bias": "mlp.fc2.bias",
    f"{ATTENTION}out/kernel": "attn.proj.weight",
    f"{ATTENTION}out/bias": "attn.proj.bias",
}
UNITS = {
    **{f"conv{number}/kernel": f"conv{number}.weight" for number in (1, 2, 3)},
    **{
        f"gn{number}/{their}": f"norm{number}.{kind}"
        for number in (1, 2, 3)
        for their, kind in (("scale", "weight"), ("bias", "bias"))
    },
    "conv_proj/kernel": "downsample.conv.weight",
    "gn_proj/scale": "downsample.norm.weight",
    "gn_proj/bias": "downsample.norm.bias",
}
ROOT = {"conv_root/kernel": "conv.weight", "gn_root/scale": "norm.weight", "gn_root/bias": "norm.bias"}


class Place(NamedTuple):
    """What stands before the names of a part: theirs and timm's."""

    pattern: re.Pattern[str]
    after: Callable[[re.Match[str]], str]


BLOCKS = Place(re.compile(r"Transformer/encoderblock_(\d+)/"), lambda match: f"blocks.{match[1]}.")
STAGES = Place(
    re.compile(r"block(\d+)/unit(\d+)/"), lambda match: f"{STEM}stages.{int(match[1]) - 1}.blocks.{int(match[2]) - 1}."
)


def as_timm(theirs: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], int]:
    """The same weights under timm's names, and the number of heads. What has no name there is refused."""
    bare = {strip(name): tensor for name, tensor in theirs.items()}
    root = f"{STEM}stem." if any(STAGES.pattern.match(name) for name in bare) else STEM
    found: dict[str, Tensor] = {}
    heads, unknown = 0, []
    for name, tensor in bare.items():
        if (match := BLOCKS.pattern.match(name)) and name[match.end() :] in INSIDE:
            found[BLOCKS.after(match) + INSIDE[name[match.end() :]]] = from_flax(name, tensor)
        elif match and (part := re.fullmatch(rf"{ATTENTION}(query|key|value)/(kernel|bias)", name[match.end() :])):
            heads = tensor.shape[-2] if tensor.ndim > 1 else heads
            kind = "weight" if part[2] == "kernel" else "bias"
            found[f"{BLOCKS.after(match)}{part[1]}.{kind}"] = tensor.flatten(-2).T if part[2] == "kernel" else tensor.flatten()
        elif (match := STAGES.pattern.match(name)) and name[match.end() :] in UNITS:
            found[STAGES.after(match) + UNITS[name[match.end() :]]] = from_flax(name, tensor)
        elif name in OUTSIDE or name in ROOT:
            found[OUTSIDE[name] if name in OUTSIDE else root + ROOT[name]] = from_flax(name, tensor)
        else:
            unknown.append(name)
    if unknown:
        raise VitrailError(f"{len(unknown)} weights have no place in a model of Google's, such as {unknown[0]}")
    for before in dict.fromkeys(name.removesuffix("query.weight") for name in found if name.endswith("query.weight")):
        lacking = [part for part in PROJECTIONS for kind in ("weight", "bias") if f"{before}{part}.{kind}" not in found]
        if lacking:
            raise VitrailError(f"a weight of this model is missing: {lacking[0]} of {before.removesuffix('.')}")
        joined = join_projections(found, before)
        found |= {f"{before}attn.{name}": tensor for name, tensor in joined.items()}
    return found, heads


def to_google(ours: Mapping[str, Tensor], config: ViTConfig) -> dict[str, Tensor]:
    """Google's weights, for a plain ViT or a hybrid. Refused where theirs do not compute what ours does."""
    if config.prefix > 1 or config.layer_scale is not None or config.last_norm != "tokens" or config.activation != "gelu":
        raise VitrailError(
            "Google's files are of plain ViTs: at most a class token, the last norm of all tokens, no layer scale, gelu"
        )
    bare = replace(config, num_classes=0, head_hidden=None)  # timm has no hidden layer in its head
    names = {new: old for old, new in OUTSIDE.items()}
    inside, units = ({new: old for old, new in table.items()} for table in (INSIDE, UNITS))
    root = f"{STEM}stem." if config.tokenizer_depths else STEM
    roots = {root + new: old for old, new in ROOT.items()}
    body = dict(ours)
    head = move(body, [("head.before.0", "pre_logits.fc"), ("head.output", "head")])
    theirs, left = {}, to_vit(body, bare, style="timm") | head
    for number in range(config.depth):
        there = f"Transformer/encoderblock_{number}/"
        for name, tensor in split_projections(left, f"blocks.{number}.attn.").items():
            part, kind = name.split(".")
            cut = tensor.T.unflatten(1, (config.heads, -1)) if kind == "weight" else tensor.unflatten(0, (config.heads, -1))
            theirs[f"{there}{ATTENTION}{part}/{'kernel' if kind == 'weight' else 'bias'}"] = cut
    for name, tensor in left.items():
        if block := re.match(r"blocks\.(\d+)\.", name):
            new = f"Transformer/encoderblock_{block[1]}/{inside[name[block.end() :]]}"
        elif unit := re.match(rf"{re.escape(STEM)}stages\.(\d+)\.blocks\.(\d+)\.", name):
            new = f"block{int(unit[1]) + 1}/unit{int(unit[2]) + 1}/{units[name[unit.end() :]]}"
        else:
            new = roots[name] if name in roots else names[name]
        theirs[new] = to_flax(new, tensor, config.heads)
    return copies(theirs)


def from_flax(name: str, tensor: Tensor) -> Tensor:
    """From flax's layout to torch's."""
    if not name.endswith("/kernel"):
        return tensor.flatten() if "gn" in name else tensor  # a group norm's are 1 1 1 d in some files
    if tensor.ndim == 4:
        return tensor.permute(3, 2, 0, 1)
    return tensor.flatten(0, -2).T  # of a dense layer, or of heads that are joined: h e d


def to_flax(name: str, tensor: Tensor, heads: int) -> Tensor:
    """The inverse of `from_flax`."""
    if not name.endswith("/kernel"):
        return tensor
    if tensor.ndim == 4:
        return tensor.permute(2, 3, 1, 0)
    return tensor.T.unflatten(0, (heads, -1)) if name.endswith(f"{ATTENTION}out/kernel") else tensor.T


def strip(name: str) -> str:
    """Without what stands before all names in some files."""
    return name.removeprefix(next((before for before in BEFORE if name.startswith(before)), ""))
