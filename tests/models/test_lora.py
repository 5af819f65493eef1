"""LoRA on whole models: what is adapted, what stays, how much learns, and the plain model that comes out."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import create_model, model_config
from vitrail.models.lora import adapted_layers, measure_share
from vitrail.nn.adapters.lora import OWN
from vitrail.nn.initialization import shapes_only

EVERYTHING = {
    "vit_nano_patch4_32": (("attention", "output", "mlp"), {"image_size": 8, "position": "relative_projected"}),
    "deit_nano_distilled_patch4_32": (("attention", "mlp"), {"image_size": 8}),
    "vit_nano_conv": (("attention", "convolution"), {"image_size": 8}),
    "swin_micro_patch4_window4_64": (("attention", "output", "mlp"), {"image_size": 32}),
    "resnet8_32": (("convolution",), {"image_size": 8}),
    "vitrail_small": (("attention", "output", "mlp", "convolution"), {"image_size": 32, "drop_path": 0.0}),
}
SHARES = {"vit_tiny_patch16_224": 2.0, "vit_small_patch16_224": 1.0}  # percent, at most


def small(name):
    torch.manual_seed(0)
    targets, sizes = EVERYTHING[name]
    model = create_model(name, num_classes=5, **sizes)
    with torch.no_grad():
        for parameter in model.parameters():  # a scale that begins at 0 would keep gradients from what stands before it
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval(), targets, torch.randn(2, model.config.in_channels, *model.image_size)


def shaken(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("lora_b", "magnitude")):
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("name", EVERYTHING)
def test_first_the_base_model_then_more_then_merged(name, dora):
    model, targets, images = small(name)
    with torch.inference_mode():
        before, names = model(images), list(model.state_dict())
        adapted = vt.add_lora(model, 3, targets=targets, alpha=5, dora=dora)
        assert adapted is model
        assert torch.equal(model(images), before)
        moved = shaken(model)(images)
        assert not torch.allclose(moved, before, atol=1e-4)
        merged = vt.merge_lora(copy.deepcopy(model))
        assert list(merged.state_dict()) == names
        assert not adapted_layers(merged)
        assert all(p.requires_grad for p in merged.parameters())
        assert_close(merged(images), moved, atol=1e-5, rtol=1e-5)
        model, images = model.double(), images.double()
        assert_close(vt.merge_lora(copy.deepcopy(model))(images), model(images), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", EVERYTHING)
def test_all_but_adapters_and_head_stays_while_training(name):
    model, targets, images = small(name)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    vt.add_lora(model, 2, targets=targets).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1)
    for _ in range(2):
        model(images).sum(dim=-1).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for key, tensor in model.state_dict().items():
        whole, own = key.split(".")[0] in ("head", "distilled_head"), key.split(".")[-1] in OWN
        if not whole and not own:
            assert torch.equal(tensor, before[key]), key
    moved = [name for name, layer in adapted_layers(model).items() if layer.lora_b.abs().sum() > 0]
    assert moved == list(adapted_layers(model))  # every one of them learns
    model.eval()
    assert not any(layer.training for layer in model.modules())


def test_batch_norms_train_again_once_merged():
    model, targets, images = small("resnet8_32")
    vt.merge_lora(vt.add_lora(model, 2, targets=targets)).train()
    before = model.stem_norm.running_mean.clone()
    model(images)
    assert not torch.equal(model.stem_norm.running_mean, before)


@pytest.mark.parametrize("name", SHARES)
def test_how_much_learns(name):
    with shapes_only():
        model = create_model(name)
    share = measure_share(vt.add_lora(model, 8))
    config = model_config(name)[1]
    assert share.adapters == 2 * config.depth * 8 * 2 * config.width  # queries and values, A and B
    assert share.model == sum(p.numel() for n, p in model.named_parameters() if n.split(".")[-1] not in OWN) - share.heads
    assert 100 * share.adapters / share.model <= SHARES[name]
    assert f"{share.adapters:,} parameters in {2 * config.depth} layers" in str(share)


def test_by_default_queries_and_values():
    model, _, _ = small("vit_nano_patch4_32")
    found = {name.split("attention.")[1] for name in adapted_layers(vt.add_lora(model, 2))}
    assert found == {"query", "value"}


class Foreign(nn.Module):
    """A block with timm's names of modules."""

    def __init__(self):
        super().__init__()
        self.attn = nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(6, 18), nn.Linear(6, 6)
        self.mlp = nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(6, 10), nn.Linear(10, 6)
        self.head = nn.Linear(6, 3)


def test_any_model_with_known_names():
    model = vt.add_lora(Foreign(), 2, targets=("attention", "output", "mlp"))
    assert list(adapted_layers(model)) == ["attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"]
    assert model.attn.qkv.parts == (0, 2)
    assert model.head.weight.requires_grad


@pytest.mark.parametrize(
    "name, how, rule",
    [
        ("resnet8_32", {}, "LoRA on attention: a model of the kind resnet has no such layers; it has convolution"),
        ("gcnn_p4_small", {}, "a model of the kind gcnn has no such layers; it has none that LoRA adapts"),
        ("vit_nano_patch4_32", {"targets": ["mlp", "convolution"]}, "LoRA on convolution: a model of the kind vit has no such"),
        ("vit_nano_patch4_32", {"targets": ["mlps"]}, 'unknown target of LoRA "mlps".*did you mean'),
        ("vit_nano_patch4_32", {"targets": []}, "LoRA needs layers to adapt"),
        ("vit_nano_patch4_32", {"rank": 0}, "the rank of LoRA must be at least 1, got 0"),
        ("vit_nano_patch4_32", {"alpha": 0.0}, "alpha of LoRA must be more than 0, got 0"),
        (
            "vit_base_r50_s16_224",
            {"targets": ["convolution"]},
            '"tokenizer.root" is a StandardizedConv2d, which cannot be adapted',
        ),
    ],
)
def test_what_cannot_be_adapted_is_refused_by_name(name, how, rule):
    with shapes_only():
        model = create_model(name)
    with pytest.raises(VitrailError, match=f"(?i){rule}"):
        vt.add_lora(model, **{"rank": 2, **how})
    assert all(p.requires_grad for p in model.parameters())  # nothing was touched


def test_twice_is_refused():
    model, _, _ = small("vit_nano_patch4_32")
    with pytest.raises(VitrailError, match="the model has adapters already"):
        vt.add_lora(vt.add_lora(model, 2), 2)


def test_saved_it_is_a_plain_model_with_the_adapter_beside_it(tmp_path):
    model, targets, images = small("vit_nano_conv")
    base = copy.deepcopy(model)
    shaken(vt.add_lora(model, 2, targets=targets, dora=True))
    vt.save(model, tmp_path / "model")
    loaded, again = vt.load(tmp_path / "model"), vt.load_adapter(base, tmp_path / "model")
    assert not adapted_layers(loaded)
    with torch.inference_mode():
        assert_close(loaded(images), model(images), atol=1e-5, rtol=1e-5)
        assert torch.equal(again(images), model(images))


@pytest.mark.compiled
def test_compiled_it_computes_the_same():
    model, _, images = small("vit_nano_patch4_32")
    shaken(vt.add_lora(model, 2, dora=True))
    with torch.inference_mode():
        assert_close(torch.compile(model)(images), model(images), atol=1e-5, rtol=1e-5)
