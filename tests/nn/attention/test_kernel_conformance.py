"""What every kernel promises: those of the table, whatever is in it, and the toys of tests/examples/kernels."""

import pytest
import torch
from torch.testing import assert_close

from examples.kernels import TOYS
from vitrail.errors import VitrailError
from vitrail.models.catalogue import create_model
from vitrail.models.detections import Targets
from vitrail.nn.attention.build import ATTENTION, build_attention, option_hints, supported_features
from vitrail.nn.attention.cache import SelfCache
from vitrail.nn.attention.kernel import EVERYTHING, Feature
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.spec import AttentionSpec
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.positions.position import Position
from vitrail.scope import OPEN, Scope
from vitrail.tokens import Places

WIDTH, HEADS, KEY, VALUE, CONTEXT, BATCH, N, M = 15, 3, 11, 13, 17, 2, 7, 5
NAMES = [*ATTENTION, *TOYS]

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture(params=NAMES)
def name(request):
    torch.manual_seed(0)
    return request.param


def layer_of(name, **spec):
    layer = build_attention(name, AttentionSpec(width=WIDTH, heads=HEADS, **{"key_width": KEY, "value_width": VALUE, **spec}))
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return layer.eval()


def call(layer, scope, *, n=N, seed=3):
    """The layer's output for random tokens, or the one line of a refusal."""
    x = torch.randn(BATCH, n, WIDTH, generator=torch.Generator().manual_seed(seed))
    return layer(x, scope)


def refused(layer, feature, call_it):
    """Whether the layer says that it lacks a feature, by a line that names it; else it must not be refused."""
    if feature in supported_features(layer):
        return False
    with pytest.raises(VitrailError, match=rf"attention does not support {feature}; it supports "):
        call_it()
    return True


class Reported(Position):
    """A bias that is given."""

    attends = biases = True

    def __init__(self, table):
        super().__init__()
        self.table = table

    def bias(self, q, k, scope):
        return self.table


def test_shapes(name):
    layer = layer_of(name)
    assert call(layer, OPEN).shape == (BATCH, N, WIDTH)
    assert call(layer_of(name, key_width=0, value_width=0), OPEN).shape == (BATCH, N, WIDTH)


def test_without_positions_the_order_of_tokens_means_nothing(name):
    layer, x, order = layer_of(name), torch.randn(BATCH, N, WIDTH), torch.randperm(N)
    assert_close(layer(x[:, order], OPEN), layer(x, OPEN)[:, order], atol=1e-5, rtol=1e-4)


def test_a_mask_hides_keys(name):
    layer, x = layer_of(name), torch.randn(BATCH, N, WIDTH)
    mask = torch.ones(BATCH, 1, N, N, dtype=torch.bool)
    mask[..., M:] = False
    if not refused(layer, "mask", lambda: layer(x, Scope(mask=mask))):
        other = torch.cat([x[:, :M], torch.randn(BATCH, N - M, WIDTH)], dim=1)
        assert_close(layer(x, Scope(mask=mask))[:, :M], layer(other, Scope(mask=mask))[:, :M], atol=1e-5, rtol=1e-4)
        assert_close(layer(x, Scope(mask=mask))[:, :M], layer(x[:, :M], OPEN), atol=1e-5, rtol=1e-4)


def test_causal_attention_sees_nothing_that_comes_later(name):
    layer, x = layer_of(name), torch.randn(BATCH, N, WIDTH)
    if not refused(layer, "causal", lambda: layer(x, Scope(causal=True))):
        whole, later = layer(x, Scope(causal=True)), torch.cat([x[:, :M], torch.randn(BATCH, N - M, WIDTH)], dim=1)
        assert_close(layer(later, Scope(causal=True))[:, :M], whole[:, :M], atol=1e-5, rtol=1e-4)
        assert not torch.allclose(layer(later, Scope(causal=True))[:, M:], whole[:, M:], atol=1e-3)


