"""From a checkpoint as its library writes it, with its config.json and without, to a model of ours that computes the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.catalogue import build_model
from vitrail.models.convert.beit import to_masked_beit
from vitrail.models.convert.mae import WRITTEN_WRONG, to_vitmae
from vitrail.models.convert.origins import ORIGINS, Origin, convert, recognize
from vitrail.models.convert.swin import to_swin
from vitrail.models.convert.vit import to_vit
from vitrail.models.swin import SwinConfig, build_swin, second
from vitrail.models.vit import ViTConfig, build_vit, resolve_config

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 128, "patch_size": 4, "num_labels": 5}
MLP = {"intermediate_size": 29}
SWIN = {"embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "patch_size": 2, "num_labels": 5, "mlp_ratio": 2.0}
DECODER = {
    "decoder_hidden_size": 32, "decoder_num_attention_heads": 16, "decoder_num_hidden_layers": 2, "decoder_intermediate_size": 128,
    "norm_pix_loss": True,
}  # fmt: skip
CASES = {  # the model, its config's options, its image's side, and what is given beside the weights where there is no record
    "vit": ("ViTForImageClassification", SIZES | MLP, 12, {}),
    "deit": ("DeiTForImageClassificationWithTeacher", SIZES | MLP, 12, {}),
    "beit": ("BeitForImageClassification", SIZES | MLP | {"use_relative_position_bias": True}, 12, {}),
    "dinov2": ("Dinov2Model", SIZES | {"mlp_ratio": 3}, 12, {}),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", SIZES | {"mlp_ratio": 3, "num_register_tokens": 3}, 12, {}),
    "mae": ("ViTMAEForPreTraining", SIZES | MLP | DECODER, 12, {}),
    "masked beit": ("BeitForMaskedImageModeling", SIZES | MLP | {"use_shared_relative_position_bias": True, "use_mask_token": True, "vocab_size": 17}, 12, {}),
    "swin": ("SwinForImageClassification", SWIN | {"window_size": 4}, 16, {"image_size": (16, 16)}),
    "swinv2": ("Swinv2ForImageClassification", SWIN | {"window_size": 4}, 16, {"image_size": (16, 16)}),
}  # fmt: skip


def shake(model: nn.Module) -> nn.Module:
    """Every weight is drawn: zero biases and equal norms would hide a mistake."""
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture(scope="module", params=CASES)
def written(request, tmp_path_factory):
    """A model of transformers, what its files say, and the case."""
    transformers, safetensors = pytest.importorskip("transformers"), pytest.importorskip("safetensors.torch")
    kind, options, side, hints = CASES[request.param]
    torch.manual_seed(0)
    model = getattr(transformers, kind)
    model = shake(model(model.config_class(**options, image_size=side)))
    if request.param == "mae":
        model.decoder.decoder_pos_embed.data[:, 0] = 0
    folder = tmp_path_factory.mktemp("written")
    model.save_pretrained(folder)
    return request.param, model, safetensors.load_file(folder / "model.safetensors"), side, hints


def answers(name, theirs, ours, side):
    """What both say of the same images."""
    images = torch.randn(2, 3, side, side)
    with torch.inference_mode():
        if name == "mae":
            noise = torch.rand(2, 9)
            kept = noise.argsort(dim=1)[:, :2].sort(dim=1).values
            drawn = ours(images, kept).unflatten(2, (3, 16)).transpose(2, 3).flatten(2)  # their order: channels last
            return theirs(images, noise=noise).logits, drawn
        if name == "masked beit":
            hidden = torch.rand(2, 9) < 0.5
            return theirs(images, bool_masked_pos=hidden).logits[hidden], ours(images, hidden)
        if ours.num_classes:
            return theirs(images).logits, ours(images)
        return theirs(images).last_hidden_state, ours.forward_features(images).x


@pytest.mark.parametrize("described_by", ["record", "shapes"])
def test_the_same_answers(written, described_by):
    name, theirs, tensors, side, hints = written
    if described_by == "record":
        record = theirs.config.to_dict()
        converted = convert(tensors, record)
    elif name == "swinv2":
        with pytest.raises(VitrailError, match=r"do not tell its window: a config\.json or timm's name of the model must"):
            convert(tensors, **hints)
        return
    else:
        converted = convert(tensors, **hints)
    assert converted.origin == Origin("transformers", name)
    ours = build_model(converted.architecture, converted.config).eval()
    ours.load_state_dict(converted.weights)
    expected, found = answers(name, theirs, ours, side)
    assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1  # not a comparison of zeros
    assert converted.preprocessing.size == (side, side)


def test_and_back(written):
    name, _, tensors, _, hints = written
    if name == "swinv2":
        return  # its way back is in test_swin.py: there are no files without a record
    converted = convert(tensors, **hints)
    config, weights = converted.config, dict(converted.weights)
    if name.startswith("dinov2"):  # of a token that only its pretraining reads
        assert "left out, as the model has no place for them, 1 weights: embeddings.mask_token" in converted.notes
        weights["mask_token"] = tensors["embeddings.mask_token"][0]
    back = {"mae": to_vitmae, "masked beit": to_masked_beit, "swin": to_swin}.get(name, to_vit)
    again = back(weights, config, style="transformers_files")
    tensors = {key.replace(*WRITTEN_WRONG): tensor for key, tensor in tensors.items()}
    assert again.keys() == tensors.keys()
    for key in tensors:
        assert torch.equal(again[key], tensors[key]), key


PLAIN = {"width": 128, "depth": 2, "heads": 2, "mlp_ratio": 3.0, "patch": 4, "image_size": (12, 12), "num_classes": 5}
TIMM = {
    "vit": {},
    "vit without classes": {"num_classes": 0},
    "vit by its mean": {"pool": "mean", "last_norm": "pooled"},
    "vit without class token": {"prefix": 0, "pool": "mean"},
    "vit whose class token owns no row": {"prefix_rows": False},
    "deit": {"prefix": 2, "distilled": True},
    "scaled vit": {"layer_scale": 1e-5},
    "scaled vit with registers": {"layer_scale": 1e-5, "prefix": 4, "prefix_rows": False},
    "scaled vit with a gate": {"layer_scale": 1e-5, "activation": "swiglu"},
    "beit": {"position": "relative_table", "layer_scale": 1e-5, "pool": "mean", "last_norm": "pooled", "heads": 4},
    "beit, shared": {"position": "relative_table", "position_where": "layers", "layer_scale": 1e-5, "heads": 4},
    "hybrid": {"tokenizer": "resnet", "tokenizer_depths": (1, 2), "patch": 8, "image_size": (24, 24)},
    "hybrid of a root": {"tokenizer": "resnet", "tokenizer_depths": (), "patch": 8, "image_size": (24, 24)},
}  # fmt: skip


@pytest.mark.parametrize("name", TIMM)
def test_timm_names_alone_give_the_config_and_the_weights(name):
    """That these are timm's names and shapes, golden files say; here, that nothing else is needed."""
    torch.manual_seed(0)
    ours = shake(build_vit(ViTConfig(**(PLAIN | TIMM[name]))))
    if "beit" in name:  # its keys have no bias
        for key, parameter in ours.named_parameters():
            parameter.data.mul_(not key.endswith("key.bias"))
    theirs = to_vit(ours.state_dict(), ours.config, style="timm")
    converted = convert(theirs)
    assert converted.architecture == "vit"
    assert converted.config == replace(ours.config, position_antialias="beit" not in name)  # timm resizes positions so
    assert (
        str(converted.origin)
        == "timm " + name.split(" without")[0].split(" w")[0].split(",")[0].split(" of")[0].split(" by")[0]
    )
    assert converted.weights.keys() == ours.state_dict().keys()
    assert all(torch.equal(converted.weights[key], tensor) for key, tensor in ours.state_dict().items())
    assert any("2 heads: no preset" in note for note in converted.notes) == (
        "beit" not in name
    )  # a table has a column for each


