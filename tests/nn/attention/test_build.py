"""Attention is built in one place, of a table to which a kernel is added by one line."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import vitrail
import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import ARCHITECTURES, MODELS, build_model, create_model, model_config
from vitrail.models.parts import POSITIONS, build_position
from vitrail.nn.attention.build import ATTENTION, attention_names
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.spec import AttentionSpec
from vitrail.records import from_record, to_record
from vitrail.tasks.blocks import AttentionOptions

SOURCE = Path(vitrail.__file__).parent
BY_HAND = re.compile(r"\b(MultiHeadAttention|\w+Kernel)\(")
# The local kernel knows the group's grid, and lies above nn/attention: it cannot be a row of its table.
EXCEPTED = {"nn/groups/attention.py": {"MultiHeadAttention", "LocalKernel"}}
OTHER = {"seq2seq", "show_attend_tell"}  # recurrent: their attention is no kernel


def test_nobody_builds_attention_by_hand():
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        lines = (line for line in path.read_text().splitlines() if not line.lstrip().startswith(("class ", "#")))
        calls = {match for line in lines for match in BY_HAND.findall(line)} - EXCEPTED.get(name, set())
        if calls and not name.startswith("nn/attention/"):
            found[name] = calls
    assert found == {}


def test_every_config_with_attention_takes_a_kernel_and_its_options():
    for architecture, entry in ARCHITECTURES.items():
        names = {field.name for field in fields(entry.config)}
        if "heads" in names and architecture not in OTHER:
            assert {"attention", "attention_options"} <= names, architecture


def test_help_names_every_kernel():
    help_text = next(one.help for one in AttentionOptions.__annotations__["attention"].__metadata__ if hasattr(one, "help"))
    assert re.findall(r"\w+", help_text.split(":")[1]) == list(ATTENTION) == list(attention_names())


@pytest.mark.parametrize("name", POSITIONS)
def test_what_a_position_asks_of_a_kernel_is_what_it_does(name):
    position = build_position(name, width=24, heads=3, depth=2, grid=(3, 5))
    does = {feature for feature, acts in (("bias", position.biases), ("read", position.reads)) if acts}
    assert POSITIONS[name].asks == does


@pytest.mark.parametrize("name", MODELS)
def test_the_defaults_are_not_stored(name):
    """Folders of models that never chose a kernel stay as they were, byte for byte, and older ones are read."""
    architecture, config = model_config(name)
    record = to_record(config)
    assert not [key for key in record if key.endswith("attention_options")]
    again = from_record(type(config), json.loads(json.dumps(record)), what=name)
    assert again == config
    assert hash(again) == hash(config)
    assert architecture in ARCHITECTURES


def test_options_are_stored_with_the_model(tmp_path, toys):
    model = create_model(
        "vit_nano_patch4_32", image_size=8, num_classes=3, attention="redrawn", attention_options={"features": 5, "every": 2}
    ).eval()
    vt.save(model, tmp_path / "model")
    stored = json.loads((tmp_path / "model/config.json").read_text())["config"]
    assert stored["attention_options"] == {"features": 5, "every": 2}
    images = torch.randn(2, 3, 8, 8)
    again = vt.load(tmp_path / "model")
    assert torch.equal(again(images), model(images))
    assert again.encoder.blocks[0].attention.kernel.rows.shape == (5, model.config.width // model.config.heads)


OF_NESTED = [
    ("mae_of_vit", {"decoder_attention": "cosine"}, "decoder.", "cosine"),
    ("segmenter", {"head_attention": "cosine"}, "head.", "cosine"),
    ("segmenter", {"attention": "cosine"}, "backbone.", "cosine"),
    ("captioner", {"encoder_attention": "cosine"}, "encoder.", "cosine"),
    ("captioner", {"attention": "cosine"}, "decoder.", "cosine"),
]


@pytest.mark.parametrize("model, choice, where, kernel", OF_NESTED)
def test_parts_of_a_model_have_kernels_of_their_own(model, choice, where, kernel):
    made = nested(model, choice)
    names = {path: layer.kernel.name for path, layer in made.named_modules() if isinstance(layer, MultiHeadAttention)}
    assert {name for path, name in names.items() if path.startswith(where)} == {kernel}
    assert {name for path, name in names.items() if not path.startswith(where)} == {"softmax"}


def nested(model, choice):
    if model == "mae_of_vit":
        backbone = {**to_record(model_config("vit_nano_patch4_32")[1]), "image_size": [8, 8]}
        record = {"backbone": backbone, "decoder_width": 24, "decoder_depth": 2, "decoder_heads": 3}
        return build_model("mae", from_record(ARCHITECTURES["mae"].config, record | choice, what="mae"))
    if model == "segmenter":
        record = {"backbone": to_record(model_config("vit_nano_patch4_32")[1]), "head": "mask", "num_classes": 3}
        return build_model("segmenter", from_record(ARCHITECTURES["segmenter"].config, record | choice, what="segmenter"))
    return create_model("captioner_micro", image_size=(24, 24), vocabulary=31, **choice)


@pytest.mark.parametrize(
    "name, choice, feature",
    [
        ("gpt_tiny", {}, "cache|causal"),
        ("igpt_nano", {}, "cache|causal"),
        ("transformer_tiny", {}, "mask"),
        ("captioner_micro", {}, "cache|causal"),
        ("vit_nano_patch4_32", {"position": "alibi"}, "bias"),
        ("vit_nano_patch4_32", {"merge": 2}, "mask"),
        ("swin_nano_patch2_window4_32", {}, "bias|window"),
        ("swinir_nano_x2", {}, "bias|window"),
        ("detr_micro_plain", {}, "cross"),
        ("gsa_p4_small", {}, "bias"),
    ],
)
def test_a_model_that_needs_more_is_refused_when_it_is_built(name, choice, feature, toys):
    with pytest.raises(VitrailError, match=rf"narrow attention does not support ({feature}); it supports none$"):
        create_model(name, attention="narrow", **choice)


def test_the_bias_that_reads_values_is_for_softmax_alone():
    with pytest.raises(VitrailError, match=r"cosine attention does not support read; it supports "):
        create_model("vit_nano_patch4_32", position="relative_shaw", attention="cosine")


def test_unknown_names_and_options():
    with pytest.raises(
        VitrailError, match=r'unknown attention "softmin": choose from softmax, cosine; did you mean "softmax"\?'
    ):
        create_model("unetr_micro", attention="softmin")
    with pytest.raises(VitrailError, match=r'cosine attention has no option "scale"; it has none'):
        create_model("detr_micro", attention="cosine", attention_options={"scale": 2.0})


def test_a_spec_says_what_it_needs():
    spec = AttentionSpec(width=12, heads=3, role="cross", causal=True, needs=frozenset({"bias"}))
    assert spec.asked == ["bias", "causal", "cross"]
    assert (spec.key_width, spec.value_width) == (4, 4)
    with pytest.raises(VitrailError, match="the width must be a multiple of the heads: got width 12, heads 5"):
        AttentionSpec(width=12, heads=5)


def test_swin_with_the_kernel_of_its_second_version():
    """As its config says it, by the same name as everywhere."""
    images = torch.randn(1, 3, 32, 32)
    model = create_model("swinv2_nano_window4_32").eval()
    assert {layer.kernel.name for layer in model.modules() if isinstance(layer, MultiHeadAttention)} == {"cosine"}
    assert model.encoder.blocks[0].attention.attention.key.bias is None
    again = create_model("swinv2_nano_window4_32", attention="cosine").eval()
    again.load_state_dict(model.state_dict())
    assert_close(again(images), model(images))
