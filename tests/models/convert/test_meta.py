"""Meta's own files, named here by hand as their repositories name them."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.beit import BEiTConfig, build_beit
from vitrail.models.convert.origins import convert
from vitrail.models.masked_autoencoder import MAEConfig, build_mae
from vitrail.models.vit import ViTConfig, build_vit, resolve_config
from vitrail.records import to_record

WIDTH, DEPTH = 128, 2
PLAIN = {"width": WIDTH, "depth": DEPTH, "heads": 2, "mlp_ratio": 3.0, "patch": 4, "image_size": (12, 12), "num_classes": 0}
LAYERS = {
    "norm1": "attention_norm",
    "attn.proj": "attention.output",
    "norm2": "mlp_norm",
    "mlp.fc1": "mlp.expand",
    "mlp.fc2": "mlp.contract",
}
GATED = {
    "norm1": "attention_norm",
    "attn.proj": "attention.output",
    "norm2": "mlp_norm",
    "mlp.w12": "mlp.expand",
    "mlp.w3": "mlp.contract",
}


def drawn(model):
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.data.normal_(std=0.2)
    return model.eval()


def block_of(ours, before, layers=LAYERS):
    """One block's weights: query, key and value are one matrix there."""
    theirs = {f"{new}.{kind}": ours[f"{before}{old}.{kind}"] for new, old in layers.items() for kind in ("weight", "bias")}
    for kind in ("weight", "bias"):
        theirs[f"attn.qkv.{kind}"] = torch.cat([ours[f"{before}attention.{part}.{kind}"] for part in ("query", "key", "value")])
    return theirs


def around(ours, patch=4):
    """What stands around the blocks of a plain ViT."""
    return {
        "patch_embed.proj.weight": ours["tokenizer.project.weight"].view(-1, 3, patch, patch),
        "patch_embed.proj.bias": ours["tokenizer.project.bias"],
        "norm.weight": ours["encoder.norm.weight"],
        "norm.bias": ours["encoder.norm.bias"],
    }


def blocks_of(ours, before="encoder.blocks.", layers=LAYERS, there="blocks."):
    return {
        f"{there}{n}.{name}": tensor for n in range(DEPTH) for name, tensor in block_of(ours, f"{before}{n}.", layers).items()
    }


def plain(ours):
    rows = torch.cat([ours["position.prefix_table"][:1], ours["position.table"]])
    return around(ours) | blocks_of(ours) | {"cls_token": ours["prefix.tokens"][None, :1], "pos_embed": rows[None]}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


@pytest.mark.parametrize("before", ["backbone.", "module.backbone.", "teacher.backbone."])
def test_dino_is_its_backbone(before):
    ours = drawn(build_vit(ViTConfig(**PLAIN)))
    theirs = {before + name: tensor for name, tensor in plain(ours.state_dict()).items()}
    theirs |= {before.replace("backbone", "head") + name: torch.zeros(3) for name in ("mlp.0.weight", "last_layer.weight_g")}
    if before.startswith("teacher"):
        theirs |= {name.replace("teacher", "student"): torch.zeros_like(tensor) for name, tensor in theirs.items()}
    converted = convert(theirs)
    assert str(converted.origin) == "meta dino"
    assert (converted.architecture, converted.config) == ("vit", ours.config)
    assert_same(converted.weights, ours.state_dict())
    assert "left out, as the model has no place for them" in converted.notes[0]
    assert "head" in converted.notes[0]
    assert converted.preprocessing.mean == (0.485, 0.456, 0.406)


def test_a_head_of_dino_that_lost_its_backbones_name():
    ours = drawn(build_vit(ViTConfig(**PLAIN))).state_dict()
    converted = convert(plain(ours) | {"head.mlp.0.weight": torch.zeros(3), "head.last_layer.weight_v": torch.zeros(3)})
    assert str(converted.origin) == "meta dino"
    assert converted.config.num_classes == 0
    assert "2 weights: head.mlp, head.last_layer" in converted.notes[0]


@pytest.mark.parametrize("registers", [0, 3])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("chunks", [False, True])
def test_dinov2(registers, gated, chunks):
    """Registers own no rows of the table; the blocks may be in groups, of which each holds the numbers behind those before."""
    activation = "swiglu" if gated else "gelu"
    config = ViTConfig(
        **PLAIN, layer_scale=1e-5, prefix=1 + registers, position_antialias=bool(registers), activation=activation
    )
    ours = drawn(build_vit(config))
    if registers:
        ours.position.prefix_table.data[1:] = 0
    state = ours.state_dict()
    theirs = plain(state) | {"mask_token": torch.zeros(1, WIDTH)}
    theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("blocks.")}
    blocks = blocks_of(state, layers=GATED if gated else LAYERS)
    for number in range(DEPTH):
        for scale, branch in ((1, "attention"), (2, "mlp")):
            blocks[f"blocks.{number}.ls{scale}.gamma"] = state[f"encoder.blocks.{number}.{branch}_branch.0.gamma"]
    if chunks:
        blocks = {name.replace("blocks.0.", "blocks.0.0.").replace("blocks.1.", "blocks.1.1."): t for name, t in blocks.items()}
    theirs |= blocks
    if registers:
        theirs["register_tokens"] = state["prefix.tokens"][None, 1:]
    converted = convert(theirs)
    assert str(converted.origin) == "meta dinov2"
    assert converted.config == ours.config
    assert_same(converted.weights, state)
    assert converted.notes[0].endswith("1 weights: mask_token")


