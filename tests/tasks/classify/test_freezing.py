"""`--freeze`: what is frozen stays bit for bit, statistics of batch norms too. `--probe`: the head first, then everything."""

import os
import signal

import pytest
import torch
from safetensors import safe_open
from stopping import stop_after

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.training import loop
from vitrail.learn.training.interruption import Interrupted
from vitrail.models.classifier import HEADS
from vitrail.run.train import train

pytestmark = pytest.mark.usefixtures("quick_report")
MODELS = {
    "vit_nano_conv": {"image_size": 8, "drop_path": 0.2},
    "deit_nano_distilled_patch4_32": {"image_size": 8, "token_keep": 0.5},
    "swin_micro_patch4_window4_64": {"image_size": 32, "drop_path": 0.2},
    "resnet8_32": {"image_size": 8},
}


def small(name):
    torch.manual_seed(0)
    return vt.create_model(name, num_classes=4, in_channels=1, **MODELS[name])


@pytest.mark.parametrize("name", ["vit_nano_conv", "deit_nano_distilled_patch4_32", "resnet8_32"])
def test_only_the_head_learns(arrays, tmp_path, name):
    before = small(name)
    vt.save(before, tmp_path / "begin")
    how = {"data": arrays, "weights": tmp_path / "begin", "freeze": "encoder", "epochs": 2, "batch": 32, "quiet": True}
    run = train(**how, out=tmp_path / "run", ema=0.9)
    after, kept = run.model.state_dict(), before.state_dict()
    for key, tensor in after.items():
        if key.split(".")[0] not in HEADS:
            assert torch.equal(tensor, kept[key]), key
    for head in HEADS & dict(run.model.named_children()).keys():  # biases begin at 0
        assert all(parameter.abs().sum() > 0 for parameter in getattr(run.model, head).parameters())
    state = next((tmp_path / "run" / "state").glob("step-*/state.safetensors"))
    with safe_open(state, framework="pt") as file:
        optimized = {key.split("/", 2)[2] for key in file.keys() if key.startswith("optimizer/")}  # noqa: SIM118
    assert optimized
    assert all(key.split(".")[0] in HEADS for key in optimized)


@pytest.mark.parametrize("name", MODELS)
def test_the_encoder_is_in_evaluation_mode_while_the_head_trains(name):
    model = small(name)
    model.freeze_encoder()
    model.train()
    images = torch.randn(3, model.config.in_channels, *model.image_size)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    assert torch.equal(model(images), model(images))  # nothing is dropped
    model(images).sum().backward()
    assert {key.split(".")[0] for key, p in model.named_parameters() if p.grad is not None} == HEADS & {
        key for key, part in model.named_children() if list(part.parameters())
    }
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert model.head.training
    assert not model.eval().head.training


def test_resumed_bit_for_bit(arrays, tmp_path, monkeypatch):
    vt.save(small("resnet8_32"), tmp_path / "begin")
    how = {"data": arrays, "weights": tmp_path / "begin", "freeze": "encoder", "epochs": 2, "batch": 32, "quiet": True}
    whole = train(**how, out=tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(patch, 4)  # in the middle of the second epoch
        with pytest.raises(Interrupted):
            train(**how, out=tmp_path / "run")
    train(data=arrays, out=tmp_path / "run", resume=True, quiet=True)
    again = (tmp_path / "run" / "last" / "model.safetensors").read_bytes()
    assert again == (whole.path / "last" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("name", "blocks"), [("vit_nano_conv", 0), ("vit_nano_conv", 2), ("resnet8_32", 1)])
def test_a_stem_and_the_first_blocks_stay(arrays, tmp_path, name, blocks):
    before = small(name)
    vt.save(before, tmp_path / "begin")
    run = train(data=arrays, weights=tmp_path / "begin", freeze=blocks, epochs=1, batch=32, quiet=True, out=tmp_path / "run")
    after, kept = run.model.state_dict(), before.state_dict()
    last = "encoder.blocks." if name == "vit_nano_conv" else "stages."
    for key, tensor in after.items():
        frozen = key.startswith(("tokenizer.", "position.", "stem", *(f"{last}{number}." for number in range(blocks))))
        counts = tensor.dtype == torch.int64  # batches that a batch norm has seen
        assert torch.equal(tensor, kept[key]) == frozen or (counts and not frozen), key


def test_more_blocks_than_there_are(arrays, tmp_path):
    vt.save(small("vit_nano_conv"), tmp_path / "begin")
    with pytest.raises(VitrailError, match="--freeze 9: the model has 3 blocks"):
        train(data=arrays, weights=tmp_path / "begin", freeze=9, epochs=1, quiet=True, out=tmp_path / "run")


def test_the_head_learns_first(arrays, tmp_path):
    """Until the share of the run is done nothing but the head moves; afterwards everything does."""
    before = small("vit_nano_conv")
    vt.save(before, tmp_path / "begin")
    how = {
        "data": arrays,
        "weights": tmp_path / "begin",
        "epochs": 4,
        "batch": 32,
        "quiet": True,
        "drop_path": 0.0,
        "weight_decay": 0.0,
    }
    moved = {}
    for epoch in (2, 4):
        seen = []

        def stop(*words, last=epoch, seen=seen):
            seen.append(words)
            if words[1].epoch == last - 1 and words[1].batch == words[3]:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "_show", stop)
            with pytest.raises(Interrupted):
                train(**how, probe=0.5, out=tmp_path / str(epoch))
        after = vt.load(tmp_path / str(epoch) / "last").state_dict()
        moved[epoch] = {
            key
            for key, tensor in before.state_dict().items()
            if tensor.is_floating_point() and not torch.equal(after[key], tensor)
        }
    statistics = {key for key in before.state_dict() if "running" in key}  # of batch norms: they follow the new images
    assert {key.split(".")[0] for key in moved[2] - statistics} == {"head"}
    assert moved[4] >= {key for key, _ in before.named_parameters()}


def test_a_probe_needs_weights(arrays, tmp_path):
    with pytest.raises(VitrailError, match=r"--probe 0\.5: a new encoder has nothing for the head to learn from"):
        train(data=arrays, probe=0.5, epochs=1, quiet=True, out=tmp_path / "run")
    with pytest.raises(VitrailError, match=r"--probe 0\.5 and --freeze encoder do not go together"):
        train(data=arrays, weights=tmp_path, probe=0.5, freeze="encoder", quiet=True)
