"""Adapters in PEFT's files: read as PEFT computes them, written as PEFT reads them. tests/fixtures/make_peft.py made the files."""

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import ViTForImageClassification

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.convert.vit import from_vit, to_vit
from vitrail.models.lora import adapted_layers

FOLDER = Path(__file__).parents[2] / "fixtures" / "peft_vit"
pytestmark = pytest.mark.filterwarnings("ignore:mean and std of the images' colors")
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ALL = ("attention", "output", "mlp")


@pytest.fixture(scope="module")
def base():
    return vt.load(FOLDER / "base")


def adapted(base, **how):
    torch.manual_seed(1)
    model = vt.add_lora(copy.deepcopy(base), 3, alpha=4, **how)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def peft_deltas(folder):
    """What PEFT adds to each weight, written out of its documentation: key -> alpha / r B A; and what it replaces."""
    record, tensors = json.loads((folder / CONFIG).read_text()), load_file(folder / WEIGHTS)
    assert record["peft_type"] == "LORA"
    added, whole = {}, {}
    for key, tensor in tensors.items():
        name = key.removeprefix("base_model.model.")
        assert name != key
        if name.endswith(".lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            assert any(layer == target or layer.endswith(f".{target}") for target in record["target_modules"])
            rank, alpha = (
                record["rank_pattern"].get(layer, record["r"]),
                record["alpha_pattern"].get(layer, record["lora_alpha"]),
            )
            b = tensors[key.replace("lora_A", "lora_B")]
            assert tensor.shape[0] == b.shape[1] == rank
            added[layer] = alpha / rank * (b.flatten(1) @ tensor.flatten(1))
        elif "lora_" not in name:
            assert name.rpartition(".")[0] in record["modules_to_save"]
            whole[name] = tensor
    return added, whole, tensors, record["use_dora"]


def merge_by_hand(weights, folder):
    """The weights as PEFT's model computes with them; DoRA's magnitudes are norms of rows."""
    added, whole, tensors, dora = peft_deltas(folder)
    weights = {**weights, **whole}
    for layer, delta in added.items():
        weight = weights[f"{layer}.weight"]
        moved = weight + delta.view_as(weight)
        if dora:
            magnitude = tensors[f"base_model.model.{layer}.lora_magnitude_vector"].flatten()
            moved = moved * (magnitude / moved.flatten(1).norm(dim=1)).view(-1, *[1] * (weight.ndim - 1))
        weights[f"{layer}.weight"] = moved
    return weights


@pytest.mark.parametrize("name", ["lora", "dora"])
def test_what_peft_wrote_computes_what_peft_computed(base, name):
    expected = load_file(FOLDER / "expected.safetensors")
    model = vt.load_adapter(copy.deepcopy(base), FOLDER / name)
    with torch.inference_mode():
        assert_close(model(expected["images"]), expected[name], atol=1e-6, rtol=1e-6)
        assert not torch.allclose(base(expected["images"]), expected[name], atol=0.01)


@pytest.mark.parametrize("name", ["lora", "dora"])
def test_read_and_written_again_the_tensors_are_peft_s(base, tmp_path, name):
    model = vt.load_adapter(copy.deepcopy(base), FOLDER / name)
    vt.save_adapter(model, tmp_path, names="transformers")
    ours, reference = load_file(tmp_path / WEIGHTS), load_file(FOLDER / name / WEIGHTS)
    assert ours.keys() == reference.keys()
    assert all(torch.equal(ours[key], reference[key]) for key in ours)
    record, written = json.loads((FOLDER / name / CONFIG).read_text()), json.loads((tmp_path / CONFIG).read_text())
    assert written.keys() <= record.keys()  # PEFT knows each key
    assert (written["r"], written["use_dora"], written["modules_to_save"]) == (record["r"], record["use_dora"], ["classifier"])


@pytest.mark.parametrize("dora", [False, True])
def test_what_is_written_is_for_transformers(base, tmp_path, dora):
    model = adapted(base, targets=ALL, dora=dora)
    vt.save_adapter(model, tmp_path, names="transformers")
    reference = ViTForImageClassification.from_pretrained(FOLDER / "base").eval()
    reference.load_state_dict(merge_by_hand(reference.state_dict(), tmp_path))
    images = load_file(FOLDER / "expected.safetensors")["images"]
    with torch.inference_mode():
        assert_close(model(images), reference(images).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dora", [False, True])
def test_what_is_written_is_for_timm(base, tmp_path, dora):
    """timm has queries, keys and values in one matrix: A of both, one below the other, and zeros in B for keys."""
    model = adapted(base, targets=ALL, dora=dora)
    vt.save_adapter(model, tmp_path, names="timm")
    merged = merge_by_hand(to_vit(base.state_dict(), base.config, style="timm"), tmp_path)
    plain = copy.deepcopy(base)
    plain.load_state_dict(from_vit(merged, base.config))
    images = load_file(FOLDER / "expected.safetensors")["images"]
    with torch.inference_mode():
        assert_close(plain(images), model(images), atol=1e-5, rtol=1e-5)
    _, _, tensors, _ = peft_deltas(tmp_path)
    assert tensors["base_model.model.blocks.0.attn.qkv.lora_A.weight"].shape == (6, 12)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("names", ["vitrail", "timm", "transformers"])
def test_written_and_read_it_is_the_same_bit_for_bit(base, tmp_path, names, dora):
    model = adapted(base, targets=ALL, dora=dora)
    vt.save_adapter(model, tmp_path, names=names)
    again = vt.load_adapter(copy.deepcopy(base), tmp_path)
    weights = again.state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[key], tensor) for key, tensor in model.state_dict().items())
    assert {n for n, p in again.named_parameters() if p.requires_grad} == {
        n for n, p in model.named_parameters() if p.requires_grad
    }


