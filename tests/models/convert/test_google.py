"""Google's .npz files. The forward pass here is written from flax's definition of the layers, on arrays in flax's layout, and uses nothing of ours.

b batch, n tokens, d width, h heads, e width of a head
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.convert.google import to_google
from vitrail.models.convert.origins import Origin, convert
from vitrail.models.vit import ViTConfig, build_vit

SMALL = {"width": 12, "depth": 2, "heads": 3, "mlp_ratio": 2.0, "patch": 4, "image_size": (12, 12), "num_classes": 5}
CASES = {
    "token": {},
    "mean": {"prefix": 0, "pool": "mean"},
    "pre_logits": {"head_hidden": 7},
    "features": {"num_classes": 0},
    "hybrid": {"tokenizer": "resnet", "tokenizer_depths": (1, 2), "patch": 8, "image_size": (24, 24)},
    "root": {"tokenizer": "resnet", "tokenizer_depths": (), "patch": 8, "image_size": (24, 24)},
}


def layer_norm(x, w, name):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    return (x - mean) / (variance + 1e-6).sqrt() * w[f"{name}/scale"] + w[f"{name}/bias"]


def dense(x, w, name):
    return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]


def attention(x, w, name):
    """flax's MultiHeadDotProductAttention: a DenseGeneral of axes (h, e) for each of three, and one over both axes out of them."""
    query, key, value = (
        torch.einsum("bnd,dhe->bnhe", x, w[f"{name}/{part}/kernel"]) + w[f"{name}/{part}/bias"]
        for part in ("query", "key", "value")
    )
    weights = torch.einsum("bqhe,bkhe->bhqk", query / query.shape[-1] ** 0.5, key).softmax(-1)
    return torch.einsum("bhqk,bkhe,hed->bqd", weights, value, w[f"{name}/out/kernel"]) + w[f"{name}/out/bias"]


def same(x, kernel, stride):
    total = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
    return F.pad(x, (total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2))


def standardized(x, w, name, stride=1):
    kernel = w[f"{name}/kernel"]  # height width in out
    kernel = (kernel - kernel.mean((0, 1, 2))) / (kernel.std((0, 1, 2), correction=0) + 1e-5)
    return F.conv2d(same(x, len(kernel), stride), kernel.permute(3, 2, 0, 1), stride=stride)


def group_norm(x, w, name):
    groups = x.unflatten(1, (32, -1))
    mean, variance = groups.mean((2, 3, 4), keepdim=True), groups.var((2, 3, 4), keepdim=True, correction=0)
    scale, bias = (w[f"{name}/{part}"].flatten()[:, None, None] for part in ("scale", "bias"))
    return ((groups - mean) / (variance + 1e-6).sqrt()).flatten(1, 2) * scale + bias


def unit(x, w, name, stride):
    """ResidualUnit: a convolution in the shortcut where the shape changes."""
    rest = x
    if f"{name}/conv_proj/kernel" in w:
        rest = group_norm(standardized(x, w, f"{name}/conv_proj", stride), w, f"{name}/gn_proj")
    y = group_norm(standardized(x, w, f"{name}/conv1"), w, f"{name}/gn1").relu()
    y = group_norm(standardized(y, w, f"{name}/conv2", stride), w, f"{name}/gn2").relu()
    return (rest + group_norm(standardized(y, w, f"{name}/conv3"), w, f"{name}/gn3")).relu()


def forward(w, images):
    """VisionTransformer of Google's repository: resnet, patches, class token, positions, blocks, head."""
    x = images
    if "conv_root/kernel" in w:
        x = group_norm(standardized(x, w, "conv_root", 2), w, "gn_root").relu()
        x = F.max_pool2d(same(x, 3, 2), 3, stride=2)
        for block in range(1, 9):
            for number in range(1, 9):
                if f"block{block}/unit{number}/conv1/kernel" in w:
                    x = unit(x, w, f"block{block}/unit{number}", 2 if block > 1 and number == 1 else 1)
    kernel = w["embedding/kernel"]  # height width in out
    x = F.conv2d(x, kernel.permute(3, 2, 0, 1), w["embedding/bias"], stride=len(kernel)).flatten(2).transpose(1, 2)
    if "cls" in w:
        x = torch.cat([w["cls"].expand(len(x), -1, -1), x], dim=1)
    x = x + w["Transformer/posembed_input/pos_embedding"]
    for number in range(2):
        name = f"Transformer/encoderblock_{number}"
        x = x + attention(layer_norm(x, w, f"{name}/LayerNorm_0"), w, f"{name}/MultiHeadDotProductAttention_1")
        y = F.gelu(dense(layer_norm(x, w, f"{name}/LayerNorm_2"), w, f"{name}/MlpBlock_3/Dense_0"))
        x = x + dense(y, w, f"{name}/MlpBlock_3/Dense_1")
    x = layer_norm(x, w, "Transformer/encoder_norm")
    x = x[:, 0] if "cls" in w else x.mean(1)
    x = dense(x, w, "pre_logits").tanh() if "pre_logits/kernel" in w else x
    return dense(x, w, "head") if "head/kernel" in w else x


