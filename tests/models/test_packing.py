"""Images of different sizes, packed into one sequence or padded to the longest: each as if it were alone."""

import contextlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.packing import packed_features
from vitrail.models.parts import POSITIONS
from vitrail.nn.blocks.residual import DropPath
from vitrail.ragged import Ragged

PATCH, WIDTH = 4, 24
SIZES = [(3, 5), (1, 1), (5, 3), (3, 5), (4, 6), (2, 7)]  # in patches; two alike, one turned
WAYS = ["forward_packed", "forward_padded"]


def model(position="learned_1d", **options):
    chosen = {
        "width": WIDTH,
        "heads": 2,
        "depth": 2,
        "mlp_ratio": 1.5,
        "patch": PATCH,
        "num_classes": 5,
        "image_size": (12, 20),
    }
    net = vt.create_model("vit_tiny_patch16_224", position=position, **{**chosen, **options})
    for parameter in net.parameters():  # 0.02 would hide mistakes
        nn.init.normal_(parameter, std=0.3)
    return net.eval()


def images(sizes=SIZES, channels=3):
    return [torch.randn(channels, PATCH * rows, PATCH * columns) for rows, columns in sizes]


@contextlib.contextmanager
def count_calls(module):
    calls = []
    hook = module.register_forward_pre_hook(lambda *_: calls.append(1))
    yield calls
    hook.remove()


def alone(net, given):
    return torch.cat([net(image[None]) for image in given])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["auto", "layers", "layers_apart"])
@pytest.mark.parametrize("name", list(POSITIONS))
def test_every_position_gives_an_image_what_it_gives_it_alone(name, where, way):
    """Also for grids that no table was built for: each image's own is resized to its own grid."""
    net, given_images = model(name, position_where=where, prefix=2), images()
    with torch.no_grad():
        assert_close(getattr(net, way)(given_images), alone(net, given_images), atol=1e-5, rtol=0)


