"""Relevance: hand-computed on two tokens, the same as with plain attention's own gradients, and no trace left on the model."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import look, relevance
from vitrail.explain.evaluating import choose_target
from vitrail.nn.attention.kernel import EVERYTHING, Kernel
from vitrail.nn.functional.attention import attention_weights

IMAGE = torch.tensor([[[[1.0, 2.0]]]])


def test_two_tokens_and_two_layers_by_hand_with_a_class_token(two_tokens):
    """x_0 = (1, 2), out_1 = 3/2 for both, x_1 = (5/2, 7/2), y = x_2[0].

    Layer 2: only row 0 matters, ∇A_0j = x_1[j], times A = 1/2: Ā_2 = [5/4 7/4; 0 0].
    Layer 1: ∂y/∂out_1 = (1 + 1/2, 1/2), ∇A_ij = that times x_0[j]: Ā_1 = [3/4 3/2; 1/4 1/2].
    R_1 = I + Ā_1 = [7/4 3/2; 1/4 3/2]; Ā_2 R_1 has row 0: (5/4·7/4 + 7/4·1/4, 5/4·3/2 + 7/4·3/2) = (21/8, 9/2).
    """
    assert_close(relevance(two_tokens("class"), IMAGE), torch.tensor([[[1.5 + 4.5]]]))


def test_only_what_speaks_for_the_class_counts(two_tokens):
    """The other class has y' = -y: every gradient is negative, and nothing of the class token's row is left."""
    assert_close(relevance(two_tokens("class"), IMAGE, torch.tensor([1])), torch.zeros(1, 1, 1))


def test_two_tokens_by_hand_with_the_mean_and_with_attention_pooling(two_tokens):
    """y = (x_2[0] + x_2[1]) / 2.

    Layer 2: ∇A_ij = x_1[j] / 2, Ā_2 = [5/8 7/8; 5/8 7/8]. Layer 1: ∂y/∂x_1 = (1, 1), Ā_1 = [1/2 1; 1/2 1].
    R_1 = [3/2 1; 1/2 2], R_2 = R_1 + Ā_2 R_1 with Ā_2 R_1 = (15/16 + 7/16, 5/8 + 14/8) in both rows = (11/8, 19/8).
    Mean of the rows, less the mean of I: (1/2 + 11/8, 1 + 19/8). Attention pooling with even weights: ∇a = x_2 = (11/2, 13/2), r = x_2 / 2.
    """
    rows = torch.tensor([[1.5 + 11 / 8, 1 + 19 / 8], [0.5 + 11 / 8, 2 + 19 / 8]])
    assert_close(relevance(two_tokens("mean"), IMAGE), (rows.mean(0) - 0.5)[None, None])
    assert_close(relevance(two_tokens("attention"), IMAGE), (torch.tensor([5.5, 6.5]) / 2 @ rows)[None, None])


def reference(model, images, target):
    """The same with attention written out and torch's own gradient of the weights: nothing of `explain` in it."""
    kept = []

    class Plain(Kernel):
        name, supports = "plain", EVERYTHING

        def forward(self, q, k, v, scope):
            position = scope.position
            bias = position.bias(q, k, scope) if position is not None and position.biases else None
            weights = attention_weights(q, k, bias=bias)
            weights.retain_grad()
            kept.append(weights)
            return weights @ v if position is None or not position.reads else weights @ v + position.read(weights, scope)

    for block in model.encoder.blocks:
        block.attention.kernel = Plain()
    logits = model(images)
    logits.gather(1, target[:, None]).sum().backward()
    chain = torch.eye(kept[0].shape[-1]).expand(len(images), -1, -1)
    for weights in kept:
        chain = chain + (weights.grad * weights).clamp(min=0).mean(1).detach() @ chain
    return chain


