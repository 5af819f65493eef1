"""The distillation token: two heads, whose mean is the answer, and everything else with one more prefix token."""

import re

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain import explain_map
from vitrail.explain.lens import logit_lens
from vitrail.explain.look import look
from vitrail.explain.steps import six_steps
from vitrail.models.catalogue import count_parameters, rebuild
from vitrail.ragged import Ragged

TINY = {"width": 24, "depth": 2, "heads": 3, "patch": 4, "image_size": (8, 12), "num_classes": 5}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return vt.create_model("deit_tiny_distilled_patch16_224", **TINY).eval()


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def test_the_answer_is_the_mean_of_both_heads(model, images):
    first, second = model.forward_both(images)
    tokens = model.forward_features(images)
    assert tokens.prefix == 2
    assert_close(first, model.head.output(tokens.x[:, 0]))
    assert_close(second, model.distilled_head(tokens.x[:, 1]))
    assert torch.equal(model(images), (first + second) / 2)
    assert (first - second).abs().max() > 1e-3
    assert_close(model.forward_head(tokens, pre_logits=True), tokens.x[:, :2].mean(1))


def test_without_the_token_it_is_the_plain_vit():
    torch.manual_seed(0)
    plain = vt.create_model("vit_tiny_patch16_224", **TINY)
    torch.manual_seed(0)
    deit = vt.create_model("deit_tiny_patch16_224", **TINY)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), deit.parameters(), strict=True))
    with pytest.raises(VitrailError, match="no distillation token"):
        deit.forward_both(torch.zeros(1, 3, 8, 12))


def test_the_token_costs_its_rows_and_a_head(model):
    plain = vt.create_model("deit_tiny_patch16_224", **TINY)
    assert count_parameters(model) - count_parameters(plain) == 2 * 24 + 24 * 5 + 5


def test_both_heads_are_reset(model, images):
    before = model.distilled_head.weight.clone()
    model.reset_classifier(3, labels=("a", "b", "c"))
    assert [logits.shape for logits in model.forward_both(images)] == [(2, 3), (2, 3)]
    assert model.distilled_head.weight.shape != before.shape
    model.reset_classifier(0)
    assert_close(model(images), model.forward_features(images).x[:, :2].mean(1))


def test_saved_and_loaded(model, images, tmp_path):
    vt.save(model, tmp_path / "m")
    again = vt.load(tmp_path / "m")
    assert again.config.distilled
    assert torch.equal(again(images), model(images))
    assert_close(rebuild(model, drop_path=0.3).eval()(images), model(images))


def test_packed_and_with_tokens_dropped(model, images):
    other = torch.randn(3, 4, 16)
    ragged = Ragged.join([images[0], other, images[1]])
    first, second = model.forward_both(ragged)
    assert_close(torch.stack([first[0], first[2]]), model.forward_both(images)[0], atol=1e-5, rtol=1e-5)
    assert_close((first + second) / 2, model(ragged))
    assert_close(second[1], model.forward_both(other[None])[1][0], atol=1e-5, rtol=1e-5)
    dropping = rebuild(model, token_keep=0.5).train()
    assert dropping.forward_features(images).x.shape[1] == 2 + 3
    assert dropping.forward_both(images)[1].shape == (2, 5)


@pytest.mark.parametrize("method", ["relevance", "rollout", "attention", "gradient", "occlusion"])
def test_explained(model, images, method):
    assert_close(explain_map(model, images, method).sum((1, 2)), torch.ones(2))


def test_what_is_read_is_half_of_each_token(model, images):
    seen = look(model, images)
    assert_close(seen.reading, torch.eye(8)[:2].mean(0).expand(2, -1))
    assert_close(seen.logits, model(images))
    assert seen.seen.layers[0].shape == (2, 3, 8, 8)
    assert_close(logit_lens(model, images).whole[-1], model(images).softmax(-1))
    assert six_steps(model, images[:1]).names[:3] == ("class", "distillation", "(0, 0)")


def test_relevance_follows_the_token_that_decides(model, images):
    """With a class head that says nothing, the relevance is that of the distillation token's row alone, and the other way round."""
    with torch.no_grad():
        for head in (model.head.output, model.distilled_head):
            kept = head.weight.clone()
            head.weight.zero_()
            assert explain_map(model, images, "relevance", torch.tensor([1, 2])).std() > 0
            head.weight.copy_(kept)


@pytest.mark.parametrize(
    "changes, words", [({"prefix": 1}, "at least 2, got 1"), ({"pool": "mean"}, "pool"), ({"head_hidden": 7}, "head_hidden")]
)
def test_refusals(changes, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("deit_tiny_distilled_patch16_224", **TINY | changes)


def test_transformers_parity(model, images):
    """The same numbers as transformers' two-headed DeiT, whose weights are copied."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DeiTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96, image_size=(8, 12), patch_size=4,
        num_labels=5, layer_norm_eps=1e-6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(2)
    theirs = transformers.DeiTForImageClassificationWithTeacher(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.2)
    model.load_state_dict(copied(theirs))  # strict: every weight of ours has its twin
    with torch.no_grad():
        expected = theirs(pixel_values=images)
        first, second = model.forward_both(images)
    assert_close(first, expected.cls_logits, atol=1e-5, rtol=1e-5)
    assert_close(second, expected.distillation_logits, atol=1e-5, rtol=1e-5)
    assert_close(model(images), expected.logits, atol=1e-5, rtol=1e-5)


def copied(theirs):
    """Their names to ours, whichever of its two schemes of names this version of transformers has."""
    state = {name.removeprefix("deit."): tensor for name, tensor in theirs.state_dict().items()}
    table = state["embeddings.position_embeddings"][0]
    ours = {
        "prefix.tokens": torch.cat([state["embeddings.cls_token"][0], state["embeddings.distillation_token"][0]]),
        "position.prefix_table": table[:2],
        "position.table": table[2:],
        "tokenizer.project.weight": state["embeddings.patch_embeddings.projection.weight"].flatten(1),
        "tokenizer.project.bias": state["embeddings.patch_embeddings.projection.bias"],
    }
    renamed = {
        "attention.attention.query": "attention.query", "attention.q_proj": "attention.query",
        "attention.attention.key": "attention.key", "attention.k_proj": "attention.key",
        "attention.attention.value": "attention.value", "attention.v_proj": "attention.value",
        "attention.output.dense": "attention.output", "attention.o_proj": "attention.output",
        "intermediate.dense": "mlp.expand", "mlp.fc1": "mlp.expand", "output.dense": "mlp.contract", "mlp.fc2": "mlp.contract",
        "layernorm_before": "attention_norm", "layernorm_after": "mlp_norm",
    }  # fmt: skip
    for name, tensor in state.items():
        found = re.fullmatch(r"(?:encoder\.layer|layers)\.(\d+)\.(.+)\.(weight|bias)", name)
        if found:
            ours[f"encoder.blocks.{found[1]}.{renamed[found[2]]}.{found[3]}"] = tensor
    for kind in ("weight", "bias"):
        ours[f"encoder.norm.{kind}"] = state[f"layernorm.{kind}"]
        ours[f"head.output.{kind}"] = state[f"cls_classifier.{kind}"]
        ours[f"distilled_head.{kind}"] = state[f"distillation_classifier.{kind}"]
    return ours
