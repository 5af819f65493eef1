"""Row A7: what holds for every position scheme, in a small model."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.parts import POSITIONS, build_position
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.scope import Scope
from vitrail.tokens import Places, Tokens

WIDTH, HEADS, DEPTH = 24, 2, 2
GRIDS = [(7,), (3, 5), (2, 3, 4)]
SCHEMES = list(POSITIONS)
SHIFTED = ["relative_shaw", "relative_projected", "relative_table", "continuous_bias", "rotary", "alibi"]
BY_CELL = [name for name in SCHEMES if name != "conditional"]  # whose place of a token does not depend on the other tokens
WHERES = ["auto", "layers", "layers_apart"]


def build(name, grid, prefix=1, where="auto"):
    position = build_position(name, width=WIDTH, heads=HEADS, depth=DEPTH, grid=grid, prefix=prefix, where=where)
    for parameter in position.parameters():  # 0.02 would hide mistakes
        nn.init.normal_(parameter)
    return position


def encoder():
    blocks = [
        EncoderBlock(WIDTH, attention=MultiHeadAttention(WIDTH, heads=HEADS), mlp=FeedForward(WIDTH, hidden=17))
        for _ in range(DEPTH)
    ]
    return PlainEncoder(blocks)


def run(stack, position, x, grid, *, prefix=1, index=None, mask=None, segments=None):
    tokens = position.embed(Tokens(x, grid, prefix, index, mask))
    return stack(tokens, position=position, segments=segments).x


def model(name, **options):
    settings = {"width": WIDTH, "heads": HEADS, "depth": DEPTH, "image_size": (32, 48), "patch": 8, "num_classes": 5}
    return vt.create_model("vit_tiny_patch16_224", position=name, **{**settings, **options})


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", SCHEMES)
def test_all_tokens_named_by_index_are_the_whole_grid_in_any_order(name, grid):
    """With `index` a scheme finds each token's cell: a shuffled sequence gives the shuffled output."""
    position, stack, cells = build(name, grid), encoder(), math.prod(grid)
    x = torch.randn(2, 1 + cells, WIDTH)
    order = torch.stack([torch.randperm(cells) for _ in range(2)])
    if name == "none":
        order = torch.arange(cells).expand(2, -1)
    places = torch.cat([torch.zeros(2, 1, dtype=torch.long), order + 1], 1)[..., None].expand(-1, -1, WIDTH)
    shuffled = run(stack, position, x.gather(1, places), grid, index=order)
    assert_close(shuffled, run(stack, position, x, grid).gather(1, places), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", BY_CELL)
def test_some_tokens_are_the_whole_grid_restricted_to_them(name, grid):
    """The grid with all other tokens masked out gives what the kept tokens alone give."""
    position, stack, cells = build(name, grid), encoder(), math.prod(grid)
    x = torch.randn(2, 1 + cells, WIDTH)
    index = torch.stack([torch.randperm(cells)[:4].sort().values for _ in range(2)])
    places = torch.cat([torch.zeros(2, 1, dtype=torch.long), index + 1], 1)
    kept = torch.zeros(2, 1 + cells, dtype=torch.bool).scatter(1, places, True)
    where = places[..., None].expand(-1, -1, WIDTH)
    alone = run(stack, position, x.gather(1, where), grid, index=index)
    assert_close(alone, run(stack, position, x, grid, mask=kept).gather(1, where), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in SCHEMES if POSITIONS[name].where != "stem"])