@pytest.mark.parametrize("dora", [False, True])
def test_transformers_own_model_is_adapted_and_read(tmp_path, dora):
    """Any module with known names: here transformers' own, whose adapters our vit reads."""
    torch.manual_seed(2)
    reference = ViTForImageClassification.from_pretrained(FOLDER / "base").eval()
    model = adapted(reference, targets=(*ALL, "convolution"), dora=dora)
    vt.save_adapter(model, tmp_path)
    ours = vt.load_adapter(vt.load(FOLDER / "base"), tmp_path)
    images = load_file(FOLDER / "expected.safetensors")["images"]
    with torch.inference_mode():
        assert_close(ours(images), model(images).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dora", [False, True])
def test_a_joined_projection_of_which_keys_learn_too(base, tmp_path, dora):
    """As PEFT adapts timm's qkv by itself: one A for all three."""
    torch.manual_seed(3)
    tensors, weights = {}, to_vit(base.state_dict(), base.config, style="timm")
    for layer in ("blocks.0.attn.qkv", "blocks.1.attn.qkv"):
        weight = weights[f"{layer}.weight"]
        tensors[f"base_model.model.{layer}.lora_A.weight"] = 0.3 * torch.randn(2, weight.shape[1])
        tensors[f"base_model.model.{layer}.lora_B.weight"] = 0.3 * torch.randn(len(weight), 2)
        if dora:
            tensors[f"base_model.model.{layer}.lora_magnitude_vector"] = torch.rand(len(weight))
    save_file(tensors, tmp_path / WEIGHTS)
    record = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": ["qkv"], "rank_pattern": {}, "alpha_pattern": {}}
    (tmp_path / CONFIG).write_text(json.dumps({**record, "use_dora": dora}))
    model, plain = vt.load_adapter(copy.deepcopy(base), tmp_path), copy.deepcopy(base)
    assert len(adapted_layers(model)) == 6
    plain.load_state_dict(from_vit(merge_by_hand(weights, tmp_path), base.config))
    images = load_file(FOLDER / "expected.safetensors")["images"]
    with torch.inference_mode():
        assert_close(model(images), plain(images), atol=1e-5, rtol=1e-5)


def test_names_of_the_modules_of_transformers_4(base, tmp_path):
    shutil.copytree(FOLDER / "lora", tmp_path, dirs_exist_ok=True)
    tensors = load_file(tmp_path / WEIGHTS)
    for new, old in ((".layers.", ".encoder.layer."), ("attention.q_proj", "attention.attention.query"), ("attention.v_proj", "attention.attention.value")):  # fmt: skip
        tensors = {key.replace(new, old): tensor for key, tensor in tensors.items()}
    save_file(tensors, tmp_path / WEIGHTS)
    images = load_file(FOLDER / "expected.safetensors")["images"]
    model, reference = (vt.load_adapter(copy.deepcopy(base), folder) for folder in (tmp_path, FOLDER / "lora"))
    with torch.inference_mode():
        assert torch.equal(model(images), reference(images))


def test_a_head_of_another_number_of_classes_comes_with_its_adapter(base):
    other = copy.deepcopy(base)
    other.reset_classifier(3)
    model = vt.load_adapter(other, FOLDER / "lora")
    expected = load_file(FOLDER / "expected.safetensors")
    with torch.inference_mode():
        assert_close(model(expected["images"]), expected["lora"], atol=1e-6, rtol=1e-6)


def edit(folder, tensors=None, **record):
    shutil.copytree(FOLDER / "lora", folder, dirs_exist_ok=True)
    known = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(known | record))
    if tensors is not None:
        save_file(tensors(load_file(folder / WEIGHTS)), folder / WEIGHTS)
    return folder


