"""Swin: sizes of images, features, config, training."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.learn.optim.groups import layer_groups, split_by_decay
from vitrail.models.swin import PRESETS, SwinConfig, build_swin, second
from vitrail.nn.attention.windowed import WindowedAttention
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.nn.encoders.hierarchical import HierarchicalEncoder
from vitrail.nn.tokenizers.patch import PatchMerging
from vitrail.records import from_record, to_record
from vitrail.tokens import Tokens

SMALL = SwinConfig(
    width=8, depths=(2, 2, 1, 2), heads=2, window=(3, 3), mlp_ratio=2.0, patch=2, image_size=(48, 48), num_classes=3
)
VERSIONS = [SMALL, second(SMALL, 3, (48, 48))]


def small(config=SMALL):
    torch.manual_seed(0)
    model = build_swin(config).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("config", VERSIONS)
@pytest.mark.parametrize("size", [(48, 48), (47, 31), (1, 1), (3, 70)])
def test_any_size(config, size):
    model = small(config)
    images = torch.randn(2, 3, *size)
    maps = model.forward_intermediates(images, [0, 1, 2, -1])
    rows, columns = -(-size[0] // 2), -(-size[1] // 2)
    for stage, tokens in enumerate(maps):
        assert tokens.grid == (-(-rows // 2**stage), -(-columns // 2**stage))
        assert tokens.x.shape == (2, tokens.grid[0] * tokens.grid[1], 8 << stage)
    assert_close(model.forward_features(images).x, maps[3].x)
    assert model(images).isfinite().all()
    assert_close(model(images)[1:], model(images[1:]), atol=1e-5, rtol=1e-5)  # images do not see each other


def test_features_at_four_scales():
    maps = vt.create_model(
        "swin_tiny_patch4_window7_224", features_only=True, width=8, heads=1, image_size=(64, 96)
    )(torch.randn(1, 3, 64, 96))  # fmt: skip
    assert [tuple(found.shape) for found in maps] == [(1, 8, 16, 24), (1, 16, 8, 12), (1, 32, 4, 6), (1, 64, 2, 3)]
    with pytest.raises(vt.VitrailError, match="stage 4 does not exist: the model has 4 stages, 0 to 3"):
        small().forward_intermediates(torch.randn(1, 3, 8, 8), [4])


def test_moving_an_image_by_whole_windows_of_the_last_stage_moves_its_features():
    """No shift, so that windows lie on a lattice: 2 pixels a token, 3 tokens a window, 8 tokens of the first stage one of the last."""
    model = small()
    for module in model.modules():
        if isinstance(module, WindowedAttention):
            module.shift = (0, 0)
    step = 2 * 3 * 8
    images = torch.randn(1, 3, 2 * step, 3 * step)
    before, after = model.forward_features(images), model.forward_features(images.roll((step, 2 * step), (2, 3)))
    shape = (1, *before.grid, -1)
    assert_close(after.x.view(shape), before.x.view(shape).roll((3, 6), (1, 2)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("config", VERSIONS)
def test_config_and_weights_survive_saving(config, tmp_path):
    assert from_record(SwinConfig, json.loads(json.dumps(to_record(config))), what="x") == config
    model = small(config)
    vt.save(model, tmp_path / "run")
    again = vt.load(tmp_path / "run").eval()
    images = torch.randn(1, 3, 40, 44)
    assert torch.equal(again(images), model(images))
    assert again.config == config


def test_checkpointing_gives_the_same_gradients():
    model, images = small().train(), torch.randn(2, 3, 20, 28)
    gradients = []
    for again in (False, True):
        model.encoder.checkpointing = again
        model.zero_grad()
        model(images).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other)


def test_the_second_version_begins_as_its_mergings():
    """Every block is the identity: its branches end on norms of weight 0."""
    model = build_swin(VERSIONS[1]).eval()
    images = torch.randn(1, 3, 48, 48)
    tokens = model.embed(images)
    for merging in model.encoder.mergings.values():
        tokens = merging(tokens)
    assert_close(model.forward_features(images).x, model.encoder.norm(tokens.x))


@pytest.mark.parametrize("config", VERSIONS)
def test_learns(config):
    """A few steps tell stripes across from stripes down, which have the same brightness."""
    torch.manual_seed(0)
    model = build_swin(replace(config, depths=(2, 2), image_size=(12, 12), num_classes=2, in_channels=1))
    stripes = (torch.arange(12) % 4 < 2).float()
    images, labels = 0.2 * torch.randn(16, 1, 12, 12), torch.arange(16) % 2
    images[labels == 0] += stripes
    images[labels == 1] += stripes[:, None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_layer_groups_count_blocks_and_mergings():
    model = small(VERSIONS[1])
    scales = {
        id(parameter): group["scale"]
        for group in layer_groups(model, 0.1, layer_decay=0.5)
        for parameter in group["params"]
    }  # fmt: skip
    assert scales[id(model.head.output.weight)] == scales[id(model.encoder.norm.weight)] == 1
    assert scales[id(model.tokenizer.project.weight)] == scales[id(model.stem_norm.weight)] == 0.5**8
    assert scales[id(model.encoder.blocks[0].mlp.expand.weight)] == 0.5**7
    assert (
        scales[id(model.encoder.mergings["2"].reduction.weight)]
        == scales[id(model.encoder.blocks[2].mlp.expand.weight)]
        == 0.5**5
    )
    assert scales[id(model.encoder.blocks[6].mlp.expand.weight)] == 0.5


def test_what_decays():
    decayed, spared = ({name for name, _ in some} for some in split_by_decay(small(VERSIONS[1])))
    assert "encoder.mergings.2.reduction.weight" in decayed
    assert {name for name in decayed if "position" in name or "log_scale" in name} == set()
    assert "encoder.blocks.0.attention.position.mlp.0.weight" in spared
    assert "encoder.blocks.0.attention.position.table" in {name for name, _ in split_by_decay(small())[1]}


@pytest.mark.parametrize(
    "options, words",
    [
        ({"heads": (2, 4)}, r"heads must have one number for each stage of depths \(2, 2, 6, 2\), got \(2, 4\)"),
        ({"position": "rotary"}, "position: expected 'relative_table', 'continuous_bias', 'none', got 'rotary'"),
        ({"attention": "linear"}, 'unknown attention "linear": choose from softmax, cosine'),
        ({"window": (0, 7)}, "window must be at least 1 token"),
        ({"depths": ()}, "depths must be at least 1 for each stage"),
        ({"width": 97}, "width must be a multiple of the heads"),
        ({"pretrained_windows": (7, 7, 7, 7)}, 'pretrained_windows is about position="continuous_bias"'),
        ({"patch": 0}, "patch must be at least 1"),
    ],
)
def test_refusals(options, words):
    with torch.device("meta"), pytest.raises(vt.VitrailError, match=words):
        vt.create_model("swin_tiny_patch4_window7_224", **options)


def test_figures_of_the_papers():
    """[Liu+ 2021, table 1; Liu+ 2022, table 4], in millions."""
    from vitrail.models.catalogue import count_parameters

    for name, millions in (("swin_tiny_patch4_window7_224", 28.3), ("swin_small_patch4_window7_224", 49.6),
                           ("swin_base_patch4_window7_224", 87.8), ("swin_large_patch4_window7_224", 196.5)):  # fmt: skip
        with torch.device("meta"):
            assert round(count_parameters(build_swin(PRESETS[name])) / 1e6, 1) == millions


def test_merging_by_hand():
    """Each token is its number; a product that takes out one of the four neighbors at a time shows their order."""
    merging = PatchMerging(1)
    merging.norm = nn.Identity()
    tokens = Tokens(torch.arange(1.0, 13).view(1, 12, 1), grid=(3, 4))
    for place, expected in ((0, [1, 3, 9, 11]), (1, [5, 7, 0, 0]), (2, [2, 4, 10, 12]), (3, [6, 8, 0, 0])):
        merging.reduction.weight.data = torch.zeros(2, 4)
        merging.reduction.weight.data[0, place] = 1
        found = merging(tokens)
        assert found.grid == (2, 2)
        assert found.x[0, :, 0].tolist() == expected
    with pytest.raises(vt.VitrailError, match="patch merging needs a grid of two axes"):
        merging(tokens._replace(prefix=1))


def test_the_encoder_merges_before_the_first_block_of_a_stage():
    class Mark(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x, scope):
            self.seen.append((x.shape[1], scope.queries.grid))
            return x

    marks = [Mark() for _ in range(3)]
    encoder = HierarchicalEncoder(marks, mergings={1: PatchMerging(2)})
    last, kept = encoder.walk(Tokens(torch.randn(1, 12, 2), grid=(3, 4)), keep=[1, 0])
    assert [mark.seen for mark in marks] == [[(12, (3, 4))], [(4, (2, 2))], [(4, (2, 2))]]
    assert [tokens.grid for tokens in kept] == [(3, 4), (2, 2)]
    assert torch.equal(kept[1].x, last.x)
    assert encoder.grid((3, 4)) == (2, 2)


def test_res_post_norm_is_on_the_branch():
    class Double(nn.Module):
        def forward(self, x, scope=None):
            return 2 * x + 1

    block = EncoderBlock(5, attention=Double(), mlp=Double(), norm="res-post")
    x = torch.randn(2, 3, 5)
    middle = x + block.attention_norm(2 * x + 1)
    assert_close(block(x), middle + block.mlp_norm(2 * middle + 1))