@settings(max_examples=20)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=7),
    name=st.sampled_from(list(POSITIONS)),
    prefix=st.integers(0, 2),
    rows=st.booleans(),
    pool=st.sampled_from(["class", "mean", "attention"]),
    norm=st.sampled_from(["pre", "post"]),
    way=st.sampled_from(WAYS),
)
def test_any_sizes_any_head(sizes, name, prefix, rows, pool, norm, way):
    pool = "mean" if pool == "class" and not prefix else pool
    net, given_images = model(name, prefix=prefix, prefix_rows=rows, pool=pool, norm=norm), images(sizes)
    with torch.no_grad():
        assert_close(getattr(net, way)(given_images), alone(net, given_images), atol=1e-5, rtol=0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", list(POSITIONS))
def test_gradients_are_those_of_one_at_a_time(name, way):
    net, given_images, target = model(name), images(), torch.randn(len(SIZES), 5)
    found = []
    for logits in (getattr(net, way)(given_images), alone(net, given_images)):
        net.zero_grad()
        (logits * target).mean().backward()
        found.append({key: parameter.grad.clone() for key, parameter in net.named_parameters() if parameter.grad is not None})
    assert found[0].keys() == found[1].keys()
    for key, gradient in found[1].items():
        assert_close(found[0][key], gradient, atol=1e-5, rtol=1e-4, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", list(POSITIONS))
def test_nothing_leaks_from_one_image_to_another(name, way):
    """Exactly nothing: the gradient of an image's logits in every other one's pixels is 0."""
    net, given_images = model(name), [image.requires_grad_() for image in images()]
    logits = getattr(net, way)(given_images)
    gradients = torch.autograd.grad(logits[2].square().sum(), given_images)
    assert [bool(gradient.any()) for gradient in gradients] == [number == 2 for number in range(len(SIZES))]


def test_the_tokens_are_those_of_each_image():
    net, given_images = model(prefix=3), images()
    with torch.no_grad():
        groups, places = packed_features(net, given_images)
        whole = [tokens._replace(x=row[None]) for tokens in groups for row in tokens.x]
        for image, place in zip(given_images, places, strict=True):
            expected = net.forward_features(image[None])
            assert (whole[place].grid, whole[place].prefix) == (expected.grid, 3)
            assert_close(whole[place].x, expected.x, atol=1e-5, rtol=0)


def test_a_batch_of_a_training_loop_is_packed():
    net, given_images = model(), images()
    assert torch.equal(net(Ragged.join(given_images)), net.forward_packed(given_images))


@pytest.mark.parametrize("options", [{"tokenizer": "conv"}, {"pool": "attention", "prefix": 0}, {"head_hidden": 7}])
def test_other_parts_of_a_model_in_evaluation(options):
    """Batch norm has fixed statistics then; sides of the conv tokenizer need not be multiples of its stride."""
    net = model(**options)
    given_images = [torch.randn(3, 9, 6), torch.randn(3, 4, 17)] if "tokenizer" in options else images()
    with torch.no_grad():
        assert_close(net.forward_packed(given_images), alone(net, given_images), atol=1e-5, rtol=0)


def test_a_hybrid_is_packed_too():
    net = vt.create_model("vit_base_r50_s16_224", width=24, heads=2, depth=1, num_classes=3, image_size=(32, 32)).eval()
    given_images = [torch.randn(3, 16, 32), torch.randn(3, 16, 16)]
    with torch.no_grad():
        assert_close(net.forward_packed(given_images), alone(net, given_images), atol=1e-5, rtol=0)


def test_recomputed_blocks_give_the_same_gradient():
    net, given_images, found, passes = model("relative_table").train(), images(), [], [0, 0]
    for again in (False, True):
        net.encoder.checkpointing = again
        net.zero_grad()
        out = net.forward_packed(given_images)
        with count_calls(net.encoder.blocks[0].mlp) as calls:
            out.square().sum().backward()
        passes[again] = len(calls)
        found.append([parameter.grad.clone() for parameter in net.parameters()])
    assert passes[False] == 0
    assert passes[True] > 0  # computed once more, in the backward pass
    for plain, recomputed in zip(*found, strict=True):
        assert_close(recomputed, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["learned_1d", "rotary", "relative_shaw", "conditional"])
def test_a_share_of_each_images_tokens_is_left_out_in_training(name):
    net = model(name, token_keep=0.4).train()
    groups, _ = packed_features(net, images([(3, 5), (2, 5), (3, 5)]))
    assert [tokens.x.shape[:2] for tokens in groups] == [(1, 1 + 4), (2, 1 + 6)]
    assert all(tokens.index.diff(dim=1).gt(0).all() for tokens in groups)
    assert net.forward_packed(images()).isfinite().all()


def test_stochastic_depth_leaves_out_images_one_by_one():
    x, segments = torch.ones(1, 600, 3), torch.arange(300).repeat_interleave(2)[None]
    kept = DropPath(0.25).train()(x, segments)[0].view(300, 2, 3)
    assert torch.equal(kept, kept[:, :1, :1].expand(-1, 2, 3))  # all of an image, or nothing
    values, counts = kept[:, 0, 0].unique(return_counts=True)
    assert_close(values, torch.tensor([0.0, 4 / 3]))
    assert 45 < counts[0] < 105  # 75 expected; 4 standard deviations
    net = model(drop_path=0.5, depth=3, layer_scale=0.5).train()
    torch.manual_seed(0)
    logits = net.forward_packed([torch.ones(3, 8, 8)] * 40)
    assert len({tuple(row) for row in logits.round(decimals=4).tolist()}) > 3  # what each block was left out for


@pytest.mark.parametrize(
    "given_images, line",
    [
        ([], "expected at least one image, got an empty list"),
        ([torch.zeros(3, 8, 8), torch.zeros(3, 3, 8)], "image 1: the image 3x8 is smaller than a patch 4x4"),
        ([torch.zeros(3, 9, 8)], "image 0: the image's sides 9x8 must be multiples of the patch 4x4"),
        ([torch.zeros(1, 8, 8)], r"expected images of shape \(3, h, w\), got \(1, 8, 8\) for image 0"),
        (
            [torch.zeros(3, 8, 8), torch.zeros(1, 8, 8)],
            r"expected images of shape \(3, h, w\), got \(1, 8, 8\) for image 1",
        ),
    ],
)
def test_wrong_input_is_one_line(given_images, line):
    for way in WAYS:
        with pytest.raises(VitrailError, match=f"^{line}$"):
            getattr(model(), way)(given_images)


def test_batch_norm_does_not_learn_from_packed_images():
    net = model(tokenizer="conv").train()
    with pytest.raises(VitrailError, match='batch norm, as its conv tokenizer has: take one with tokenizer="patch"'):
        net.forward_packed(images())


def test_packed_attention_is_not_recorded():
    net = model()
    with vt.explain.record(net), pytest.raises(VitrailError, match="cannot be recorded: give the model one image at a time"):
        net.forward_packed(images())


def test_padded_attention_is_recorded_without_its_padding():
    net, given_images = model("rotary"), images([(1, 2), (3, 3)])
    with torch.no_grad(), vt.explain.record(net) as padded:
        net.forward_padded(given_images)
    with torch.no_grad(), vt.explain.record(net) as single:
        net(given_images[0][None])
    assert not padded.layers[0][0, :, :, 3:].any()
    assert_close(padded.layers[1][:1, :, :3, :3], single.layers[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", list(POSITIONS))
def test_a_plain_batch_of_another_size(name):
    """Sizes the model was not built for, wider and taller; a side that is no multiple of the patch is one line."""
    net = model(name)
    for size in ((4, 4), (8, 28), (28, 8)):
        assert net(torch.randn(2, 3, *size)).isfinite().all()
    with pytest.raises(VitrailError, match="the image's sides 10x8 must be multiples of the patch 4x4"):
        net(torch.randn(2, 3, 10, 8))
