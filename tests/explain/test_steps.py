"""The six steps with real numbers: each follows from those before, and the last is what the layer computed."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.look import look
from vitrail.explain.steps import six_steps, steps_table
from vitrail.models.parts import POSITIONS

IMAGE = torch.randn(1, 3, 24, 40, generator=torch.Generator().manual_seed(1))


def model_with(**options):
    torch.manual_seed(0)
    given = {"image_size": (24, 40), "patch": 8, "width": 24, "depth": 2, "heads": 3, "num_classes": 5, **options}
    model = vt.create_model("vit_tiny_patch16_224", **given)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def check(model, images, steps, *, layer, head, token):
    seen = look(model, images, layers=[layer]).seen
    assert_close(steps.weights, seen.layers[0][0, head, token])
    assert_close(steps.output, seen.outputs[0][0, head, token], atol=1e-5, rtol=1e-4)
    assert_close(steps.scores, steps.keys @ steps.query)
    bias = 0 if steps.bias is None else steps.bias
    assert_close(steps.scaled, steps.scores / len(steps.query) ** 0.5 + bias)
    assert_close(steps.scaled.softmax(0), steps.weights, atol=1e-6, rtol=1e-4)
    read = 0 if steps.read is None else steps.read
    assert_close(steps.weights @ steps.values + read, steps.output, atol=1e-5, rtol=1e-4)
    assert len(steps.names) == len(steps.keys) == len(steps.values)


@pytest.mark.parametrize("position", sorted(POSITIONS))
def test_every_step_follows_and_the_last_is_the_layers_output(position):
    model = model_with(position=position, prefix=2).train()
    steps = six_steps(model, IMAGE, layer=1, head=2, query=(2, 3))
    check(model, IMAGE, steps, layer=1, head=2, token=2 + 2 * 5 + 3)
    biased = position.startswith(("relative", "alibi", "continuous"))
    assert (steps.bias is not None) == biased
    assert steps.words == ("q·k / √8 + bias of the position" if biased else "q·k / √8")
    assert (steps.read is not None) == position.startswith("relative_shaw")
    assert model.training
    assert (steps.layer, steps.head, steps.asker) == (1, 2, "(2, 3)")
    assert steps.names[:4] == ("class", "register 1", "(0, 0)", "(0, 1)")


def test_the_class_token_asks_and_a_model_without_one_says_so():
    model = model_with()
    steps = six_steps(model, IMAGE, layer=-1, head=-1)
    assert (steps.layer, steps.head, steps.asker) == (1, 2, "class")
    check(model, IMAGE, steps, layer=1, head=2, token=0)
    with pytest.raises(vt.VitrailError, match="no class token: choose a patch"):
        six_steps(model_with(pool="mean", prefix=1), IMAGE)


@pytest.mark.parametrize("options", [{}, {"windows": (3,)}, {"lift": "attention", "overlap": 0, "patch": 2}])
def test_on_a_group(options):
    torch.manual_seed(0)
    model = vt.create_model(
        "gsa_p4_small", **{"width": 8, "depths": (1,), "image_size": (8, 8), "patch": 2, "overlap": 0, **options}
    )
    image = torch.randn(1, 1, 8, 8)
    steps = six_steps(model, image, layer=0, head=1, query=(1, 2))
    side = 8 if "lift" in options else 4
    check(model, image, steps, layer=0, head=1, token=side + 2)
    assert steps.asker == "(0, 1, 2)"
    assert len(steps.names) == (64 if "lift" in options else 4 * 16)  # a lifting attention's keys are one copy of the cells
    assert bool(steps.bias.isneginf().any()) == ("windows" in options)


def test_the_table_has_the_largest_weights_first():
    steps = six_steps(model_with(), IMAGE, layer=0, head=0)
    rows = steps_table(steps, count=4)
    assert [row.weight for row in rows] == sorted(steps.weights.tolist(), reverse=True)[:4]
    best = steps.names.index(rows[0].name)
    assert rows[0].score == float(steps.scores[best])
    assert rows[0].length == pytest.approx(float(steps.weights[best] * steps.values[best].norm()))
    assert len(steps_table(steps, count=99)) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 2}, "layer 2 does not exist"),
        ({"head": 3}, "head 3 does not exist"),
        ({"query": (3, 0)}, r"\(3, 0\) is not on the grid"),
    ],
)
def test_what_does_not_exist_is_refused(options, message):
    with pytest.raises(vt.VitrailError, match=message):
        six_steps(model_with(), IMAGE, **options)
