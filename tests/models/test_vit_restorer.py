import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.nn.functional.bicubic import resize_bicubic
from vitrail.nn.functional.patches import patchify, unpatchify

TINY = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "image_size": 12, "in_channels": 2, "out_channels": 2}


def tiny(**options):
    torch.manual_seed(0)
    model = vt.create_model("vit_restorer_nano", **{**TINY, **options}).eval()
    torch.nn.init.normal_(model.head.output.weight, std=0.3)  # a new one begins with zeros
    return model


@pytest.mark.parametrize("size", [(1, 1), (3, 9), (12, 12), (5, 22)])
@pytest.mark.parametrize(
    "options", [{}, {"scale": 2}, {"position": "learned_1d"}, {"position": "rotary"}, {"position": "relative_table"}]
)
def test_any_size(size, options):
    model = tiny(**options)
    out = model(torch.rand(2, 2, *size))
    assert out.shape == (2, 2, *(model.scale * side for side in size))
    assert out.isfinite().all()
    assert model.reach is None


def test_tokens_are_patches_of_the_residual():
    """Without blocks that change anything, each patch of the output depends on its own patch alone, as one matrix says."""
    model, images = tiny(position="none"), torch.rand(1, 2, 8, 12)
    for block in model.encoder.blocks:
        for layer in (block.attention.output, block.mlp.contract):
            torch.nn.init.zeros_(layer.weight)
    tokens = model.encoder.norm(model.tokenizer.project(patchify(images, (4, 4))))
    expected = images + unpatchify(model.head.output(tokens), (4, 4), (2, 3))
    assert_close(model(images), expected)


def test_a_new_one_gives_what_it_was_given():
    images = torch.rand(1, 3, 9, 10)
    assert_close(vt.create_model("vit_restorer_nano", depth=1)(images), images)
    assert_close(vt.create_model("vit_restorer_nano", depth=1, scale=2)(images), resize_bicubic(images, 2.0))


def test_attention_is_recorded():
    with vt.explain.record(model := tiny()) as seen:
        model(torch.rand(1, 2, 8, 11))
    assert [tuple(weights.shape) for weights in seen.layers] == [(1, 3, 6, 6)] * 2


def test_saved_and_loaded(tmp_path):
    model, images = tiny(degradation="jpeg10", position="learned"), torch.rand(1, 2, 5, 6)
    loaded = vt.load(vt.save(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert loaded.config.position == "learned_1d"
    assert loaded(images).equal(model(images))


def test_a_row_of_the_table(command):
    assert command("models", "vit_restorer_nano").out.splitlines()[1].split()[2:] == [
        "64",
        "3",
        "4",
        "4",
        "restoration",
        "vit_restorer",
    ]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"patch": 0}, "patch must be at least 1"), ({"depth": 1001}, "at most 1000"), ({"position": "north"}, "position"),
        ({"image_size": 0}, "image_size must be positive"), ({"out_channels": 3}, "out_channels 3"), ({"scale": 0}, "scale must be"),
    ],
)  # fmt: skip
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        tiny(**options)