SMALL_SWIN = SwinConfig(width=12, depths=(2, 1), heads=(2, 4), window=(4, 4), patch=2, image_size=(16, 16), num_classes=3)


@pytest.mark.parametrize("config", [SMALL_SWIN, second(SMALL_SWIN, 4, (16, 16))], ids=["swin", "swinv2"])
def test_swin_of_timm_and_of_its_authors(config):
    ours = shake(build_swin(config))
    theirs = to_swin(ours.state_dict(), config, style="timm")
    index = {"layers.0.blocks.0.attn.relative_position_index": torch.zeros(16, 16)}  # the authors' files have these
    masks = {"layers.0.blocks.1.attn_mask": torch.zeros(4, 16, 16)}
    older = {
        name.replace("layers.1.downsample", "layers.0.downsample").replace("head.fc", "head"): t for name, t in theirs.items()
    }
    for tensors in (theirs | index | masks, older | index | masks):
        converted = convert(tensors)
        assert converted.config == config
        assert all(torch.equal(converted.weights[key], tensor) for key, tensor in ours.state_dict().items())
    if config.attention == "softmax":
        assert "images of 16x16: then the last stage is one window" in convert(theirs).notes[0]


def test_the_golden_names_of_hybrids_and_swins():
    """The golden file is what timm's state_dict says of the same models."""
    golden_file = Path(__file__).parents[2] / "golden" / "timm_hybrid_and_swin_names.txt"
    sections = golden_file.read_text().split("# ")[1:]
    golden = {section.split("\n")[0]: set(section.strip().split("\n")[1:]) for section in sections}
    small = ViTConfig(
        width=12, depth=2, heads=3, patch=8, image_size=(16, 40), in_channels=1, num_classes=5, tokenizer="resnet", tokenizer_depths=(1, 2)
    )  # fmt: skip
    root = ViTConfig(
        width=12, depth=2, heads=3, patch=8, image_size=(16, 40), in_channels=1, num_classes=5, tokenizer="resnet", tokenizer_depths=()
    )  # fmt: skip
    theirs = {
        "hybrid": to_vit(build_vit(small).state_dict(), small, style="timm"),
        "hybrid_root": to_vit(build_vit(root).state_dict(), root, style="timm"),
        "swin": to_swin(build_swin(SMALL_SWIN).state_dict(), SMALL_SWIN, style="timm"),
    }
    newer = second(SMALL_SWIN, 4, (16, 16))
    theirs["swinv2"] = to_swin(build_swin(newer).state_dict(), newer, style="timm")
    for name, tensors in theirs.items():
        assert {f"{key} {'x'.join(map(str, tensor.shape))}" for key, tensor in tensors.items()} == golden[name], name