@pytest.mark.parametrize("position", ["learned_1d", "rotary", "relative_table", "relative_shaw", "relative_shaw_1d"])
def test_fused_attention_gives_what_plain_attention_does(position):
    torch.manual_seed(0)
    model = vt.create_model(
        "vit_tiny_patch16_224", width=24, heads=3, depth=3, image_size=(24, 40), patch=8, prefix=2, num_classes=5, position=position
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    images, target = torch.randn(2, 3, 24, 40), torch.tensor([4, 1])
    found = relevance(model, images, target)
    expected = reference(model.eval(), images, target)[:, 0, 2:].reshape(2, 3, 5)
    assert found.max() > 1e-3
    assert_close(found, expected, atol=1e-6, rtol=1e-3)


@pytest.fixture
def model():
    return vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=3)


def test_the_default_class_is_the_most_likely_one(model):
    images = torch.randn(3, 3, 16, 24)
    answer = model.eval()(images).argmax(1)
    assert_close(relevance(model, images), relevance(model, images, answer))
    assert not torch.allclose(relevance(model, images), relevance(model, images, (answer + 1) % 3))


def test_nothing_is_left_on_the_model_whatever_the_callers_mode(model):
    images = torch.randn(2, 3, 16, 24)
    model.train()
    model.encoder.blocks[0].eval()  # a module with a mode of its own
    model.head.output.weight.grad = before = torch.randn_like(model.head.output.weight)
    expected = relevance(model, images)
    assert model.head.output.weight.grad is before
    assert all(p.grad is None for p in model.parameters() if p is not model.head.output.weight)
    assert model.training
    assert not model.encoder.blocks[0].training
    assert not model.encoder.blocks[0].mlp.training
    with torch.no_grad():
        assert_close(relevance(model, images), expected)
    with torch.inference_mode():
        assert_close(relevance(model, images.clone()), expected)  # images made within it
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert_close(relevance(model, images), expected)
    assert not images.requires_grad


def test_images_one_by_one_or_together(model):
    images = torch.randn(3, 3, 16, 24)
    assert_close(relevance(model, images), torch.cat([relevance(model, image[None]) for image in images]), atol=1e-6, rtol=1e-4)


def test_what_cannot_be_explained_says_so(model):
    images = torch.randn(2, 3, 16, 24)
    with pytest.raises(vt.VitrailError, match="classes from 0 to 2, got"):
        relevance(model, images, torch.tensor([0, 3]))
    with pytest.raises(vt.VitrailError, match="one class for each of 2 images"):
        choose_target(model, torch.zeros(2, 3), torch.tensor([0]))
    with pytest.raises(vt.VitrailError, match="num_classes is 0"):
        relevance(vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=0), images)
    with torch.inference_mode():
        spoiled = vt.create_model("vit_nano_conv", image_size=(16, 24), num_classes=3)
    with pytest.raises(vt.VitrailError, match=r"made within torch.inference_mode"):
        relevance(spoiled, images)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"lift": "attention", "overlap": 0, "patch": 1}, "lifts its tokens"),
        ({"depths": (1, 1), "windows": (0, 0)}, "pools its tokens"),
    ],
)
def test_a_chain_that_does_not_lead_through_is_refused_in_one_line_and_attention_is_not(options, why):
    settings = {"depths": (1,), "windows": (3,), "image_size": 8, "num_classes": 2, "patch": 2, **options}
    net, images = vt.create_model("gsa_p4_small", **settings), torch.randn(2, 1, 8, 8)
    assert "relevance" not in vt.explain.methods_for(net)
    assert "rollout" not in vt.explain.methods_for(net)
    for method in (relevance, lambda net, images: vt.explain.explain_map(net, images, "rollout")):
        with pytest.raises(vt.VitrailError, match=why):
            method(net, images)
    seen = look(net, images)
    assert vt.explain.attention_map(seen, layer=0, query=(1, 2)).shape[1:] == vt.explain.received_map(seen, layer=0).shape[1:]
    assert_close(vt.explain.attention_map(seen, layer=0, query=(1, 2)).sum((1, 2)), torch.ones(2))