@pytest.fixture(params=CASES)
def written(request, tmp_path):
    """What is in a file with Google's names and layouts, every number drawn, and the config that it was drawn for."""
    config = ViTConfig(**(SMALL | CASES[request.param]))
    torch.manual_seed(0)
    with torch.device("meta"):
        shapes = to_google(build_vit(config).state_dict(), config)
    drawn = {
        name: torch.randn(tensor.shape) / (1 if "conv" in name else max(tensor[..., 0].numel(), 4) ** 0.5)
        for name, tensor in shapes.items()
    }
    np.savez(tmp_path / "model.npz", **{name: tensor.numpy() for name, tensor in drawn.items()})
    with np.load(tmp_path / "model.npz") as stored:
        return request.param, config, {name: torch.from_numpy(stored[name]) for name in stored}


def test_the_same_answers_and_back(written):
    name, config, tensors = written
    converted = convert(tensors)
    assert converted.origin == Origin("google", "hybrid" if "conv_root/kernel" in tensors else "vit")
    ours = build_vit(converted.config).eval()
    ours.load_state_dict(converted.weights)
    assert ours.config == build_vit(config).config, name  # heads, too: they have an axis of their own
    images = torch.randn(2, 3, *config.image_size)
    with torch.inference_mode():
        expected = forward(tensors, images)
        assert_close(ours(images), expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1
    again = to_google(ours.state_dict(), converted.config)
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[key], tensors[key]) for key in tensors)


def test_the_names_and_shapes_of_a_file():
    """As in Google's repository, of width 12 with 3 heads of 4."""
    config = ViTConfig(**SMALL)
    shapes = {name: tuple(tensor.shape) for name, tensor in to_google(build_vit(config).state_dict(), config).items()}
    block = "Transformer/encoderblock_1/"
    assert shapes["embedding/kernel"] == (4, 4, 3, 12)
    assert shapes["Transformer/posembed_input/pos_embedding"] == (1, 10, 12)
    assert shapes["cls"] == (1, 1, 12)
    assert shapes[f"{block}MultiHeadDotProductAttention_1/query/kernel"] == (12, 3, 4)
    assert shapes[f"{block}MultiHeadDotProductAttention_1/key/bias"] == (3, 4)
    assert shapes[f"{block}MultiHeadDotProductAttention_1/out/kernel"] == (3, 4, 12)
    assert shapes[f"{block}MlpBlock_3/Dense_0/kernel"] == (12, 24)
    assert shapes["head/kernel"] == (12, 5)
    assert len(shapes) == 8 + 2 * 16


def test_other_ways_of_writing_and_what_is_refused():
    config = ViTConfig(**(SMALL | CASES["hybrid"]))
    theirs = to_google(build_vit(config).state_dict(), config)
    first = convert(theirs).weights
    older = {f"opt/target/{name}": tensor[None, None, None] if "gn" in name else tensor for name, tensor in theirs.items()}
    assert all(torch.equal(tensor, first[name]) for name, tensor in convert(older).weights.items())
    with pytest.raises(VitrailError, match="1 weights have no place in a model of Google's, such as MAPHead_0/probe"):
        convert(theirs | {"MAPHead_0/probe": torch.zeros(1)})
    lacking = "Transformer/encoderblock_1/MultiHeadDotProductAttention_1/value/bias"
    with pytest.raises(VitrailError, match=r"a weight of this model is missing: value of blocks\.1"):
        convert({name: tensor for name, tensor in theirs.items() if name != lacking})
    with pytest.raises(VitrailError, match="Google's files are of plain ViTs"):
        to_google({}, ViTConfig(**SMALL, layer_scale=0.1))
