"""Heads for maps: their sizes, what they commute with, and what each must compute."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.blocks.decoder_block import DecoderBlock
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.blocks.feed_forward import FeedForward
from vitrail.nn.decoders.plain import PlainDecoder
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import stretch
from vitrail.nn.heads.segmentation.class_queries import ClassQueryHead
from vitrail.nn.heads.segmentation.mask import LinearHead, MaskHead
from vitrail.nn.heads.segmentation.normed_convolution import NormedConvolution, build_map_norm
from vitrail.nn.heads.segmentation.setr import AggregatingHead, NaiveHead, ProgressiveHead
from vitrail.nn.heads.segmentation.upernet import SIZES, PyramidPooling, Rescaling, UPerNetHead
from vitrail.tokens import Tokens

WIDTH, CLASSES = 12, 5


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


ORDER = torch.tensor([3, 0, 4, 1, 2])


def blocks(depth: int = 2) -> PlainEncoder:
    made = [
        EncoderBlock(WIDTH, attention=MultiHeadAttention(WIDTH, heads=3), mlp=FeedForward(WIDTH, hidden=17))
        for _ in range(depth)
    ]
    return PlainEncoder(made, norm=nn.LayerNorm(WIDTH))


def decoder() -> PlainDecoder:
    attention = {name: MultiHeadAttention(WIDTH, heads=3) for name in ("attention", "cross_attention")}
    return PlainDecoder(
        [DecoderBlock(WIDTH, **attention, mlp=FeedForward(WIDTH, hidden=17))], norm=nn.LayerNorm(WIDTH), causal=False
    )


def class_queries() -> ClassQueryHead:
    return ClassQueryHead(WIDTH, fine_width=7, classes=CLASSES, hidden=6, heads=3, decoder=decoder(), norm="batch")


@pytest.mark.parametrize(("stride", "factor"), [(16, 8), (8, 4), (4, 2), (2, 1), (1, 1), (14, 4), (32, 8)])
def test_progressive_upsampling_lacks_one_doubling_and_never_makes_more_than_four(stride, factor):
    head = ProgressiveHead(WIDTH, classes=CLASSES, hidden=6, stride=stride, norm="batch").eval()
    assert head([torch.randn(2, WIDTH, 3, 5)]).shape == (2, CLASSES, 3 * factor, 5 * factor)


def test_classes_may_be_scored_before_the_last_enlargement():
    """What `ProgressiveHead` and `AggregatingHead` save: a 1x1 convolution and an interpolation commute."""
    score, maps = nn.Conv2d(WIDTH, CLASSES, 1), torch.randn(2, WIDTH, 3, 5)
    assert_close(stretch(score(maps), (6, 10)), score(stretch(maps, (6, 10))))


def test_aggregation_is_four_times_as_large_and_goes_from_deep_to_shallow():
    head = AggregatingHead([WIDTH] * 4, classes=CLASSES, hidden=6, norm="group").eval()
    maps = [torch.randn(2, WIDTH, 3, 5) for _ in range(4)]
    assert head(maps).shape == (2, CLASSES, 12, 20)
    streams: list[torch.Tensor] = []
    handles = [stream.register_forward_pre_hook(lambda _, given: streams.append(given[0])) for stream in head.streams]
    head(maps)
    before, streams[:] = list(streams), []
    head([maps[0] + 1, *maps[1:]])
    changed = [not torch.equal(one, other) for one, other in zip(before, streams, strict=True)]
    assert changed == [True, False, False, False]  # the shallowest map helps no other
    streams.clear()
    head([*maps[:3], maps[3] + 1])
    assert all(not torch.equal(one, other) for one, other in zip(before, streams, strict=True))
    for handle in handles:
        handle.remove()


def test_naive_upsampling_and_the_linear_head_see_one_cell_at_a_time():
    maps = torch.randn(2, WIDTH, 3, 5)
    for head in (NaiveHead(WIDTH, classes=CLASSES, hidden=6, norm="batch"), LinearHead(WIDTH, classes=CLASSES)):
        head.eval()
        whole = head([maps])
        assert_close(head([maps[:, :, 1:2, 3:4]]), whole[:, :, 1:2, 3:4])
        assert_close(head([maps.flip(2)]), whole.flip(2))


def test_the_mask_transformer_is_a_cosine_that_is_normed_over_classes():
    head = MaskHead(7, classes=CLASSES, hidden=WIDTH, blocks=blocks()).eval()
    scores = head([torch.randn(2, 7, 3, 4)])
    assert scores.shape == (2, CLASSES, 3, 4)
    assert_close(scores.mean(1), torch.zeros(2, 3, 4), atol=1e-5, rtol=0)
    assert_close(scores.var(1, unbiased=False), torch.ones(2, 3, 4), atol=2e-2, rtol=0)


def test_the_mask_transformer_commutes_with_permuting_classes():
    head, maps = MaskHead(7, classes=CLASSES, hidden=WIDTH, blocks=blocks()).eval(), [torch.randn(2, 7, 3, 4)]
    with torch.no_grad():
        before = head(maps)
        for parameter in (head.class_tokens, head.mask_norm.weight, head.mask_norm.bias):
            parameter.copy_(parameter[ORDER])
        assert_close(head(maps), before[:, ORDER])
    assert before.std(dim=1).max() > 0.1


def test_the_mask_transformer_commutes_with_turning_the_map():
    head, maps = MaskHead(7, classes=CLASSES, hidden=WIDTH, blocks=blocks()).eval(), torch.randn(2, 7, 3, 4)
    assert_close(head([maps.rot90(1, (2, 3))]), head([maps]).rot90(1, (2, 3)))


def test_class_queries_commute_with_permuting_classes():
    head, maps = class_queries().eval(), [torch.randn(2, WIDTH, 3, 4), torch.randn(2, 7, 6, 8)]
    with torch.no_grad():
        before = head(maps)
        head.class_tokens.copy_(head.class_tokens[ORDER])
        assert_close(head(maps), before[:, ORDER])
    assert before.shape == (2, CLASSES, 6, 8)
    assert before.std(dim=1).max() > 1e-3


def test_what_a_class_looks_at_sums_to_one_and_is_read_by_the_convolutions():
    head = class_queries().eval()
    memory = Tokens(torch.randn(2, 12, WIDTH), grid=(3, 4))
    seen = head.look(memory)
    assert seen.shape == (2, CLASSES, 3, 12)
    assert_close(seen.sum(-1), torch.ones(2, CLASSES, 3))
    heard: list[torch.Tensor] = []
    with torch.no_grad():
        head.query.weight.zero_()
        head.query.bias.zero_()
    handle = head.coarse.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
    head([torch.randn(2, WIDTH, 3, 4), torch.randn(2, 7, 6, 8)])
    handle.remove()
    assert_close(heard[0][:, WIDTH:], torch.ones(2 * CLASSES, 3, 3, 4))  # who looks at all places alike looks at each with 1


def test_pyramid_pooling_of_a_constant_map_is_constant():
    pooling = PyramidPooling(WIDTH, hidden=6, norm="batch").eval()
    for part in pooling.parts(torch.randn(2, WIDTH, 1, 1).expand(-1, -1, 7, 11)):
        assert part.shape == (2, 6, 7, 11)
        assert_close(part, part[..., :1, :1].expand_as(part))


def test_pyramid_pooling_says_the_means_of_its_parts():
    pooling, x = PyramidPooling(WIDTH, hidden=WIDTH, norm="batch").eval(), torch.rand(2, WIDTH, 6, 12)
    for branch in pooling.branches:
        nn.init.dirac_(branch.convolution.weight)
    assert SIZES == (1, 2, 3, 6)
    scale = (1 + pooling.branches[0].norm.eps) ** -0.5
    first, *_, last = pooling.parts(x)
    assert_close(first, scale * x.mean((2, 3), keepdim=True).expand_as(x))
    means = x.reshape(2, WIDTH, 6, 1, 6, 2).mean((3, 5))
    assert_close(last, scale * F.interpolate(means, size=(6, 12), mode="bilinear"))


def test_rescaling_gives_four_sizes():
    maps = [torch.randn(2, WIDTH, 4, 6) for _ in range(4)]
    found = Rescaling(WIDTH, norm="batch").eval()(maps)
    assert [tuple(level.shape[2:]) for level in found] == [(16, 24), (8, 12), (4, 6), (2, 3)]
    assert found[2] is maps[2]
    assert_close(found[3], maps[3].reshape(2, WIDTH, 2, 2, 3, 2).amax((3, 5)))


def test_upernet_answers_on_its_finest_grid_whatever_the_others():
    head = UPerNetHead([3, 5, 7], classes=CLASSES, hidden=6, norm="batch").eval()
    assert head([torch.randn(2, 3, 11, 13), torch.randn(2, 5, 6, 7), torch.randn(2, 7, 3, 4)]).shape == (2, CLASSES, 11, 13)


@pytest.mark.parametrize(("channels", "groups"), [(256, 32), (64, 8), (96, 8), (16, 2), (10, 1), (7, 1)])
def test_groups_divide_the_channels(channels, groups):
    norm = build_map_norm("group", channels)
    assert norm.num_groups == groups
    one = NormedConvolution(3, channels, norm="group")
    images = torch.randn(4, 3, 5, 5)
    assert_close(one(images)[:1], one(images[:1]))  # each image by itself


def test_batch_norm_waits_where_there_is_one_number():
    norm = build_map_norm("batch", 3).train()
    x = torch.randn(1, 3, 1, 1)
    assert_close(norm(x), x * (1 + norm.eps) ** -0.5)
    assert norm.running_mean.eq(0).all()
    norm(torch.randn(2, 3, 1, 1))
    assert norm.running_mean.ne(0).all()
