"""The cost model against torch's own counts, and against arithmetic done by hand."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitrail.errors import VitrailError
from vitrail.models.vit import ViTConfig, build_vit
from vitrail.models.vit_presets import PRESETS, SIZES
from vitrail.run.cost import (
    Machine,
    activation_bytes,
    all_reduce_seconds,
    forward_macs,
    parameter_count,
    predict,
    state_bytes,
    training_flops,
)

ROOT = Path(__file__).parents[2]
PLAIN = ViTConfig(width=96, depth=2, heads=3, image_size=(64, 32), num_classes=5)
CONV = ViTConfig(
    width=40, depth=3, heads=2, mlp_ratio=2.0, patch=4, image_size=(22, 19), num_classes=7, tokenizer="conv", prefix=0,
    pool="attention", in_channels=2,
)  # fmt: skip
ROUND = Machine(
    name="round", peak=1e12, utilization=0.5, memory=1e9, memory_bandwidth=1e9, host=4, inside=1e9, between=1e8, overlap=0.5,
    read=1e9,
)  # fmt: skip


@pytest.mark.parametrize(
    "config",
    [
        PLAIN,
        CONV,
        replace(CONV, patch=8, tokenizer_layers=1, image_size=(33, 65)),
        replace(PLAIN, head_hidden=11, prefix=3, mlp_ratio=2.5),
        replace(PLAIN, num_classes=0, pool="mean", prefix=0),
        replace(PLAIN, tokenizer="resnet", image_size=(32, 48)),
        replace(PLAIN, activation="swiglu"),
        replace(CONV, patch=8, tokenizer="residual", tokenizer_widths=(8, 12), tokenizer_depths=(0, 2, 1), image_size=(33, 65)),
    ],
    ids=["patch", "conv", "conv of more halvings", "hidden head", "features", "resnet", "gated", "residual"],
)
def test_multiply_adds_are_those_that_torch_counts(config):
    model = build_vit(config)
    height, width = config.image_size
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():  # it counts no fused one
        model(torch.zeros(1, config.in_channels, height, width))
    assert 2 * forward_macs(config) == counter.get_total_flops()


def test_the_backward_pass_costs_twice_the_forward_pass():
    model = build_vit(PLAIN)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.zeros(3, 3, 64, 32)).sum().backward()
    cut = 2 * 8 * (16 * 16 * 3) * 96  # of one image: the pixels need no gradient
    assert 3 * (training_flops(PLAIN) - cut) == counter.get_total_flops()


def test_dropped_tokens_cost_nothing_in_training():
    """Half of 8 cells stay, n = 4 + 1: 2 blocks of 4 n d² + 2 n² d + 8 n d², and the cut of all 8."""
    half = replace(PLAIN, token_keep=0.5)
    assert forward_macs(half) == forward_macs(PLAIN)
    assert training_flops(half) == 6 * (2 * (12 * 5 * 96 * 96 + 2 * 25 * 96) + 8 * 768 * 96 + 96 * 5)
    assert activation_bytes(half, "fp32") == activation_bytes(PLAIN, "fp32") * 5 / 9


def test_published_sizes():
    """ViT-S/16, B/16 and L/16 at 224: 4.6, 17.6 and 61.6 billion multiply-adds, attention included."""
    for name, billions in {"small": 4.6, "base": 17.6, "large": 61.6}.items():
        assert forward_macs(SIZES[name]) / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_block_by_hand():
    """n = 8 cells + 1, d = 96, r = 4: 4 n d² + 2 n² d + 8 n d² = 331,776 + 15,552 + 663,552."""
    deeper = replace(PLAIN, depth=3)
    assert forward_macs(deeper) - forward_macs(PLAIN) == 331_776 + 15_552 + 663_552


@pytest.mark.parametrize("config", [PLAIN, replace(PLAIN, activation="swiglu")], ids=["plain", "gated"])
def test_bytes_kept_for_the_backward_pass_are_those_that_torch_keeps(config):
    def kept(depth: int) -> int:
        model = build_vit(replace(config, depth=depth))
        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        seen: dict[int, torch.Tensor] = {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.untyped_storage().data_ptr() not in weights:
                seen[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            output = model(torch.zeros(5, 3, 64, 32))
        assert output.requires_grad
        return sum(tensor.untyped_storage().nbytes() for tensor in seen.values())

    assert kept(4) - kept(2) == pytest.approx(5 * activation_bytes(config, "fp32"), rel=0.02)  # two blocks, as in PLAIN


def test_bytes_a_parameter_by_hand():
    assert state_bytes("fp32") == 16
    assert state_bytes("fp32", averaged=True) == 20
    assert state_bytes("bf16") == 18
    assert state_bytes("fp32", shards=8) == 2
    parameters = list(torch.nn.Linear(5, 3).parameters())
    optimizer = torch.optim.AdamW(parameters)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    optimizer.step()
    moments = [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
    assert sum(t.nbytes for t in (*parameters, *(p.grad for p in parameters), *moments)) == 16 * 18


def test_a_forecast_by_hand():
    machine = replace(ROUND, overlap=0.9)
    forecast = predict(PLAIN, machine, images=1000, epochs=3, processes=2, batch=64, precision="fp32")
    count = parameter_count(PLAIN)
    assert forecast.steps == 3 * 15
    assert forecast.compute_seconds == pytest.approx(32 * training_flops(PLAIN) / 5e11)
    exchange = 4 * count / 1e9  # 2 (2 - 1) / 2 = 1
    assert forecast.exchange_seconds == pytest.approx(exchange - 2 / 3 * forecast.compute_seconds)  # all that can hide
    some = predict(PLAIN, replace(machine, overlap=0.01), images=1000, epochs=3, processes=2, batch=64)
    assert some.exchange_seconds == pytest.approx(0.99 * exchange)
    assert forecast.optimizer_seconds == pytest.approx(28 * count / 1e9)
    assert forecast.reading_seconds == 0
    assert forecast.memory == 16 * count + 32 * activation_bytes(PLAIN, "fp32")
    assert forecast.hours == pytest.approx(45 * forecast.step_seconds / 3600)
    slow = predict(PLAIN, replace(ROUND, read=1.0), images=1000, epochs=3, processes=2, batch=64)
    assert slow.step_seconds == pytest.approx(32)  # an image a second, nothing hidden
    assert slow.limit == "reading"


def test_launching_bounds_small_batches():
    machine = replace(ROUND, block_seconds=7.0)
    forecast = predict(PLAIN, machine, images=64, epochs=1, batch=64)
    assert forecast.compute_seconds + forecast.launch_seconds == 14.0
    assert forecast.limit == "launching"


@settings(max_examples=25)
@given(st.integers(0, 9))
def test_twice_the_processes_are_less_than_twice_as_fast(doublings):
    machine = replace(ROUND, between=ROUND.inside)
    one, two = (
        predict(PLAIN, machine, images=10_240, epochs=1, processes=2**power, batch=1024) for power in (doublings, doublings + 1)
    )
    assert two.compute_seconds == one.compute_seconds / 2
    assert two.exchange_seconds > one.exchange_seconds
    assert 2 * two.hours > one.hours
    assert two.memory < one.memory


def test_the_exchange_between_hosts_goes_over_their_link():
    assert all_reduce_seconds(1e9, machine=ROUND, processes=1) == 0
    assert all_reduce_seconds(1e9, machine=ROUND, processes=4) == pytest.approx(1.5)
    assert all_reduce_seconds(1e9, machine=ROUND, processes=8) == pytest.approx(17.5)


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(VitrailError, match="got 100 images, 3 processes"):
        predict(PLAIN, ROUND, images=1000, epochs=1, processes=3, batch=100)


def test_every_preset_has_a_cost():
    for name, config in PRESETS.items():
        assert forward_macs(config) > 1e6, name


def test_the_document_shows_what_the_model_says():
    specification = importlib.util.spec_from_file_location("scaling", ROOT / "benchmarks" / "scaling.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for table in module.tables().values():
        assert table in text, "python benchmarks/scaling.py --table prints the tables of docs/scale.md"