def test_cross_attention_reads_a_context_of_any_length(name):
    layer, x, context = layer_of(name, context_width=CONTEXT), torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, M, CONTEXT)
    if not refused(layer, "cross", lambda: layer(x, OPEN, context)):
        order = torch.randperm(M)
        found = layer(x, OPEN, context)
        assert found.shape == (BATCH, N, WIDTH)
        assert_close(layer(x, OPEN, context[:, order]), found, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(layer(x, OPEN, context + 1), found, atol=1e-3)


def test_a_bias_is_added_before_the_softmax(name):
    """So a very low one is a mask, and one that is the same for all keys of a query changes nothing."""
    layer = layer_of(name)
    table = torch.zeros(1, HEADS, N, N)
    table[..., M:] = -1e4
    if not refused(layer, "bias", lambda: call(layer, Scope(position=Reported(table)))):
        masked = call(layer, Scope(mask=table[:, :1] == 0))
        assert_close(call(layer, Scope(position=Reported(table))), masked, atol=1e-5, rtol=1e-4)
        even = torch.randn(1, HEADS, N, 1).expand(-1, -1, -1, N)
        assert_close(call(layer, Scope(position=Reported(even))), call(layer, OPEN), atol=1e-5, rtol=1e-4)


def test_weights_are_a_distribution_and_give_the_output(name):
    layer = layer_of(name)
    if not isinstance(layer, MultiHeadAttention):
        return
    q, k, v = torch.randn(BATCH, HEADS, N, KEY), torch.randn(BATCH, HEADS, M, KEY), torch.randn(BATCH, HEADS, M, VALUE)
    if "weights" not in layer.kernel.supports:
        with pytest.raises(VitrailError, match="has no weights to record"):
            layer.kernel.weights(q, k, OPEN)
        return
    mask = torch.rand(BATCH, 1, N, M) < 0.7
    mask[..., 0] = True
    for scope in (OPEN, Scope(mask=mask) if "mask" in layer.kernel.supports else OPEN):
        weights = layer.kernel.weights(q, k, scope)
        assert weights.shape == (BATCH, HEADS, N, M)
        assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, N), atol=1e-5, rtol=0)
        assert_close(weights @ v, layer.kernel(q, k, v, scope), atol=1e-5, rtol=1e-5)


def test_a_query_that_may_see_nothing_reads_0(name):
    layer = layer_of(name)
    if not isinstance(layer, MultiHeadAttention) or "mask" not in layer.kernel.supports:
        return
    q, k, v = torch.randn(BATCH, HEADS, N, KEY), torch.randn(BATCH, HEADS, M, KEY), torch.randn(BATCH, HEADS, M, VALUE)
    mask = torch.ones(1, 1, N, M, dtype=torch.bool)
    mask[..., 2, :] = False
    found = layer.kernel(q, k, v, Scope(mask=mask))
    assert found[:, :, 2].eq(0).all()
    assert found.isfinite().all()


def test_gradients_reach_every_parameter(name):
    layer, x = layer_of(name).train(), torch.randn(BATCH, N, WIDTH, requires_grad=True)
    layer(x, OPEN).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    reached = {key for key, parameter in layer.named_parameters() if parameter.grad is not None}
    expected = {key for key, _ in layer.named_parameters()}
    if name == "narrow":  # which reads neither queries nor keys
        expected = {key for key in expected if not key.startswith(("query", "key"))}
    assert reached == expected


def test_the_state_dict_is_all_there_is(name):
    layer, other = layer_of(name), layer_of(name)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(call(layer, OPEN), call(other, OPEN))


def test_step_by_step_with_a_cache_is_as_all_at_once(name):
    layer, x = layer_of(name), torch.randn(BATCH, N, WIDTH)

    def steps():
        cache = SelfCache()
        scopes = (Scope(cache=cache, causal=end - start > 1) for start, end in ((0, M), (M, M + 1), (M + 1, N)))
        parts = zip(scopes, x.split((M, 1, N - M - 1), dim=1), strict=True)
        return torch.cat([layer(part, scope) for scope, part in parts], dim=1)

    if {"causal", "cache"} <= supported_features(layer):
        with torch.no_grad():
            assert_close(steps(), layer(x, Scope(causal=True)), atol=1e-5, rtol=1e-4)
    else:
        with pytest.raises(VitrailError, match="attention does not support"):
            steps()


def test_a_key_of_several_tokens_weighs_as_they_would(name):
    layer, x = layer_of(name), torch.randn(BATCH, M, WIDTH)
    scope = Scope(mask=torch.tensor([1.0, 2.0, 1.0, 3.0, 1.0]).log().expand(BATCH, 1, 1, -1))  # added to the logits of a key
    if not refused(layer, "mask", lambda: layer(x, scope)):
        repeated = x.repeat_interleave(torch.tensor([1, 2, 1, 3, 1]), dim=1)
        assert_close(layer(x, scope), layer(repeated, OPEN)[:, [0, 1, 3, 4, 7]], atol=1e-5, rtol=1e-4)


