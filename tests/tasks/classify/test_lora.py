"""`--lora`: adapters and the head learn, everything else stays bit for bit; best/ is a plain model with the adapter beside it."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from stopping import stop_after
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training.interruption import Interrupted
from vitrail.models.classifier import HEADS
from vitrail.nn.adapters.lora import OWN
from vitrail.run.train import train

pytestmark = pytest.mark.usefixtures("quick_report")
HOW = {"lora": 2, "epochs": 2, "batch_size": 32, "quiet": True}


@pytest.fixture
def begin(tmp_path):
    """A model with a stem of convolutions and batch norms, for other classes than those of the data."""
    torch.manual_seed(0)
    model = vt.create_model("vit_nano_conv", num_classes=7, in_channels=1, image_size=8, drop_path=0.2)
    vt.save(model, tmp_path / "begin")
    return tmp_path / "begin"


def training_state(run):
    return load_file(next((run / "state").glob("step-*/state.safetensors")))


@pytest.mark.parametrize(
    "more", [{}, {"dora": True, "ema": 0.9, "optimizer": "muon", "lora_targets": ("attention", "convolution")}]
)
def test_only_adapters_and_head_learn(arrays, tmp_path, begin, more):
    run = train(**HOW, **more, data=arrays, weights=begin, out=tmp_path / "run")
    base, state = vt.load(begin), training_state(tmp_path / "run")
    for key, tensor in base.state_dict().items():
        if key.split(".")[0] not in HEADS:
            assert torch.equal(state[f"model/{key}"], tensor), key
            if more:
                assert torch.equal(state[f"extra/shadow/{key}"], tensor), key
    learned = {key.split("/", 2)[2] for key in state if key.startswith("optimizer/")}
    assert learned
    assert all(key.split(".")[0] in HEADS or key.split(".")[-1] in OWN for key in learned)
    own = {key for key in state if key.startswith("model/") and key.endswith("lora_b")}
    assert all(state[key].abs().sum() > 0 for key in own)
    # best/ is a plain model, and the base with the adapter beside it computes the same
    images = torch.randn(3, 1, 8, 8)
    assert set(run.model.state_dict()) == set(base.state_dict())
    again = vt.load_adapter(base, tmp_path / "run")
    with torch.inference_mode():
        assert_close(again(images), run.model(images), atol=1e-5, rtol=1e-5)
    record = json.loads((tmp_path / "run" / "best" / "adapter" / "adapter_config.json").read_text())
    assert (record["r"], record["use_dora"]) == (2, bool(more))


def test_the_share_is_printed_before_training(arrays, tmp_path, begin, capsys):
    train(**{**HOW, "epochs": 1, "quiet": False}, data=arrays, weights=begin, out=tmp_path / "run")
    text = " ".join(capsys.readouterr().out.split())  # lines may be wrapped
    share = text.index("LoRA of rank 2 on attention: 1,728 parameters in 6 layers, 1.06 % of the model without its head")
    assert text.index("lr 0.002") < text.index("epoch 1/1")
    assert share < text.index("epoch 1/1")


@pytest.mark.parametrize("more", [{"dora": True, "ema": 0.9}])
def test_resumed_bit_for_bit(arrays, tmp_path, begin, monkeypatch, more):
    how = {**HOW, **more, "data": arrays, "weights": begin}
    whole = train(**how, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 4)  # in the middle of the second epoch
        with pytest.raises(Interrupted):
            train(**how, out=tmp_path / "run")
    train(data=arrays, out=tmp_path / "run", resume=True, quiet=True)
    for name in ("last/model.safetensors", "best/adapter/adapter_model.safetensors", "predictions.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (whole.path / name).read_bytes(), name


@pytest.mark.parametrize(
    "options, rule",
    [
        ({"lora": 4}, "--lora 4 adapts what weights bring, and no weights were chosen: name some with --weights"),
        ({"lora": 4, "pretrained": "none"}, "--lora 4 adapts what --weights brings: give --weights too"),
        ({"lora": 0, "weights": "x"}, "--lora must be at least 1, got 0"),
        ({"dora": True}, "--dora is about LoRA: give --lora and a rank too"),
        ({"lora_alpha": 8.0}, "--lora-alpha 8.0 is about LoRA"),
        ({"lora_targets": ("mlp",)}, "--lora-targets mlp is about LoRA"),
        (
            {"lora": 4, "weights": "x", "lora_targets": ("mlp", "mlp")},
            "--lora-targets names each kind of layer once, got mlp mlp",
        ),
        ({"lora": 4, "weights": "x", "freeze": "encoder"}, "--lora 4 and --freeze encoder do not go together"),
        ({"lora": 4, "weights": "x", "shard": True}, "--shard and --lora 4 do not go together"),
    ],
)
def test_what_says_nothing_is_refused(options, rule):
    with pytest.raises(VitrailError, match=rule):
        train(data="digits", quiet=True, **options)


@pytest.mark.slow
def test_two_processes_learn_one_adapter(arrays, tmp_path, begin):
    words = [
        "train",
        "--data",
        arrays,
        "--weights",
        begin,
        "--lora",
        2,
        "--dora",
        "--epochs",
        2,
        "--device",
        "cpu",
        "--batch-size",
        16,
    ]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "vitrail"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launcher, *map(str, words), "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    state = training_state(tmp_path / "run")
    for key, tensor in vt.load(begin).state_dict().items():
        if key.split(".")[0] not in HEADS:
            assert torch.equal(state[f"model/{key}"], tensor), key
    assert (tmp_path / "run" / "best" / "adapter" / "adapter_model.safetensors").is_file()