def test_what_names_and_records_make_of_a_model():
    for tensors, record, expected in (
        ({"embedding/kernel": torch.zeros(1)}, None, ("google", "vit")),
        ({"conv_root/kernel": torch.zeros(1)}, None, ("google", "hybrid")),
        ({"vit.embeddings.cls_token": torch.zeros(1)}, {"model_type": "vit_mae"}, ("transformers", "vit_mae")),
        ({"backbone.patch_embed.proj.weight": torch.zeros(1)}, None, ("meta", "dino")),
    ):
        found = recognize(tensors, record)
        assert found == expected
        assert found in ORIGINS
    with pytest.raises(VitrailError, match="no origin is known whose weights are named like features"):
        recognize({"features.0.weight": torch.zeros(1)}, None)
    with pytest.raises(VitrailError, match='unknown model_type "clip"'):
        recognize({"features.0.weight": torch.zeros(1)}, {"model_type": "clip"})
    with pytest.raises(VitrailError, match="there are no weights"):
        recognize({})


def test_what_has_no_place_or_lacks_is_named():
    config = resolve_config(ViTConfig(**PLAIN))
    theirs = to_vit(build_vit(config).state_dict(), config, style="timm")
    with pytest.raises(VitrailError, match="1 weights have no place in this model, such as norm_pre"):
        convert(theirs | {"norm_pre.weight": torch.zeros(128)})
    with pytest.raises(VitrailError, match=r"1 weights of this model are missing, such as blocks\.1\.mlp\.fc2\.bias"):
        convert({name: tensor for name, tensor in theirs.items() if name != "blocks.1.mlp.fc2.bias"})
    with pytest.raises(VitrailError, match="no positions are among the weights"):
        convert({name: tensor for name, tensor in theirs.items() if name != "pos_embed"})
    with pytest.raises(VitrailError, match="pos_embed has 10 rows, which"):
        convert({name: tensor for name, tensor in theirs.items() if name != "cls_token"})
    with pytest.raises(VitrailError, match=r"2 models in this file, under 'a\.', 'b\.'"):
        convert({f"{word}.{name}": tensor for word in "ab" for name, tensor in theirs.items()})
    inside = convert({f"encoder.{name}": tensor for name, tensor in theirs.items()} | {"decoder.net.weight": torch.zeros(1)})
    assert inside.config == replace(config, position_antialias=True)
    assert "left out, as the model has no place for them, 1 weights: decoder.net" in inside.notes[0]
    halves = convert({name: tensor.half() for name, tensor in theirs.items()})
    assert {tensor.dtype for tensor in halves.weights.values()} == {torch.float32}