def test_windows_of_a_grid(name):
    places, x = Places((4, 6)), torch.randn(BATCH, 24, WIDTH)
    inner = layer_of(name)
    if not refused(inner, "window", lambda: WindowedAttention(inner, window=(2, 3))):
        layer = WindowedAttention(inner, window=(2, 3))
        cells = x.view(BATCH, 2, 2, 2, 3, WIDTH).transpose(2, 3).reshape(BATCH * 4, 6, WIDTH)  # b rows columns, window
        alone = layer.attention(cells, OPEN).view(BATCH, 2, 2, 2, 3, WIDTH).transpose(2, 3).reshape(BATCH, 24, WIDTH)
        assert_close(layer(x, Scope(queries=places, keys=places)), alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("feature", sorted(EVERYTHING - {"weights"}))
def test_what_a_kernel_lacks_is_refused_when_the_layer_is_built(name, feature: Feature):
    spec = AttentionSpec(width=WIDTH, heads=HEADS, needs=frozenset({feature}))
    if feature in supported_features(layer_of(name)):
        build_attention(name, spec)
    else:
        supported = ", ".join(sorted(supported_features(layer_of(name)))) or "none"
        with pytest.raises(VitrailError, match=rf"{name} attention does not support {feature}; it supports {supported}$"):
            build_attention(name, spec)


def test_an_option_that_a_kernel_does_not_have_is_refused(name):
    known = option_hints(name)
    listed = f"it has {', '.join(known)}" if known else "it has none"
    with pytest.raises(VitrailError, match=rf'^{name} attention has no option "colour"; {listed}'):
        build_attention(name, AttentionSpec(width=WIDTH, heads=HEADS, options={"colour": 1}))
    for key in known:
        with pytest.raises(VitrailError, match=rf"^option {key} of {name} attention: expected .*, got 'much'$"):
            build_attention(name, AttentionSpec(width=WIDTH, heads=HEADS, options={key: "much"}))


# ---- in models

IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
TINY = {"width": 24, "heads": 3, "hidden": 29}


def run_vit(**attention):
    model = create_model("vit_nano_patch4_32", image_size=16, width=24, heads=3, depth=3, num_classes=5, **attention)
    return model, model(IMAGES)


def run_swin(**attention):
    size = {"width": 12, "heads": 2, "depths": (2, 2), "image_size": 16, "window": (4, 4), "num_classes": 5}
    model = create_model("swin_nano_patch2_window4_32", **size, **attention)
    return model, model(IMAGES)


def run_detr(**attention):
    backbone = dict(create_model_config("vit_nano_patch4_32"), image_size=[16, 16])
    size = {"image_size": 16, "depth": 2, "decoder_depth": 2, "queries": 7, "denoising": 8, "num_classes": 5, **TINY}
    model = create_model("detr_micro", backbone=backbone, **size, **attention)
    targets = [Targets(torch.tensor([1]), torch.tensor([[0.5, 0.5, 0.2, 0.3]]))] * 2
    return model, model(IMAGES, targets, generator=torch.Generator().manual_seed(0)).logits


def run_transformer(**attention):
    model = create_model("transformer_tiny", vocabulary=31, depth=2, decoder_depth=2, dropout=0.0, **TINY, **attention)
    words = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 0, 0]])
    return model, model(words, words)


def create_model_config(name):
    from vitrail.models.catalogue import model_config
    from vitrail.records import to_record

    return to_record(model_config(name)[1])


NEEDED = {  # by each model, in its shape above
    "vit": set(),
    "swin": {"window", "mask", "bias"},
    "detr": {"mask", "cross"},
    "transformer": {"mask", "causal", "cross", "cache"},
}
RUNS = {"vit": run_vit, "swin": run_swin, "detr": run_detr, "transformer": run_transformer}


@pytest.mark.parametrize("model", RUNS)
def test_it_runs_in_a_model_or_is_refused_by_name_when_the_model_is_built(name, model):
    run, missing = RUNS[model], NEEDED[model] - supported_features(layer_of(name))
    if missing:
        named = "|".join(sorted(missing))
        with pytest.raises(VitrailError, match=rf"^{name} attention does not support ({named}); it supports "):
            run(attention=name)
        return
    made, found = run(attention=name)
    assert found.isfinite().all()
    found.square().mean().backward()
    layers = [layer for layer in made.modules() if isinstance(layer, MultiHeadAttention)]
    if name != "whole":
        assert {layer.kernel.name for layer in layers if "backbone" not in path_of(made, layer)} == {name}


def path_of(model, layer):
    return next(path for path, module in model.named_modules() if module is layer)


def test_every_needed_feature_was_tried():
    """Of the toys one runs everywhere and one is refused by each model that needs anything."""
    assert set.union(*NEEDED.values()) <= supported_features(layer_of("carried"))
    assert all(NEEDED[model] - supported_features(layer_of("narrow")) for model in RUNS if model != "vit")
