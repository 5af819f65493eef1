"""The Transformer: parity with torch's, who sees whom, batches, decoding with and without a cache for every position scheme."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.catalogue import MODELS
from vitrail.models.parts import POSITIONS
from vitrail.special_tokens import BEGIN, PAD

SIZES = {"vocabulary": 37, "width": 24, "depth": 1, "decoder_depth": 2, "heads": 2, "hidden": 31, "longest": 19, "dropout": 0.0}
SOURCE = torch.tensor([[7, 8, 9, 10, 2], [11, 12, 2, PAD, PAD], [9, 9, 5, 2, PAD]])
TARGET = torch.tensor([[1, 20, 21, 22, 23, 24], [1, 30, 31, PAD, PAD, PAD], [1, 25, 26, 27, 28, PAD]])
APART = ["learned_1d", "absolute_qk", "conditional"]  # whose layers share parameters as published, if they have any
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def model(name="transformer_small", **options):
    torch.manual_seed(1)
    net = vt.create_model(name, **{**SIZES, **options}).eval()
    for key, parameter in net.named_parameters():  # 0.02 would hide mistakes
        if "position" in key:
            nn.init.normal_(parameter, std=0.3)
    return net


def copy_attention(ours, theirs):
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for part, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        part.weight.copy_(weight)
        part.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def torch_twin(net, norm):
    """torch's layers in torch's stacks, drawn anew, and copied into ours."""
    options = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre", "layer_norm_eps": 1e-6}
    sizes = (SIZES["width"], SIZES["heads"], SIZES["hidden"])
    last = [nn.LayerNorm(SIZES["width"], eps=1e-6) if norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(*sizes, **options), SIZES["depth"], last[0], False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **options), SIZES["decoder_depth"], last[1])
    twin = nn.Transformer(*sizes[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    for parameter in twin.parameters():
        nn.init.normal_(parameter, std=0.3)
    with torch.no_grad():
        for ours, theirs in [*zip(net.encoder.blocks, encoder.layers), *zip(net.decoder.blocks, decoder.layers)]:  # noqa: B905
            norms = [ours.attention_norm, ours.mlp_norm]
            copy_attention(ours.attention, theirs.self_attn)
            if hasattr(ours, "cross_attention"):
                copy_attention(ours.cross_attention, theirs.multihead_attn)
                norms.insert(1, ours.cross_attention_norm)
            for number, layer_norm in enumerate(norms, 1):
                layer_norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())
            ours.mlp.expand.load_state_dict(theirs.linear1.state_dict())
            ours.mlp.contract.load_state_dict(theirs.linear2.state_dict())
        if norm == "pre":
            net.encoder.norm.load_state_dict(last[0].state_dict())
            net.decoder.norm.load_state_dict(last[1].state_dict())
    return twin


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_parity_with_torch(norm):
    net = model(norm=norm)
    twin = torch_twin(net, norm)  # left in training mode, where torch takes no shortcut
    source, target = (net.position.embed(net.words(ids)).x.detach() for ids in (SOURCE, TARGET))
    seen = twin(
        source,
        target,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(TARGET.shape[1]),
        src_key_padding_mask=SOURCE == PAD,
        memory_key_padding_mask=SOURCE == PAD,
    )
    real = TARGET != PAD
    assert_close(net.decode(TARGET, net.encode(SOURCE)).x[real], seen[real], **CLOSE)
    assert_close(net(SOURCE, TARGET)[real], (seen @ net.words.table.weight.T)[real], atol=1e-4, rtol=1e-5)


def test_the_first_transformer_is_that_of_2017():
    base = MODELS["transformer_base"][1]
    assert (base.depth, base.decoder_depth, base.width, base.heads, base.hidden) == (6, 6, 512, 8, 2048)
    assert (base.norm, base.activation, base.position, base.tied, base.dropout) == ("post", "relu", "sinusoidal_1d", True, 0.1)


def words_gradient(net, logits, chosen):
    """How much the chosen logits change with each embedded word of the source and the target."""
    seen = []
    hook = net.words.register_forward_hook(lambda _, __, tokens: seen.append(tokens.x) or tokens.x.retain_grad())
    (logits() * chosen).sum().backward()
    hook.remove()
    return [x.grad.abs().sum(-1) for x in seen]


@pytest.mark.parametrize("name", POSITIONS)
def test_nothing_leaks_from_the_future_or_from_padding(name):
    net, place = model(position=name), 3
    chosen = torch.zeros(3, 6, 1)
    chosen[:, place] = torch.tensor([1.0, 0.0, 1.0])[:, None]  # the second sentence is padding there
    source, target = words_gradient(net, lambda: net(SOURCE, TARGET).square(), chosen)
    assert torch.equal(source[1], torch.zeros(5))
    assert (source[0] > 0).all()
    assert torch.equal(source[2] > 0, SOURCE[2] != PAD)
    for row in (0, 2):
        assert (target[row, : place + 1] > 0).all()
        assert torch.equal(target[row, place + 1 :], torch.zeros(2))


def test_all_at_once_sees_the_future_and_no_padding():
    net = model(causal=False)
    chosen = torch.zeros(3, 6, 1)
    chosen[2, 1] = 1.0
    _, target = words_gradient(net, lambda: net(SOURCE, TARGET).square(), chosen)
    assert torch.equal(target[2] > 0, TARGET[2] != PAD)
    with pytest.raises(VitrailError, match=r"causal=False\): it has no next word"):
        net.begin(SOURCE)


@pytest.mark.parametrize("name, causal", [*((name, True) for name in POSITIONS), ("learned_1d", False), ("conditional", False)])
def test_order_and_padding_of_a_batch_change_nothing(name, causal):
    net = model(position=name, causal=causal)
    with torch.no_grad():
        together = net(SOURCE, TARGET)
        assert_close(net(SOURCE[[2, 0, 1]], TARGET[[2, 0, 1]]), together[[2, 0, 1]], **CLOSE)
        for row in range(3):
            source, target = (ids[row][ids[row] != PAD][None] for ids in (SOURCE, TARGET))
            assert_close(net(source, target)[0], together[row, : target.shape[1]], **CLOSE)
        longer = [nn.functional.pad(ids, (0, 4), value=PAD) for ids in (SOURCE, TARGET)]
        assert_close(net(*longer)[:, :6], together, **CLOSE)


def write(net, source, *, cached, steps):
    state, ids, found = net.begin(source, cached=cached), torch.full((len(source), 1), BEGIN), []
    with torch.no_grad():
        for _ in range(steps):
            found.append(net.step(ids, state))
            ids = torch.cat([ids, found[-1].argmax(1, keepdim=True)], 1)
    return torch.stack(found, 1), ids


@pytest.mark.parametrize("name, where", [*((name, "auto") for name in POSITIONS), *((name, "layers_apart") for name in APART)])
def test_a_cache_changes_nothing(name, where):
    """Greedy, twelve words; the words written are those that one pass over them would choose."""
    net = model(position=name, position_where=where)
    logits, ids = write(net, SOURCE, cached=True, steps=12)
    again, same = write(net, SOURCE, cached=False, steps=12)
    assert torch.equal(ids, same)
    assert_close(logits, again, **CLOSE)
    assert_close(net(SOURCE, ids[:, :-1]).detach(), logits, **CLOSE)


@pytest.mark.parametrize("name", ["sinusoidal_1d", "rotary_1d", "relative_shaw_1d", "relative_table", "conditional"])
def test_several_words_a_step(name):
    net, ids = model(position=name), torch.randint(5, 37, (3, 11))
    cached, plain = net.begin(SOURCE), net.begin(SOURCE, cached=False)
    with torch.no_grad():
        for count in (4, 5, 8, 11):
            assert_close(net.step(ids[:, :count], cached), net.step(ids[:, :count], plain), **CLOSE)


@pytest.mark.parametrize("name", ["sinusoidal_1d", "alibi_1d", "conditional"])
@pytest.mark.parametrize("cached", [True, False])
def test_rows_are_repeated_permuted_and_dropped(name, cached):
    net, ids = model(position=name), torch.randint(5, 37, (4, 9))
    state, source = net.begin(SOURCE, cached=cached), SOURCE
    with torch.no_grad():
        for count, rows in enumerate(([0, 0, 1, 2], [1, 0, 2, 3], [0, 1, 2, 3], [3, 2], [1]), 2):
            net.step(ids[: len(source), :count], state)
            ids, source = ids[torch.tensor(rows)], source[torch.tensor(rows)]
            state.reorder(torch.tensor(rows))
            expected = net(source, ids[:, : count + 1])[:, -1]
            assert_close(net.step(ids[:, : count + 1], copy.deepcopy(state)), expected, **CLOSE)


def test_beams_of_one_source_share_its_memory():
    net = model()
    state = net.begin(SOURCE)
    state.reorder(torch.tensor([0, 0, 1, 1]))
    net.step(TARGET[[0, 0, 1, 1], :2], state)
    memory, held = state.memory, state.cache.memory[0].held
    state.reorder(torch.tensor([1, 1, 3, 2]))
    assert state.memory is memory
    assert state.cache.memory[0].held is held


def test_without_positions_the_encoder_commutes_with_permutations():
    net, order = model(position="none"), torch.randperm(5)
    source = torch.randint(5, 37, (3, 5))
    assert_close(net.encode(source[:, order]).x, net.encode(source).x[:, order], **CLOSE)
    assert not torch.allclose(model().encode(source[:, order]).x, model().encode(source).x[:, order], atol=1e-2)


@pytest.mark.parametrize("name", ["sinusoidal_1d", "relative_shaw_1d", "rotary_1d"])
def test_recording(name):
    net = model(position=name)
    with torch.no_grad(), vt.explain.record(net) as seen:
        net(SOURCE, TARGET)
    assert len(seen.layers) == 1 + 2 * 2
    for layer, weights in zip(seen.names, seen.layers, strict=True):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        if "decoder" in layer and "cross" not in layer:
            assert torch.equal(weights, weights.tril())
        else:
            assert (weights[1, ..., 3:] == 0).all()  # padding of the source
    with torch.no_grad(), vt.explain.record(net) as step:  # one word at a time, the last row of each
        state = net.begin(SOURCE)
        for count in range(1, 7):
            net.step(TARGET[:, :count], state)
    own = [w for name, w in zip(seen.names, seen.layers, strict=True) if name == "decoder.blocks.1.cross_attention"]
    last = [w for name, w in zip(step.names, step.layers, strict=True) if name == "decoder.blocks.1.cross_attention"]
    assert_close(last[-1], own[0][:, :, -1:], **CLOSE)


def test_tables_apart():
    net = model(tied=False)
    assert net.target_words.table is not net.words.table
    assert net.head.output is not None
    assert net(SOURCE, TARGET).shape == (3, 6, 37)
    assert len(net.state_dict()) == len({value.data_ptr() for value in net.state_dict().values()})


def test_every_parameter_is_trained():
    for name in ("learned_1d", "relative_shaw_1d", "relative_projected_1d", "relative_table", "conditional"):
        net = model(position=name, longest=6, depth=2).train()
        net(SOURCE, TARGET).logsumexp(-1).sum().backward()
        for key, parameter in net.named_parameters():
            assert parameter.grad is not None, (name, key)
            assert parameter.grad.abs().sum() > 0, (name, key)


def test_dropout_acts_in_training_alone():
    net = model(dropout=0.5)
    assert torch.equal(net(SOURCE, TARGET), net(SOURCE, TARGET))
    net.train()
    assert not torch.allclose(net(SOURCE, TARGET), net(SOURCE, TARGET))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"vocabulary": 5}, "vocabulary must be more than the 5 special tokens"),
        ({"depth": 0}, "depth must be at least 1"),
        ({"decoder_depth": 10**6}, "decoder_depth must be at most 1000"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"longest": 0}, "longest must be at least 1"),
        ({"heads": 5}, "width 24, heads 5"),
        ({"d_model": 5}, '"d_model" is called "width" here'),
        ({"position": "rotery"}, 'unknown position "rotery"'),
        ({"image_size": 8}, 'no option "image_size"'),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words) as error:
        model(**options)
    assert "\n" not in str(error.value)


def test_a_sentence_too_long_is_said():
    with pytest.raises(VitrailError, match="a sequence of 20 tokens is too long: the model's longest is 19"):
        model()(torch.full((1, 20), 7), TARGET[:1])