def test_queries_may_stand_elsewhere_than_keys(name):
    """Cross-attention from some of the cells to all is those rows of self-attention."""
    position, layer, x = build(name, (3, 5), where="layers"), MultiHeadAttention(WIDTH, heads=HEADS), torch.randn(2, 16, WIDTH)
    everything = Places((3, 5), prefix=1)
    some = Places((3, 5), prefix=1, index=torch.tensor([[3, 14, 6], [0, 1, 8]]))
    full = Scope(everything, everything, position=position, prepared=position.prepare(everything, everything))
    cross = Scope(some, everything, position=position, prepared=position.prepare(some, everything))
    where = torch.cat([torch.zeros(2, 1, dtype=torch.long), some.index + 1], 1)[..., None].expand(-1, -1, WIDTH)
    assert_close(layer(x.gather(1, where), cross, x), layer(x, full).gather(1, where), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", SCHEMES)
def test_packed_images_are_as_if_alone(name):
    grid, position, stack = (3, 5), build(name, (3, 5), prefix=0), encoder()
    images = torch.randn(2, 15, WIDTH)
    some = torch.tensor([0, 1, 2, 6, 7, 8, 13])
    alone = run(stack, position, images[:1], grid, prefix=0)
    other = run(stack, position, images[1:, some], grid, prefix=0, index=some[None])
    index = torch.cat([torch.arange(15), some])[None]
    segments = torch.tensor([[0] * 15 + [1] * 7])
    packed = run(stack, position, torch.cat([images[:1], images[1:, some]], 1), grid, prefix=0, index=index, segments=segments)
    assert_close(packed, torch.cat([alone, other], 1), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", SHIFTED)
def test_relative_schemes_do_not_see_a_shift(name, grid):
    """The same tokens on cells that all moved alike: the same output. Without prefix tokens, which rotary does not turn."""
    position, stack = build(name, grid, prefix=0), encoder()
    strides = [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]
    cells = torch.arange(math.prod(grid)).reshape(grid)[tuple(slice(0, size - 1) for size in grid)].flatten()
    x = torch.randn(1, len(cells), WIDTH)
    there = run(stack, position, x, grid, prefix=0, index=cells[None])
    for step in strides:
        assert_close(run(stack, position, x, grid, prefix=0, index=cells[None] + step), there, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["sinusoidal_2d", "learned_1d", "absolute_qk"])
def test_absolute_schemes_do(name):
    position, stack, cells = build(name, (3, 5)), encoder(), torch.tensor([[0, 1, 5, 6]])
    x = torch.randn(1, 5, WIDTH)
    moved = run(stack, position, x, (3, 5), index=cells + 1)
    assert not torch.allclose(moved, run(stack, position, x, (3, 5), index=cells), atol=1e-2)


@pytest.mark.parametrize("old, new", [((7,), (11,)), ((3, 5), (5, 4)), ((2, 3, 4), (3, 2, 5))])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_grid_never_seen_is_accepted(name, old, new):
    x = torch.randn(2, 1 + math.prod(new), WIDTH)
    assert run(encoder(), build(name, old), x, new).isfinite().all()


@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "none"])
def test_order_matters(name):
    position, stack = build(name, (3, 5)), encoder()
    x, order = torch.randn(1, 16, WIDTH), torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(15)])
    assert not torch.allclose(run(stack, position, x[:, order], (3, 5)), run(stack, position, x, (3, 5))[:, order], atol=1e-3)


