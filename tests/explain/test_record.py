"""Recording: rows sum to 1, weights times values equal the layer's output, nothing changes, threads do not mix."""

import threading

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.nn.attention.kernel import Kernel
from vitrail.nn.attention.multi_head import MultiHeadAttention, merge_heads
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.scope import OPEN
from vitrail.tokens import Tokens

OPTIONS = {"width": 48, "heads": 3, "depth": 4, "image_size": (32, 48), "num_classes": 7}


@pytest.fixture
def model():
    return vt.create_model("vit_tiny_patch16_224", **OPTIONS).eval()


def test_rows_sum_to_one_and_recording_changes_nothing(model):
    images = torch.randn(2, 3, 32, 48)
    with torch.no_grad():
        before = model(images)
        with vt.explain.record(model) as seen:
            during = model(images)
    assert torch.equal(before, during)
    assert len(seen.layers) == 4
    for weights in seen.layers:
        assert weights.shape == (2, 3, 7, 7)
        assert_close(weights.sum(-1), torch.ones(2, 3, 7))


def test_recorded_weights_times_recorded_values_equal_the_layers_output(model):
    outputs = {}
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    for name, module in layers:
        module.register_forward_hook(lambda module, args, out, name=name: outputs.__setitem__(name, out))
    with torch.no_grad(), vt.explain.record(model) as seen:
        model(torch.randn(2, 3, 32, 48))
    assert seen.names == [name for name, _ in layers]
    for (name, layer), weights, values in zip(layers, seen.layers, seen.values, strict=True):
        assert_close(layer.output(merge_heads(weights @ values)), outputs[name], atol=1e-5, rtol=1e-5)


def test_a_new_pass_replaces_the_last_and_nothing_stays_behind(model):
    images = torch.randn(2, 3, 32, 48)
    with vt.explain.record(model) as seen:
        model(torch.zeros_like(images))
        model(images)
    with vt.explain.record(model, layers=[-1, 1]) as some:
        model(images)
    assert len(seen.layers) == 4
    assert [name.split(".")[2] for name in some.names] == ["1", "3"]
    assert_close(some.layers[1], seen.layers[3])
    model(torch.zeros_like(images))
    assert_close(some.layers[1], seen.layers[3])


def test_another_model_is_not_recorded(model):
    other = vt.create_model("vit_tiny_patch16_224", **OPTIONS)
    with vt.explain.record(model) as seen:
        other(torch.randn(1, 3, 32, 48))
    assert seen.layers == []


def test_one_thread_records_while_another_predicts(model):
    images, other = torch.randn(1, 3, 32, 48), torch.randn(1, 3, 32, 48)
    with torch.no_grad(), vt.explain.record(model) as alone:
        expected = model(images)
    answer, stop, wrong = model(other).detach(), threading.Event(), []

    def predict():
        with torch.no_grad():
            while not stop.is_set():
                if not torch.allclose(model(other), answer, atol=1e-6):
                    wrong.append("a prediction changed")

    thread = threading.Thread(target=predict)
    thread.start()
    try:
        for _ in range(20):
            with torch.no_grad(), vt.explain.record(model) as seen:
                assert_close(model(images), expected)
            assert len(seen.layers) == 4
            assert_close(seen.layers[2], alone.layers[2])
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_some_heads_and_queries_are_rows_of_the_whole_and_keep_nothing_else(model):
    images = torch.randn(2, 3, 32, 48)
    with torch.no_grad(), vt.explain.record(model) as whole:
        model(images)
    with torch.no_grad(), vt.explain.record(model, layers=[1, -1], heads=[-1, 0, 2], queries=[5, -7]) as some:
        model(images)
    assert some.layers[0].shape == (2, 2, 2, 7)  # heads 2 and 0, tokens 5 and 0, in this order
    for entry, layer in enumerate((1, 3)):
        assert some.find(layer) == some.find(layer - 4) == entry
        assert_close(some.layers[entry], whole.layers[layer][:, [2, 0]][:, :, [5, 0]])
        assert_close(some.layers[entry] @ some.values[entry], some.outputs[entry], atol=1e-6, rtol=1e-5)
        assert_close(some.outputs[entry], whole.outputs[layer][:, [2, 0]][:, :, [5, 0]])
        for kept in (some.layers[entry], some.values[entry], some.outputs[entry]):
            assert kept.untyped_storage().nbytes() == kept.nbytes  # no view that holds the whole


@pytest.mark.parametrize("causal", [False, True])
def test_masks_are_cut_with_the_queries(causal):
    stack = PlainEncoder([EncoderBlock(12, attention=MultiHeadAttention(12, heads=2), mlp=torch.nn.Identity())], causal=causal)
    tokens = Tokens(torch.randn(2, 5, 12), grid=(5,), mask=torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    segments = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
    for options in ({}, {"segments": segments}):
        with torch.no_grad(), vt.explain.record(stack) as whole:
            stack(tokens, **options)
        with torch.no_grad(), vt.explain.record(stack, heads=[1], queries=[4, 2]) as some:
            stack(tokens, **options)
        assert (whole.layers[0] == 0).any()
        assert_close(some.layers[0], whole.layers[0][:, [1]][:, :, [4, 2]])


def test_recording_holds_no_graph(model):
    with vt.explain.record(model) as seen:
        model(torch.randn(1, 3, 32, 48))
    for kept in (*seen.layers, *seen.values, *seen.outputs):
        assert not kept.requires_grad


def test_weights_are_the_same_with_a_gradient_and_without():
    q, k = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4)
    before = q.clone(), k.clone()
    without = SoftmaxKernel().weights(q, k, OPEN)
    assert torch.equal(without, SoftmaxKernel().weights(q.clone().requires_grad_(), k, OPEN))
    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])


class Opaque(Kernel):
    name = "opaque"
    supports = frozenset()

    def forward(self, q, k, v, scope):
        return v


def test_what_cannot_be_recorded_says_so(model):
    with pytest.raises(vt.VitrailError, match="no attention layers"), vt.explain.record(torch.nn.Linear(2, 2)):
        pass
    with pytest.raises(vt.VitrailError, match="layer 4 does not exist: the model has 4"), vt.explain.record(model, layers=[4]):
        pass
    with pytest.raises(vt.VitrailError, match=r"head 3 does not exist: encoder.blocks.0.attention has 3"):  # noqa: SIM117
        with vt.explain.record(model, heads=[3]):
            pass
    with (
        vt.explain.record(model, queries=[7]),
        pytest.raises(vt.VitrailError, match=r"query 7 does not exist: .* has 7, 0 to 6"),
    ):
        model(torch.randn(1, 3, 32, 48))
    model.encoder.blocks[2].attention.kernel = Opaque()
    with pytest.raises(vt.VitrailError, match="opaque attention has no weights"), vt.explain.record(model):
        pass
