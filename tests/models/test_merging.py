"""Token merging in a whole Vision Transformer: the option, what it refuses, maps, explanations, and files for other runtimes."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain.cells import spread, spread_weights, to_grid
from vitrail.explain.distances import attention_distance
from vitrail.explain.look import look
from vitrail.explain.maps import attention_map, pooling_map
from vitrail.explain.methods import explain_map, methods_for
from vitrail.explain.steps import six_steps
from vitrail.models.backbones import resolve_patches
from vitrail.models.catalogue import rebuild, rebuild_merging
from vitrail.ragged import Ragged
from vitrail.records import to_record
from vitrail.run.cost import forward_macs

TINY = {"width": 24, "depth": 3, "heads": 3, "image_size": 16, "in_channels": 1, "num_classes": 5}


def tiny(**options):
    torch.manual_seed(0)
    return vt.create_model("vit_nano_patch2_32", **TINY | options).eval()


def test_merge_0_is_the_plain_model_and_changes_no_weight():
    model = tiny()
    model.labels = tuple("abcde")
    images = torch.randn(2, 1, 16, 16)
    merging = rebuild(model, merge=13)
    assert merging.config.merge == 13
    assert merging.labels == model.labels
    assert merging.state_dict().keys() == model.state_dict().keys()
    assert torch.equal(rebuild(merging, merge=0).eval()(images), model(images))
    assert merging.eval().forward_features(images).x.shape[1] == 64 - 13 - 13 - 13
    assert not torch.equal(merging(images), model(images))
    assert rebuild_merging(model, None) is model


@pytest.mark.parametrize("pool, prefix", [("class", 1), ("mean", 0), ("attention", 2)])
def test_an_image_of_few_colors_loses_nothing(pool, prefix):
    """Without positions, patches that look alike are the same tokens: here 32 of each of two kinds, side by side."""
    model = tiny(position="none", pool=pool, prefix=prefix)
    images = torch.zeros(1, 1, 16, 16)
    images[..., 8:, :] = 1.0
    assert_close(rebuild(model, merge=20).eval()(images), model(images))


def test_it_learns_with_merging_and_dropping():
    model = tiny(merge=7, token_keep=0.5, drop_path=0.1).train()
    model(torch.randn(4, 1, 16, 16)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model.forward_features(torch.randn(4, 1, 16, 16)).x.shape[1] == 32 - 21


def test_what_cannot_merge_is_refused_in_one_line():
    with pytest.raises(VitrailError, match="merge cannot be negative, got -1"):
        tiny(merge=-1)
    for name in ("rotary", "alibi", "relative_table", "conditional", "absolute_qk"):
        with pytest.raises(VitrailError, match=f"merge=4: {name} asks in every layer"):
            tiny(merge=4, position=name)
    with pytest.raises(VitrailError, match="learned_1d asks in every layer"):
        tiny(merge=4, position_where="layers")
    with pytest.raises(VitrailError, match="images of one size"):
        tiny(merge=4)(Ragged.join([torch.randn(1, 16, 16), torch.randn(1, 8, 16)]))
    with pytest.raises(VitrailError, match="MAE draws or names every patch"):
        resolve_patches(to_record(tiny(merge=4).config), 0.75, who="MAE")
    with pytest.raises(VitrailError, match="kind resnet merges no tokens"):
        rebuild_merging(vt.create_model("resnet20_32"), 4)


def test_maps_have_every_cell():
    model = vt.create_model("vit_nano_patch2_32", features_only=True, merge=13, **TINY).eval()
    assert [found.shape for found in model(torch.randn(2, 1, 16, 16))] == [(2, 24, 8, 8)] * 3


def test_operations_are_counted():
    config = tiny().config
    plain = 64 * (4 * 24 * 24 + 2 * 64 * 24 + 2 * 24 * 48)
    assert forward_macs(config) - forward_macs(replace(config, depth=2)) == plain
    expected = forward_macs(config) - 3 * plain
    for n in (64, 48, 32):
        expected += 4 * n * 24 * 24 + 2 * n * n * 24 + (n // 2) ** 2 * 8 + 2 * (n - 16) * 24 * 48
    assert forward_macs(replace(config, merge=16)) == expected


def test_recorded_rows_sum_to_one_and_maps_cover_the_image():
    model, images = tiny(merge=13, pool="class", prefix=1), torch.randn(2, 1, 16, 16)
    seen = look(model, images)
    assert [weights.shape[-1] for weights in seen.seen.layers] == [65, 52, 39]
    for weights, values, out in zip(seen.seen.layers, seen.seen.values, seen.seen.outputs, strict=True):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        assert_close(weights @ values, out)
    last = attention_map(seen)
    assert last.shape == (2, 8, 8)
    assert_close(last.sum((1, 2)), 1 - seen.seen.layers[-1].mean(1)[:, 0, 0])
    assert attention_distance(seen).shape == (3, 3)
    assert_close(explain_map(model, images, "attention").sum((1, 2)), torch.ones(2))
    assert "rollout" not in methods_for(model)
    with pytest.raises(VitrailError, match="merges tokens in every block"):
        explain_map(model, images, "rollout")
    with pytest.raises(VitrailError, match="merged"):
        attention_map(seen, query=(1, 2))
    with pytest.raises(VitrailError, match="merged"):
        six_steps(model, images[:1])
    assert_close(pooling_map(tiny(merge=13, pool="attention"), images).sum((1, 2)), torch.ones(2))


def test_spreading_shares_what_a_token_has():
    model, images = tiny(merge=13, pool="class", prefix=1), torch.randn(2, 1, 16, 16)
    tokens = look(model, images).tokens
    shares = torch.rand(2, tokens.x.shape[1])
    cells = to_grid(shares, tokens.places).flatten(1)
    source = tokens.places.source()
    for one, cell in ((0, 5), (1, 63)):
        token = int(source[one, cell]) + 1
        assert_close(cells[one, cell], shares[one, token] / tokens.sizes[one, token])
    assert_close(spread(shares, tokens.places).sum(1), shares.sum(1))
    weights = torch.rand(2, 3, tokens.x.shape[1], tokens.x.shape[1]).softmax(-1)
    every = spread_weights(weights, tokens.places)
    assert every.shape == (2, 3, 65, 65)
    assert_close(every.sum(-1), torch.ones(2, 3, 65))
    assert_close(every[:, :, 0], torch.stack([spread(weights[:, head, 0], tokens.places) for head in range(3)], dim=1))


@pytest.mark.compiled
def test_export_with_a_free_batch():
    model = tiny(merge=13, prefix=1, pool="class")
    program = torch.export.export(model, (torch.randn(2, 1, 16, 16),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    images = torch.randn(5, 1, 16, 16)
    assert_close(program.module()(images), model(images))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")
def test_onnx_runtime_gives_the_same_answers(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = tiny(merge=13, pool="attention", depth=2)
    free = ({0: torch.export.Dim("batch", min=1)},)
    torch.onnx.export(model, (torch.randn(2, 1, 16, 16),), tmp_path / "m.onnx", dynamo=True, dynamic_shapes=free, verbose=False)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    images = torch.randn(5, 1, 16, 16)
    [found] = session.run(None, {session.get_inputs()[0].name: images.numpy()})
    assert_close(torch.from_numpy(found), model(images).detach(), atol=1e-5, rtol=1e-5)