@pytest.mark.parametrize(
    "name, where",
    [
        *((name, "auto") for name in SCHEMES),
        ("learned_1d", "layers"),
        ("absolute_qk", "layers_apart"),
        ("relative_shaw", "layers"),
    ],
)
def test_recorded_weights_explain_the_output(name, where):
    net = model(name, position_where=where).eval()
    images = torch.randn(2, 3, 32, 48)
    with torch.no_grad(), vt.explain.record(net) as seen:
        logits = net(images)
        tokens = net.embed(images)
    assert_close(logits, net(images).detach(), atol=1e-5, rtol=1e-5)
    for layer, (weights, values, outputs) in enumerate(zip(seen.layers, seen.values, seen.outputs, strict=True)):
        assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        read = weights @ values
        if net.position.reads:
            scope = net.position.at(net.encoder.scope(tokens, net.position, None), layer)
            read = read + scope.position.read(weights, scope).detach()
        assert_close(read, outputs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("name", SCHEMES)
def test_a_step_moves_every_parameter(name, where):
    net = model(name, position_where=where)
    before = {key: value.clone() for key, value in net.position.state_dict().items()}
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    tokens = net.forward_features(
        torch.randn(2, 3, 32, 48)
    ).x  # all of them: a class token alone uses few rows of the last layer
    (tokens * torch.randn_like(tokens)).sum().backward()
    optimizer.step()
    for key, value in net.position.state_dict().items():
        assert (value != before[key]).any(-1).all(), key


@pytest.mark.parametrize("name", SCHEMES)
def test_recomputing_blocks_and_dropping_tokens(name):
    net, images, labels = model(name, token_keep=0.5), torch.randn(3, 3, 32, 48), torch.tensor([0, 3, 1])
    gradients = []
    for again in (False, True):
        net.encoder.checkpointing = again
        net.zero_grad()
        torch.manual_seed(7)
        nn.functional.cross_entropy(net(images), labels).backward()
        gradients.append([parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None])
    for plain, recomputed in zip(*gradients, strict=True):
        assert_close(recomputed, plain, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", SCHEMES)
def test_another_precision(name):
    """Tables and angles follow the precision of the queries; double, since not every machine has bfloat16."""
    net, images = model(name).eval(), torch.randn(2, 3, 32, 48)
    single = net(images)
    double = net.double()(images.double())
    assert double.dtype == torch.float64
    assert_close(double.float(), single, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "name, where",
    [("learned_1d", "layers_apart"), ("absolute_qk", "layers"), ("relative_table", "auto"), ("conditional", "auto")],
)
def test_models_are_stored_with_their_position(name, where, tmp_path):
    net, images = model(name, position_where=where).eval(), torch.randn(2, 3, 32, 48)
    vt.save(net, tmp_path / "model")
    again = vt.load(tmp_path / "model")
    assert again.config == net.config
    assert_close(again(images), net(images))


def test_layers_share_their_parameters_or_not():
    count = {where: sum(p.numel() for p in build("learned_1d", (3, 5), where=where).parameters()) for where in WHERES}
    assert count == {"auto": 16 * WIDTH, "layers": 16 * WIDTH, "layers_apart": DEPTH * 16 * WIDTH}
    table = {where: sum(p.numel() for p in build("relative_table", (3, 5), where=where).parameters()) for where in WHERES}
    assert table == {"auto": DEPTH * 48 * HEADS, "layers": 48 * HEADS, "layers_apart": DEPTH * 48 * HEADS}
    assert not list(build("rotary", (3, 5), where="layers_apart").parameters())


def test_rows_in_every_layer_are_added_in_front_of_every_block():
    position, stack, x = build("learned_1d", (3, 5), where="layers_apart"), encoder(), torch.randn(2, 16, WIDTH)
    expected = x
    for block, layer in zip(stack.blocks, position.layers, strict=True):
        expected = block(expected + torch.cat([layer.added.prefix_table, layer.added.table]))
    assert_close(run(stack, position, x, (3, 5)), stack.norm(expected))


def test_each_layer_of_a_model_apart_uses_its_own_table():
    position, stack, x = build("relative_table", (3, 5)), encoder(), torch.randn(2, 16, WIDTH)
    before = run(stack, position, x, (3, 5))
    with torch.no_grad(), vt.explain.record(stack) as seen:
        position.layers[1].table.mul_(-1)
        after = run(stack, position, x, (3, 5))
        second = [weights.clone() for weights in seen.layers]
        position.layers[1].table.mul_(-1)
        run(stack, position, x, (3, 5))
    assert torch.equal(seen.layers[0], second[0])
    assert not torch.allclose(seen.layers[1], second[1])
    assert not torch.allclose(before, after)


def test_what_acts_inside_attention_has_no_stem():
    with pytest.raises(VitrailError, match=r'position_where="stem": alibi acts inside attention'):
        model("alibi", position_where="stem")
