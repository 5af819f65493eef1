import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.tokenizers.resnet_stem import Bottleneck, ResNetStem, StandardizedConv2d

KERNELS = [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)]  # those of the network, with their strides


def stem(in_channels: int = 3, width: int = 11, *, depths: tuple[int, ...] = (1, 2, 1), stem_width: int = 32) -> ResNetStem:
    """A small stem far from how one starts: uneven normalizations, and filters so small that eps shows beside large ones."""
    torch.manual_seed(0)
    built = ResNetStem(in_channels, width, depths=depths, stem_width=stem_width).eval()
    for module in built.modules():
        if isinstance(module, StandardizedConv2d):
            module.weight.data.mul_(10 ** (-4 * torch.rand(module.out_channels, 1, 1, 1)))
        if isinstance(module, nn.GroupNorm):
            nn.init.normal_(module.weight, mean=1, std=0.3)
            nn.init.normal_(module.bias, std=0.3)
    return built


def pad_same(x: Tensor, kernel: int, stride: int) -> Tensor:
    """TensorFlow's "SAME" for any side, from its definition: ceil(side / stride) windows, the odd row last."""
    total = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
    top, left = (rows // 2 for rows in total)
    return F.pad(x, (left, total[1] - left, top, total[0] - top))


# ---------------------------------------------------------------------------------------------------- properties


@pytest.mark.parametrize("kernel, stride", KERNELS)
def test_convolution_ignores_shift_and_scale_of_its_weights(kernel, stride):
    torch.manual_seed(0)
    layer, x = StandardizedConv2d(5, 7, kernel=kernel, stride=stride).double(), torch.randn(2, 5, 6, 10).double()
    nn.init.normal_(layer.weight)  # large beside eps, the one thing that tells weights of different scales apart
    before = layer(x)
    with torch.no_grad():
        layer.weight.mul_(torch.linspace(0.5, 3, 7)[:, None, None, None]).add_(torch.linspace(-1, 1, 7)[:, None, None, None])
    assert_close(layer(x), before, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel, stride", KERNELS)
@pytest.mark.parametrize("scale", [1e-4, 1])
def test_convolution_is_the_definition(kernel, stride, scale):
    torch.manual_seed(0)
    layer, x = StandardizedConv2d(5, 7, kernel=kernel, stride=stride), torch.randn(2, 5, 6, 10)
    nn.init.normal_(layer.weight, std=scale)
    variance, mean = torch.var_mean(layer.weight, dim=(1, 2, 3), correction=0, keepdim=True)
    expected = F.conv2d(pad_same(x, kernel, stride), (layer.weight - mean) / (variance + 1e-8).sqrt(), stride=stride)
    assert expected.shape[-2:] == (6 // stride, 10 // stride)
    assert_close(layer(x), expected, atol=1e-5, rtol=1e-5)


def test_a_new_block_passes_on_its_shortcut_alone():
    torch.manual_seed(0)
    x = torch.randn(2, 128, 6, 4)
    assert_close(Bottleneck(128, inner=32)(x), F.relu(x))
    reshaping = Bottleneck(128, inner=64, stride=2)
    assert_close(reshaping(x), F.relu(reshaping.shortcut_norm(reshaping.shortcut(x))))


def test_grid_of_an_image_that_is_not_square():
    for depths, stride in [((1,), 4), ((1, 1), 8), ((1, 1, 1), 16), ((1, 1, 1, 1), 32)]:
        small = stem(width=11, depths=depths)
        tokens = small(torch.randn(2, 3, 3 * stride, 5 * stride))
        assert small.stride == stride
        assert tokens.grid == small.grid((3 * stride, 5 * stride)) == (3, 5)
        assert tokens.x.shape == (2, 15, 11)
        assert tokens.prefix == 0


def test_any_number_of_channels():
    for in_channels in (1, 2, 13):
        assert stem(in_channels)(torch.randn(1, in_channels, 32, 16)).x.shape == (1, 2, 11)


def test_every_parameter_is_trained():
    small = stem()
    small(torch.randn(2, 3, 32, 48)).x.square().sum().backward()
    for name, parameter in small.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_meta_device():
    with torch.device("meta"):
        tokens = ResNetStem(3, 768)(torch.empty(2, 3, 224, 160))
    assert tokens.x.is_meta
    assert tokens.x.shape == (2, 140, 768)
    assert tokens.grid == (14, 10)


# ------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("size", [(33, 48), (48, 40), (0, 16), (8, 16)])
def test_sides_must_be_multiples_of_the_stride(size):
    small = stem()
    rule = f"^the image's sides {size[0]}x{size[1]} must be multiples of the stem's stride 16$"
    with pytest.raises(VitrailError, match=rule):
        small.grid(size)
    with pytest.raises(VitrailError, match=rule):
        small(torch.zeros(1, 3, *size))


def test_impossible_stems_are_refused():
    with pytest.raises(VitrailError, match="multiple of its 32 normalization groups, got 48"):
        ResNetStem(3, 7, stem_width=48)
    with pytest.raises(VitrailError, match="at least one block in each stage, got depths"):
        ResNetStem(3, 7, depths=(1, 0, 1))


def test_a_token_of_several_cells_behind_a_root_alone():
    torch.manual_seed(0)
    alone, images = ResNetStem(3, 11, depths=(), stem_width=32, patch=2).eval(), torch.randn(2, 3, 16, 24)
    assert alone.stride == 8
    map_ = F.max_pool2d(F.pad(F.relu(alone.root_norm(alone.root(images))), (0, 1, 0, 1)), 3, stride=2)
    filters = alone.project.weight.view(11, 32, 2, 2)
    expected = F.conv2d(map_, filters, alone.project.bias, stride=2)
    tokens = alone(images)
    assert tokens.grid == (2, 3)
    assert_close(tokens.x, expected.flatten(2).transpose(1, 2), atol=1e-5, rtol=1e-5)


# -------------------------------------------------------------------------------------------------------- parity

THEIRS = {  # ours to transformers'
    "root": "embedder.convolution",
    "root_norm": "embedder.norm",
    "reduce": "conv1",
    "reduce_norm": "norm1",
    "spatial": "conv2",
    "spatial_norm": "norm2",
    "expand": "conv3",
    "expand_norm": "norm3",
    "shortcut": "downsample.conv",
    "shortcut_norm": "downsample.norm",
}


def their_name(name: str) -> str:
    """stages.1.0.reduce.weight -> encoder.stages.1.layers.0.conv1.weight"""
    *place, part, kind = name.split(".")
    if place:
        place = ["encoder", "stages", place[1], "layers", place[2]]
    return ".".join([*place, THEIRS[part], kind])


def test_parity_with_transformers():
    from transformers import BitConfig, BitModel

    config = BitConfig(
        num_channels=5,
        embedding_size=96,  # three channels in each of the 32 groups: neither instance nor layer normalization
        hidden_sizes=[384, 768, 1536],
        depths=[1, 2, 1],
        layer_type="bottleneck",
        global_padding="same",
        embedding_dynamic_padding=True,
    )
    theirs, ours = BitModel(config).eval(), stem(5, 11, depths=(1, 2, 1), stem_width=96)
    state = {their_name(name): value for name, value in ours.state_dict().items() if not name.startswith("project")}
    theirs.load_state_dict(state)  # strict: the same parameters, none left over
    images = torch.randn(2, 5, 48, 80)
    with torch.no_grad():
        expected = ours.project(theirs(images).last_hidden_state.flatten(2).transpose(1, 2))
        tokens = ours(images)
    assert tokens.grid == (3, 5)
    assert_close(tokens.x, expected, atol=1e-5, rtol=1e-5)


# -------------------------------------------------------------------------------------------------------- golden


def test_parameter_count_of_r50():
    """timm 1.0.30: patch_embed of vit_base_r50_s16_224 has 11,894,848 in its backbone and 787,200 in its projection."""
    with torch.device("meta"):
        r50 = ResNetStem(3, 768)
    assert r50.stride == 16
    assert sum(parameter.numel() for parameter in r50.parameters()) == 12_682_048
    assert sum(parameter.numel() for parameter in r50.project.parameters()) == 787_200


def test_parameter_names():
    convolutions = ("reduce", "spatial", "expand", "shortcut")
    block = [name for part in convolutions for name in (f"{part}.weight", f"{part}_norm.weight", f"{part}_norm.bias")]
    expected = ["root.weight", "root_norm.weight", "root_norm.bias", "project.weight", "project.bias"]
    expected += [f"stages.{stage}.0.{name}" for stage in range(2) for name in block]
    expected += [f"stages.1.1.{name}" for name in block if "shortcut" not in name]
    assert sorted(stem(depths=(1, 2)).state_dict()) == sorted(expected)


# ------------------------------------------------------------------------------------------------------ compiled


@pytest.mark.compiled
def test_export_with_any_batch_and_size():
    small = stem()
    dynamic = torch.export.Dim.DYNAMIC
    exported = torch.export.export(
        small, (torch.randn(2, 3, 48, 80),), dynamic_shapes=({0: dynamic, 2: dynamic, 3: dynamic},)
    ).module()
    images = torch.randn(3, 3, 64, 32)
    tokens = exported(images)
    assert tuple(tokens.grid) == (4, 2)
    assert_close(tokens.x, small(images).x)
