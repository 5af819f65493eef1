"""Language models: parity with GPT-2, who sees whom, batches, decoding with and without a cache for every position scheme."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.parts import POSITIONS
from vitrail.special_tokens import BEGIN, PAD

SIZES = {"vocabulary": 37, "width": 24, "depth": 2, "heads": 2, "hidden": 31, "longest": 19, "dropout": 0.0}
IDS = torch.tensor([[1, 20, 21, 22, 23, 24], [1, 30, 31, PAD, PAD, PAD], [1, 25, 26, 27, 28, PAD]])
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def model(name="gpt_tiny", **options):
    torch.manual_seed(1)
    net = vt.create_model(name, **{**SIZES, **options}).eval()
    for key, parameter in net.named_parameters():
        if "position" in key:
            nn.init.normal_(parameter, std=0.3)
    return net


def gradients(net, row, place):
    seen = []
    hook = net.words.register_forward_hook(lambda _, __, tokens: seen.append(tokens.x) or tokens.x.retain_grad())
    net(IDS)[row, place].square().sum().backward()
    hook.remove()
    return seen[0].grad.abs().sum(-1)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("causal", [True, False])
def test_who_sees_whom(name, causal):
    found = gradients(model(position=name, causal=causal), 2, 2)
    expected = torch.arange(6) <= 2 if causal else IDS[2] != PAD
    assert torch.equal(found[2] > 0, expected)
    assert (found[:2] == 0).all()


@pytest.mark.parametrize("name, kind", [*((name, "bert_tiny") for name in POSITIONS), ("learned_1d", "gpt_tiny")])
def test_order_and_padding_of_a_batch_change_nothing(name, kind):
    net = model(kind, position=name)
    with torch.no_grad():
        together = net(IDS)
        assert_close(net(IDS[[2, 0, 1]]), together[[2, 0, 1]], **CLOSE)
        for row, ids in enumerate(IDS):
            alone = ids[ids != PAD][None]
            assert_close(net(alone)[0], together[row, : alone.shape[1]], **CLOSE)


@pytest.mark.parametrize("name", POSITIONS)
def test_a_cache_changes_nothing(name):
    net = model(position=name)
    written = {}
    for cached in (True, False):
        state, ids, logits = net.begin(3, cached=cached), torch.tensor([[BEGIN], [7], [9]]), []
        with torch.no_grad():
            for _ in range(12):
                logits.append(net.step(ids, state))
                ids = torch.cat([ids, logits[-1].argmax(1, keepdim=True)], 1)
        written[cached] = ids, torch.stack(logits, 1)
    assert torch.equal(written[True][0], written[False][0])
    assert_close(written[True][1], written[False][1], **CLOSE)
    assert_close(net(written[True][0])[:, :-1].detach(), written[True][1], **CLOSE)


def test_rows_are_dropped():
    net, state = model(), None
    state = net.begin()
    net.step(IDS[:, :2], state)
    state.reorder(torch.tensor([2, 0]))
    assert_close(net.step(IDS[[2, 0], :4], state), net(IDS[[2, 0], :4])[:, -1], **CLOSE)


def test_a_masked_model_has_no_next_word():
    with pytest.raises(VitrailError, match=r"causal=False\): it has no next word"):
        model("bert_tiny").begin()


def test_without_positions_a_masked_model_commutes_with_permutations_and_a_causal_one_does_not():
    ids, order = torch.randint(5, 37, (2, 8)), torch.tensor([3, 1, 0, 2, 7, 5, 6, 4])
    for kind, commutes in (("bert_tiny", True), ("gpt_tiny", False)):
        net = model(kind, position="none")
        assert torch.allclose(net(ids[:, order]), net(ids)[:, order], atol=1e-4) is commutes


def test_parity_with_gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=37, n_positions=19, n_embd=24, n_layer=2, n_head=2, n_inner=31, activation_function="gelu",
        layer_norm_epsilon=1e-6, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    twin, net = transformers.GPT2LMHeadModel(config).eval(), model(tied=False)
    for parameter in twin.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        theirs = twin.transformer
        net.words.table.weight.copy_(theirs.wte.weight / net.words.scale)
        net.position.table.copy_(theirs.wpe.weight)
        net.head.output.weight.copy_(theirs.wte.weight)
        net.encoder.norm.load_state_dict(theirs.ln_f.state_dict())
        for ours, block in zip(net.encoder.blocks, theirs.h, strict=True):
            ours.attention_norm.load_state_dict(block.ln_1.state_dict())
            ours.mlp_norm.load_state_dict(block.ln_2.state_dict())
            weights, biases = block.attn.c_attn.weight.T.chunk(3), block.attn.c_attn.bias.chunk(3)
            pairs = [*zip((ours.attention.query, ours.attention.key, ours.attention.value), weights, biases, strict=True)]
            for part, other in ((ours.attention.output, block.attn.c_proj), (ours.mlp.expand, block.mlp.c_fc), (ours.mlp.contract, block.mlp.c_proj)):  # fmt: skip
                pairs.append((part, other.weight.T, other.bias))
            for part, weight, bias in pairs:
                part.weight.copy_(weight)
                part.bias.copy_(bias)
        assert_close(net(IDS)[0], twin(IDS).logits[0], atol=2e-5, rtol=1e-5)


def test_text_models_in_the_table(command):
    import json

    rows = {row["name"]: row for row in json.loads(command("models", "*t*_tiny", "--json").out)}
    assert {"bert_tiny", "gpt_tiny", "transformer_tiny"} <= rows.keys()
    assert rows["gpt_tiny"]["image_size"] is None
    assert rows["transformer_tiny"]["depth"] == 8
    takes = {line.split()[0]: line.split()[-2] for line in command("models", "*_tiny").out.splitlines()[1:]}
    assert {name for name, kind in takes.items() if kind == "text"} >= {
        "bert_tiny",
        "gpt_tiny",
        "transformer_tiny",
        "cmlm_tiny",
    }
    assert {kind for name, kind in takes.items() if name not in ("unet_tiny", "vit_restorer_tiny")} == {"text"}
    assert not set(rows) & set(vt.models.catalogue.image_models())