def first(key, value):
    """Of the tensors, the first whose name ends so, changed."""
    return lambda tensors: {name: value(tensor) if name == next(n for n in tensors if n.endswith(key)) else tensor for name, tensor in tensors.items()}  # fmt: skip


@pytest.mark.parametrize(
    "change, rule",
    [
        ({"peft_type": "LOHA"}, "an adapter of the type 'LOHA'; only LORA is read"),
        ({"bias": "all"}, "bias 'all' is not supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights 'pissa' is not supported"),
        ({"lora_alpha": "8"}, "lora_alpha must be a number, got '8'"),
        ({"lora_alpha": float("nan")}, "has NaN, which is no number of JSON"),
        ({"alpha_pattern": [8]}, r"alpha_pattern must be a table, got \[8\]"),
        ({"r": "2", "tensors": first("lora_A.weight", lambda t: torch.zeros(0, 12))}, r"an A of \(0, 12\)"),
        ({"tensors": first("lora_A.weight", lambda t: torch.tensor(1.0))}, r"an A of \(\) and a B of \(12, 2\), which do not fit"),
        ({"use_dora": True}, "has no magnitude, against adapter_config.json"),
        ({"tensors": lambda t: {k: v for k, v in t.items() if "lora_A" not in k}}, "no adapter: it has no tensor that ends"),
        ({"tensors": lambda t: {k: v for k, v in t.items() if "0.attention.q_proj.lora_B" not in k}}, "lora_B.weight\" is missing"),
        ({"tensors": lambda t: {k.replace("layers.1", "layers.7"): v for k, v in t.items()}}, "the model has no layer \"vit.layers"),
        ({"tensors": first("lora_A.weight", lambda t: torch.zeros(2, 13))}, "is adapted from 13 to 12 values, the layer has 12 and 12"),
        ({"tensors": first("lora_B.weight", lambda t: torch.zeros(12, 3))}, r"an A of \(2, 12\) and a B of \(12, 3\), which do not fit"),
        ({"tensors": first("classifier.bias", lambda t: torch.zeros(4))}, r"\"head.output.bias\" has shape \(4,\), expected \(5,\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(base, tmp_path, change, rule):
    folder, model = edit(tmp_path / "adapter", **change), copy.deepcopy(base)
    with pytest.raises(VitrailError, match=rule) as caught:
        vt.load_adapter(model, folder)
    assert "\n" not in str(caught.value)
    assert not adapted_layers(model)


def test_there_must_be_one(base, tmp_path):
    with pytest.raises(VitrailError, match=r"no adapter: there is no adapter_config.json in it"):
        vt.load_adapter(copy.deepcopy(base), tmp_path)
    with pytest.raises(VitrailError, match="the model has no adapters to save"):
        vt.save_adapter(base, tmp_path)
    swin = vt.add_lora(vt.create_model("swin_micro_patch4_window4_64"), 2)
    with pytest.raises(VitrailError, match="an adapter by the names of timm is for a vit, not for a swin"):
        vt.save_adapter(swin, tmp_path, names="timm")
