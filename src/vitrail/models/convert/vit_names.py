"""How transformers and timm name the weights of plain Vision Transformers: ViT, DeiT, MAE's encoder, BEiT, DINOv2."""

from collections.abc import Iterator, Mapping
from typing import Literal

from vitrail.models.convert.hybrid import stem_pairs
from vitrail.models.convert.renaming import PROJECTIONS, Style
from vitrail.models.vit import ViTConfig

Kind = Literal[
    "vit", "deit", "beit", "dinov2", "dinov2_with_registers"
]  # transformers' model types; one of each name stands before the parts
MODELS: tuple[Kind, ...] = ("vit", "deit", "beit", "dinov2", "dinov2_with_registers")

ATTENTION: Mapping[Style, Mapping[str, str]] = {
    "transformers": {f"attention.{name[0]}_proj": f"attention.{name}" for name in (*PROJECTIONS, "output")},
    "transformers_files": {f"attention.attention.{name}": f"attention.{name}" for name in PROJECTIONS}
    | {"attention.output.dense": "attention.output"},
    "timm": {"attn.proj": "attention.output"},  # and attn.qkv
}
NORMS = {"layernorm_before": "attention_norm", "layernorm_after": "mlp_norm"}
NUMBERED_NORMS = {"norm1": "attention_norm", "norm2": "mlp_norm"}
MLP = {"mlp.fc1": "mlp.expand", "mlp.fc2": "mlp.contract"}
MLP_FILES = {"intermediate.dense": "mlp.expand", "output.dense": "mlp.contract"}
GATED_FILES = {"mlp.weights_in": "mlp.expand", "mlp.weights_out": "mlp.contract"}
GATED = {"mlp.down_proj": "mlp.contract"}  # and mlp.gate_proj, mlp.up_proj, which are halves of our mlp.expand
SCALES = {"transformers": ("lambda_1", "lambda_2"), "timm": ("gamma_1", "gamma_2")}  # BEiT's
NESTED_SCALES = {"transformers": ("layer_scale1.lambda1", "layer_scale2.lambda1"), "timm": ("ls1.gamma", "ls2.gamma")}
BRANCHES = ("attention_branch.0.gamma", "mlp_branch.0.gamma")

MASK_TOKEN = "embeddings.mask_token"
POSITION = {"transformers": "embeddings.position_embeddings", "timm": "pos_embed"}
TABLE = "relative_position_bias_table"


def library(style: Style) -> Literal["transformers", "timm"]:
    return "timm" if style == "timm" else "transformers"


def kind_of(config: ViTConfig, style: Style = "transformers") -> Kind:
    """Which of transformers' models computes what a config says; timm has one for all but BEiT, which may norm what it pooled too."""
    if config.position == "relative_table" or (config.last_norm == "pooled" and style != "timm"):
        return "beit"
    if config.distilled or (config.prefix == 2 and config.layer_scale is None):
        return "deit"
    if config.prefix > 1:
        return "dinov2_with_registers"
    return "vit" if config.layer_scale is None and config.activation != "swiglu" else "dinov2"


def outside(config: ViTConfig, style: Style) -> Iterator[tuple[str, str]]:
    """Names of layers around the blocks: theirs and ours."""
    pooled = config.last_norm == "pooled"
    if style == "timm":
        yield "patch_embed.proj", "tokenizer.project"
        if config.tokenizer == "resnet":
            yield from stem_pairs(config)
        if not pooled:
            yield "pre_logits.fc", "head.before.0"  # in files of its early versions
        yield ("fc_norm", "head.before.0") if pooled else ("norm", "encoder.norm")
        yield from (("head", "head.output"), ("head_dist", "distilled_head"))
        return
    yield "embeddings.patch_embeddings.projection", "tokenizer.project"
    if not pooled:
        yield "layernorm", "encoder.norm"
    yield "pooler.layernorm" if pooled else "pooler.dense", "head.before.0"
    yield "cls_classifier" if config.distilled else "classifier", "head.output"
    yield "distillation_classifier", "distilled_head"


def blocks(config: ViTConfig, style: Style, *, inner: str = "encoder.blocks.") -> Iterator[tuple[str, str]]:
    """What stands before the names inside each block: theirs and ours."""
    before = "blocks." if style == "timm" else "encoder.layer."
    if style == "transformers" and not kind_of(config).startswith("dinov2"):
        before = "layers."
    yield from ((f"{before}{number}.", f"{inner}{number}.") for number in range(config.depth))


def inside(config: ViTConfig, style: Style) -> Mapping[str, str]:
    """Names of layers in a block: theirs to ours."""
    kind, gated = kind_of(config, style), config.activation == "swiglu"
    nested = kind.startswith("dinov2") or (style == "timm" and kind != "beit")
    scales = (NESTED_SCALES if nested else SCALES)[library(style)]
    names = dict(ATTENTION[style]) | dict(zip(scales, BRANCHES, strict=True))
    if style == "timm":
        return names | NUMBERED_NORMS | MLP
    if not kind.startswith("dinov2"):
        return names | NORMS | (MLP if style == "transformers" else MLP_FILES)
    return names | NUMBERED_NORMS | (MLP if not gated else GATED if style == "transformers" else GATED_FILES)


def pairs(config: ViTConfig, style: Style) -> Iterator[tuple[str, str]]:
    """Names of layers, or of single weights, that are the same thing in both: theirs and ours."""
    yield from outside(config, style)
    names = inside(config, style)
    for before, ours in blocks(config, style):
        yield from ((before + their, ours + name) for their, name in names.items())


def prefix_names(config: ViTConfig, style: Style) -> dict[str, int]:
    """The weights that are our prefix tokens, in their order, and how many tokens each is."""
    if not config.prefix:
        return {}
    if style == "timm":
        names, others = {"cls_token": 1}, ("dist_token" if config.distilled else "reg_token")
    else:
        second = "distillation_token" if kind_of(config) == "deit" else "register_tokens"
        names, others = {"embeddings.cls_token": 1}, f"embeddings.{second}"
    return names if config.prefix == 1 else names | {others: config.prefix - 1}


def prefix_rows(config: ViTConfig, style: Style) -> int:
    """How many of the prefix tokens own a row of their position table."""
    if style == "timm":
        return config.prefix if config.prefix_rows else 0
    return 2 if kind_of(config) == "deit" else 1


def tables(config: ViTConfig, style: Style) -> Iterator[tuple[str, str]]:
    """The tables of relative positions, one for all layers or one for each: their names, and what stands before ours."""
    if config.position != "relative_table":
        return
    if config.position_where == "layers":
        whole = {"transformers": "shared_position_bias", "transformers_files": "encoder.relative_position_bias"}
        yield f"{whole.get(style, 'rel_pos_bias')}.{TABLE}", "position."
        return
    where = {"transformers": "relative_position_bias", "transformers_files": "attention.attention.relative_position_bias"}
    for number, (before, _) in enumerate(blocks(config, style)):
        yield f"{before}{where.get(style, 'attn')}.{TABLE}", f"position.layers.{number}."
