"""The learning rate's schedule, which parameters weight decay pulls on, and how fast each layer learns."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.optim.groups import layer_groups, split_by_decay
from vitrail.learn.optim.schedule import warmup_cosine
from vitrail.models.parts import POSITIONS


def test_schedule_at_the_places_that_matter():
    assert warmup_cosine(0.0, warmup=0.2) == 0
    assert warmup_cosine(0.1, warmup=0.2) == 0.5
    assert warmup_cosine(0.2, warmup=0.2) == 1
    assert warmup_cosine(0.6, warmup=0.2) == pytest.approx(0.5)
    assert warmup_cosine(1.0, warmup=0.2) == pytest.approx(0, abs=1e-12)
    assert warmup_cosine(1.0, warmup=0.2, floor=0.1) == pytest.approx(0.1)
    assert warmup_cosine(0.0, warmup=0.0) == 1
    assert warmup_cosine(1.3, warmup=0.2) == pytest.approx(0, abs=1e-12), "a budget that was exceeded"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.99))
def test_schedule_rises_then_falls_within_its_bounds(one, other, warmup):
    low, high = sorted((one, other))
    rates = [warmup_cosine(progress, warmup=warmup) for progress in (low, high)]
    assert all(0 <= rate <= 1 for rate in rates)
    if high <= warmup:
        assert rates[0] <= rates[1]
    if low >= warmup:
        assert rates[0] >= rates[1]


MODELS = {
    "nano": {},
    "class token, registers, scales": {"prefix": 3, "pool": "class", "layer_scale": 0.1},
    "hidden head": {"head_hidden": 11, "pool": "mean"},
    **{position: {"position": position, "prefix": 1} for position in POSITIONS},
}


@pytest.mark.parametrize("overrides", MODELS.values(), ids=MODELS)
def test_matrices_decay_and_what_is_added_does_not(overrides):
    model = vt.create_model("vit_nano_conv", **{"depth": 2, "image_size": 16, **overrides})
    groups = layer_groups(model, 0.05, layer_decay=1.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    listed = [names[id(parameter)] for group in groups for parameter in group["params"]]
    assert sorted(listed) == sorted(names.values()), "each exactly once"
    layers = (nn.Linear, nn.Conv2d)
    matrices = [name for name, module in model.named_modules() if isinstance(module, layers)]
    expected = {f"{name}.weight" for name in matrices if not name.startswith("position.")}  # of a continuous bias
    assert {group["weight_decay"] for group in groups} == {0.05, 0.0}
    decayed = {names[id(parameter)] for group in groups if group["weight_decay"] for parameter in group["params"]}
    assert decayed == expected
    assert not any(name.startswith("prefix.") for name in expected)


def test_frozen_parameters_are_left_out():
    model = vt.create_model("vit_nano_conv", depth=1)
    model.tokenizer.requires_grad_(False)
    listed = [parameter for group in layer_groups(model, 0.1, layer_decay=1.0) for parameter in group["params"]]
    assert {id(p) for p in listed} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(listed) < len(list(model.parameters()))


def test_decay_pulls_on_its_group_only():
    model = vt.create_model("vit_nano_conv", depth=1, prefix=1)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(layer_groups(model, 0.5, layer_decay=1.0), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        kept = 1.0 if parameter.ndim < 2 or name.startswith(("position.", "prefix.")) else 0.95
        torch.testing.assert_close(parameter.detach(), kept * before[name])


def test_layers_learn_at_falling_rates():
    model = vt.create_model("vit_nano_conv", depth=3, image_size=16, prefix=2)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    scales = {names[id(p)]: g["scale"] for g in layer_groups(model, 0.1, layer_decay=0.5) for p in g["params"]}
    assert scales.keys() == set(names.values())
    expected = {
        "tokenizer.": 1 / 16, "prefix.": 1 / 16, "position.": 1 / 16, "encoder.blocks.0.": 1 / 8,
        "encoder.blocks.1.": 1 / 4, "encoder.blocks.2.": 1 / 2, "encoder.norm.": 1.0, "head.": 1.0,
    }  # fmt: skip
    for start, scale in expected.items():
        assert {scales.pop(name) for name in names.values() if name.startswith(start)} == {scale}
    assert not scales


@pytest.mark.parametrize("overrides", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("layer_decay", [1.0, 0.75])
def test_layers_divide_the_groups_of_weight_decay(overrides, layer_decay):
    model = vt.create_model("vit_nano_conv", **{"depth": 2, "image_size": 16, **overrides})
    model.tokenizer.requires_grad_(False)
    groups = layer_groups(model, 0.05, layer_decay=layer_decay)
    for named, decay in zip(split_by_decay(model), (0.05, 0.0), strict=True):
        parts = [g["params"] for g in groups if g["weight_decay"] == decay]
        assert {id(p) for part in parts for p in part} == {id(p) for _, p in named}
        assert sum(len(part) for part in parts) == len(named), "each once"
    assert layer_decay < 1 or {g["scale"] for g in groups} == {1.0}


def test_a_two_digit_block_is_not_taken_for_a_one_digit_one():
    model = vt.create_model("vit_nano_conv", depth=12, image_size=16)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    scales = {names[id(p)]: g["scale"] for g in layer_groups(model, 0.1, layer_decay=0.5) for p in g["params"]}
    assert scales["encoder.blocks.1.mlp_norm.weight"] == 0.5**11
    assert scales["encoder.blocks.11.mlp_norm.weight"] == 0.5


@pytest.mark.parametrize("layer_decay", [0.0, 1.1, float("nan")])
def test_a_layer_decay_outside_its_range_is_refused(layer_decay):
    with pytest.raises(VitrailError, match="more than 0 and at most 1"):
        layer_groups(nn.Linear(2, 3), 0.1, layer_decay=layer_decay)


SIZES = {"width": 8, "heads": 2, "hidden": 8}
WORDS = {**SIZES, "vocabulary": 9, "longest": 6}


@pytest.mark.parametrize("model, first, last", [
    (("igpt_nano", {**SIZES, "depth": 2}), ["colors.weight", "position.table"], ["head.output.weight"]),
    (("gpt_tiny", {**WORDS, "depth": 2, "tied": False}), ["words.table.weight"], ["head.output.weight"]),
    (("gpt_tiny", {**WORDS, "depth": 2}), [], ["words.table.weight"]),
    (("transformer_tiny", {**WORDS, "depth": 2, "decoder_depth": 1, "tied": False}),
     ["words.table.weight"], ["target_words.table.weight", "decoder.norm.weight"]),
    (("cmlm_tiny", {**WORDS, "depth": 2, "decoder_depth": 1, "tied": False, "position": "learned_1d"}),
     ["transformer.words.table.weight", "transformer.position.table"], ["lengths.weight", "transformer.target_words.table.weight"]),
    (("captioner_micro", {**WORDS, "decoder_depth": 1, "encoder": "vit_nano_conv", "tied": False}), [], ["words.table.weight"]),
])  # fmt: skip
def test_a_table_that_the_first_block_alone_reads_is_the_first_layer(model, first, last):
    name, overrides = model
    made = vt.create_model(name, **overrides)
    names = {id(p): n for n, p in made.named_parameters()}
    groups = layer_groups(made, 0.1, layer_decay=0.5)
    scales = {names[id(p)]: g["scale"] for g in groups for p in g["params"]}
    hidden = {names[id(p)] for g in groups if g["hidden"] for p in g["params"]}
    smallest = min(scales.values())
    assert smallest <= 0.5**3
    assert {scales[n] for n in first} <= {smallest}
    assert {scales[n] for n in last} == {1.0}
    assert not hidden & {*first, *last}
    assert any("decoder.blocks" in n or "encoder.blocks" in n for n in hidden)


def test_layer_rates_need_blocks():
    with pytest.raises(VitrailError, match=r"without encoder\.blocks or stages, got 0\.5"):
        layer_groups(nn.Linear(2, 3), 0.1, layer_decay=0.5)
    assert [group["scale"] for group in layer_groups(nn.Linear(2, 3), 0.1, layer_decay=1.0)] == [1.0, 1.0]
