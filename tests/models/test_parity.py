"""Row B2: our ViT against `transformers`' ViT, with copied weights, random norms and biases;
the block of ResNet likewise. Nothing of ours builds the reference."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.nn.convolution.basic_block import BasicBlock

transformers = pytest.importorskip("transformers")

SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}


def reference(width, heads, depth=12, size=224, patch=16, classes=1000):
    config = transformers.ViTConfig(
        hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=4 * width, image_size=size,
        patch_size=patch, num_labels=classes, layer_norm_eps=1e-6, hidden_act="gelu", attn_implementation="eager",
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # norms and biases too: a swapped one must show
            scale = 0.05 if parameter.ndim > 1 else 0.3
            noise = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(1 + noise if "norm" in name and name.endswith("weight") else noise)
    return model


def copied(theirs: nn.Module) -> dict[str, torch.Tensor]:
    """Their names to ours."""
    state, ours = theirs.state_dict(), {}
    table = state["vit.embeddings.position_embeddings"][0]
    ours["prefix.tokens"] = state["vit.embeddings.cls_token"][0]
    ours["position.prefix_table"], ours["position.table"] = table[:1], table[1:]
    ours["tokenizer.project.weight"] = state["vit.embeddings.patch_embeddings.projection.weight"].flatten(1)
    ours["tokenizer.project.bias"] = state["vit.embeddings.patch_embeddings.projection.bias"]
    renamed = (
        (("attention.attention.query", "attention.q_proj"), "attention.query"),
        (("attention.attention.key", "attention.k_proj"), "attention.key"),
        (("attention.attention.value", "attention.v_proj"), "attention.value"),
        (("attention.output.dense", "attention.o_proj"), "attention.output"),
        (("intermediate.dense", "mlp.fc1"), "mlp.expand"),
        (("output.dense", "mlp.fc2"), "mlp.contract"),
        (("layernorm_before",), "attention_norm"),
        (("layernorm_after",), "mlp_norm"),
    )
    layers = "vit.encoder.layer" if any(name.startswith("vit.encoder.layer") for name in state) else "vit.layers"
    depth = theirs.config.num_hidden_layers
    for number in range(depth):
        for candidates, name in renamed:
            for kind in ("weight", "bias"):
                found = [f"{layers}.{number}.{c}.{kind}" for c in candidates if f"{layers}.{number}.{c}.{kind}" in state]
                ours[f"encoder.blocks.{number}.{name}.{kind}"] = state[found[0]]
    for kind in ("weight", "bias"):
        ours[f"encoder.norm.{kind}"] = state[f"vit.layernorm.{kind}"]
        ours[f"head.output.{kind}"] = state[f"classifier.{kind}"]
    return ours


@pytest.mark.parametrize("name", SIZES)
def test_logits_equal_transformers(name):
    width, heads = SIZES[name]
    theirs, ours = reference(width, heads), vt.create_model(f"vit_{name}_patch16_224").eval()
    ours.load_state_dict(copied(theirs))  # strict: every weight of ours has its twin
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected, found = theirs(images).logits, ours(images)
    assert expected.std() > 0.1
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


def small_twins(*, depth: int, size: int) -> tuple[nn.Module, nn.Module]:
    theirs = reference(48, 3, depth=depth, size=size, classes=7)
    ours = vt.create_model("vit_tiny_patch16_224", width=48, heads=3, depth=depth, image_size=size, num_classes=7).eval()
    ours.load_state_dict(copied(theirs))
    return theirs, ours


def test_another_image_size_equals_transformers_interpolation():
    theirs, ours = small_twins(depth=2, size=64)
    images = torch.randn(2, 3, 96, 128)
    with torch.no_grad():
        expected = theirs(images, interpolate_pos_encoding=True).logits
        assert_close(ours(images), expected, atol=1e-5, rtol=1e-4)


def test_gradients_equal_transformers():
    theirs, ours = small_twins(depth=3, size=32)
    images = torch.randn(2, 3, 32, 32)
    theirs(images).logits.square().sum().backward()
    ours(images).square().sum().backward()
    mine = dict(ours.named_parameters())
    expected = theirs.vit.embeddings.patch_embeddings.projection.weight.grad.flatten(1)
    assert_close(mine["tokenizer.project.weight"].grad, expected, atol=1e-4, rtol=1e-4)


# Row C1: the block of the residual net


def randomize(module: nn.Module) -> None:
    """Norms too: a swapped or forgotten one must show."""
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) + 0.3 if tensor.ndim == 1 else 0.2 * torch.randn(tensor.shape))


@pytest.mark.parametrize("channels, out, stride, size", [(6, 6, 1, (5, 7)), (6, 10, 2, (8, 6)), (6, 10, 2, (7, 5))])
@pytest.mark.parametrize("training", [False, True])
def test_the_residual_block(channels, out, stride, size, training):
    from transformers.models.resnet import modeling_resnet as modeling

    torch.manual_seed(0)
    theirs, ours = modeling.ResNetBasicLayer(channels, out, stride=stride), BasicBlock(channels, out, stride=stride)
    randomize(theirs)
    for number, name in enumerate(("first", "second")):
        getattr(ours, name).load_state_dict(theirs.layer[number].convolution.state_dict())
        getattr(ours, f"{name}_norm").load_state_dict(theirs.layer[number].normalization.state_dict())
    if stride > 1:  # their shortcut is a projection: as a matrix of ones on the diagonal it is option A
        theirs.shortcut.convolution.weight.data = torch.eye(out, channels)[:, :, None, None]
        theirs.shortcut.normalization = nn.Identity()
    x = torch.randn(3, channels, *size)
    theirs.train(training), ours.train(training)
    assert_close(ours(x), theirs(x.clone()), atol=1e-5, rtol=1e-5)
    assert_close(ours.second_norm.running_var, theirs.layer[1].normalization.running_var)
