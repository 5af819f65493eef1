"""Checkpoints as people have them: which of their parts is the network, and what is said about the rest."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from vitrail.errors import VitrailError
from vitrail.models.reading.foreign import read_file
from vitrail.models.reading.prefixes import strip_prefixes


def network(value, prefix=""):
    return OrderedDict(
        {f"{prefix}cls_token": torch.full((1, 1, 3), float(value)), f"{prefix}blocks.0.norm1.bias": torch.zeros(3)}
    )


@pytest.fixture
def read(tmp_path):
    def save_and_read(checkpoint, **options):
        torch.save(checkpoint, tmp_path / "a.pth", **options)
        tensors, notes = read_file(tmp_path / "a.pth", pickles=True)
        assert set(tensors) == {"cls_token", "blocks.0.norm1.bias"}
        return tensors["cls_token"].flatten()[0].item(), notes

    return save_and_read


@pytest.mark.parametrize(
    "checkpoint, notes",
    [
        (network(1), ()),
        ({"model": network(1)}, ('the weights are those under "model"',)),
        ({"epoch": 3, "state_dict": network(1)}, ('the weights are those under "state_dict"; left out: "epoch"',)),
        ({"model_state_dict": network(1)}, ('the weights are those under "model_state_dict"',)),
        (
            {"model": network(0), "model_ema": network(1), "optimizer": {}},
            ('the weights are those under "model_ema"; left out: "model", "optimizer"',),
        ),
        (  # DINO
            {"student": network(0, "module.backbone."), "teacher": network(1, "backbone."), "epoch": 3},
            (
                'the weights are those under "teacher"; left out: "student", "epoch"',
                '"backbone." taken off the names of 2 weights',
            ),
        ),
        (  # a model that learned from another
            {"model": network(1), "teacher": network(0)},
            ('the weights are those under "model"; left out: "teacher"',),
        ),
        (
            {"state_dict": {"model": network(1)}},
            ('the weights are those under "state_dict"', 'the weights are those under "model"'),
        ),
        (  # a description that has the name of a wrapper
            {"model": {"width": 3}, "encoder": "vit", "state_dict": network(1)},
            ('the weights are those under "state_dict"; left out: "model", "encoder"',),
        ),
        (
            network(1) | {"epoch": 3, "name": "vit", 7: torch.zeros(2)},
            ('no weights, left out: "epoch", "name", "7"',),
        ),
        (  # distributed and compiled
            {"state_dict": network(1, "module._orig_mod.")},
            (
                'the weights are those under "state_dict"',
                '"_orig_mod." taken out of names',
                '"module." taken off the names of 2 weights',
            ),
        ),
        (  # DINOv2 while it trains, all in one dictionary
            network(1, "teacher.backbone.") | network(0, "student.backbone.") | {"teacher.dino_head.mlp.bias": torch.ones(2)},
            (
                '"teacher." taken off the names of 3 weights; 2 weights outside of it are left out: "student"',
                '"backbone." taken off the names of 2 weights; 1 weights outside of it are left out: "dino_head"',
            ),
        ),
        (  # an encoder and a decoder, as in an image-to-text model
            network(1, "encoder.") | {"decoder.net.bias": torch.ones(2), "decoder.embedding.weight": torch.ones(2)},
            ('"encoder." taken off the names of 2 weights; 2 weights outside of it are left out: "decoder"',),
        ),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_the_network_is_found_and_the_rest_is_reported(checkpoint, notes, zipped, read):
    assert read(checkpoint, _use_new_zipfile_serialization=zipped) == (1, notes)


def test_parameters_become_tensors(read, tmp_path):
    value, _ = read({name: nn.Parameter(tensor) for name, tensor in network(1).items()})
    assert value == 1
    tensors, _ = read_file(tmp_path / "a.pth", pickles=True)
    assert not any(tensor.requires_grad or isinstance(tensor, nn.Parameter) for tensor in tensors.values())


def test_a_dictionary_that_holds_itself(tmp_path):
    loop = {}
    loop["model"] = loop
    torch.save(loop, tmp_path / "a.pth")
    with pytest.raises(VitrailError, match=r'no weights in it, only "model"'):
        read_file(tmp_path / "a.pth", pickles=True)


@pytest.mark.parametrize("value", [[torch.zeros(3)], torch.zeros(3), 3, {}])
def test_what_holds_no_weights_by_name(value, tmp_path):
    torch.save(value, tmp_path / "a.pth")
    with pytest.raises(VitrailError, match=r"weights by name were expected, got|no weights in it"):
        read_file(tmp_path / "a.pth", pickles=True)


@pytest.mark.parametrize(
    "names",
    [
        ("embeddings.cls_token", "encoder.layer.0.output.dense.bias", "layernorm.bias"),  # transformers' ViTModel
        ("vit.embeddings.cls_token", "vit.encoder.layer.0.output.dense.bias", "classifier.bias"),
        ("patch_embed.backbone.stem.conv.weight", "blocks.0.norm1.bias"),  # timm's hybrids
        ("module.a", "b"),
        ("encoder.layer.0.bias", "encoder.layer.1.bias"),
        ("model." * 10_000 + "cls_token",),
    ],
)
def test_names_that_only_look_like_prefixes_stay(names):
    found, notes = strip_prefixes({name: torch.zeros(1) for name in names}, where="a")
    assert tuple(found) == names
    assert notes == ()


def test_wrapped_blocks_lose_their_wrappers_names_and_never_each_other():
    found, _ = strip_prefixes({"cls_token": torch.zeros(1), "blocks.0._orig_mod.norm1.bias": torch.ones(1)}, where="a")
    assert list(found) == ["cls_token", "blocks.0.norm1.bias"]
    with pytest.raises(VitrailError, match=r'two weights are called "norm.bias"'):
        strip_prefixes({"norm.bias": torch.zeros(1), "_orig_mod.norm.bias": torch.ones(1)}, where="a")