def test_deit_three_scales_outside_of_layers():
    """As its authors' files: gamma_1 and no row for the class token."""
    ours = drawn(build_vit(ViTConfig(**(PLAIN | {"num_classes": 5}), layer_scale=1e-5, prefix_rows=False)))
    state = ours.state_dict()
    theirs = (
        around(state)
        | blocks_of(state)
        | {"cls_token": state["prefix.tokens"][None], "pos_embed": state["position.table"][None]}
    )
    theirs |= {"head.weight": state["head.output.weight"], "head.bias": state["head.output.bias"]}
    for number in range(DEPTH):
        for scale, branch in ((1, "attention"), (2, "mlp")):
            theirs[f"blocks.{number}.gamma_{scale}"] = state[f"encoder.blocks.{number}.{branch}_branch.0.gamma"]
    converted = convert(theirs)
    assert converted.config == replace(ours.config, position_antialias=True)
    assert_same(converted.weights, state)


def test_mae_with_its_decoder():
    backbone = to_record(resolve_config(ViTConfig(**PLAIN)))
    config = MAEConfig(
        backbone=backbone, decoder_width=32, decoder_depth=DEPTH, decoder_heads=16, decoder_position="learned_1d"
    )
    ours = drawn(build_mae(config))
    state = ours.state_dict()
    inner = {name.removeprefix("backbone."): tensor for name, tensor in state.items() if name.startswith("backbone.")}
    theirs = plain(inner) | blocks_of(state, "decoder.blocks.", there="decoder_blocks.")
    for kind in ("weight", "bias"):
        theirs |= {f"decoder_embed.{kind}": state[f"enter.{kind}"], f"decoder_norm.{kind}": state[f"decoder.norm.{kind}"]}
        pixels = state[f"head.{kind}"]  # channels first here, pixel by pixel there
        theirs[f"decoder_pred.{kind}"] = pixels.unflatten(0, (3, 16)).transpose(0, 1).flatten(0, 1)
    theirs["mask_token"] = state["mask_token"][None, None]
    theirs["decoder_pos_embed"] = torch.cat([torch.zeros(1, 32), state["decoder_position.table"]])[None]
    converted = convert(theirs)
    assert str(converted.origin) == "meta mae"
    assert converted.architecture == "mae"
    assert converted.config == config
    assert_same(converted.weights, state)
    assert any("16 heads in the decoder" in note for note in converted.notes)
    encoder = convert({name: tensor for name, tensor in theirs.items() if not name.startswith(("decoder", "mask"))})
    assert encoder.architecture == "vit"
    assert_same(encoder.weights, inner)
    theirs.pop("decoder_pred.bias")
    with pytest.raises(VitrailError, match=r"missing, such as decoder\.decoder_pred\.bias"):
        convert(theirs)


def test_beit_that_names_visual_words():
    backbone = ViTConfig(**(PLAIN | {"heads": 4}), position="relative_table", position_where="layers", layer_scale=1e-5)
    ours = drawn(build_beit(BEiTConfig(backbone=to_record(backbone), codes=17)))
    for name, parameter in ours.named_parameters():
        parameter.data.mul_(not name.endswith("key.bias"))  # it has none
    state = ours.state_dict()
    inner = {name.removeprefix("backbone."): tensor for name, tensor in state.items() if name.startswith("backbone.")}
    theirs = (
        around(inner)
        | blocks_of(inner)
        | {"cls_token": inner["prefix.tokens"][None], "mask_token": state["mask_token"][None, None]}
    )
    for number in range(DEPTH):
        before = f"blocks.{number}."
        query, _, value = theirs.pop(f"{before}attn.qkv.bias").chunk(3)
        theirs |= {f"{before}attn.q_bias": query, f"{before}attn.v_bias": value}
        for scale, branch in ((1, "attention"), (2, "mlp")):
            theirs[f"{before}gamma_{scale}"] = inner[f"encoder.blocks.{number}.{branch}_branch.0.gamma"]
    table = torch.cat([inner["position.table"], inner["position.prefix_table"]])
    theirs |= {"rel_pos_bias.relative_position_bias_table": table, "rel_pos_bias.relative_position_index": torch.zeros(10, 10)}
    theirs |= {"lm_head.weight": state["head.weight"], "lm_head.bias": state["head.bias"]}
    converted = convert(theirs)
    assert str(converted.origin) == "meta masked beit"
    assert converted.config.codes == 17
    assert build_beit(converted.config).backbone.config == ours.backbone.config
    assert_same(converted.weights, state)
    images, hidden = torch.randn(2, 3, 12, 12), torch.rand(2, 9) < 0.5
    again = build_beit(converted.config).eval()
    again.load_state_dict(converted.weights)
    assert_close(again(images, hidden), ours(images, hidden))
