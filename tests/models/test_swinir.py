import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain.windows import window_read
from vitrail.models.catalogue import count_parameters
from vitrail.models.swinir import MEAN
from vitrail.nn.functional.bicubic import resize_bicubic

TINY = {"width": 12, "depths": (2, 3), "heads": 3, "window": 4, "features": 5}
KINDS = {
    "none": {"scale": 1},
    "gray": {"upsampler": "none", "scale": 1, "in_channels": 1, "out_channels": 1},
    "direct": {"scale": 3},
    "pixelshuffle": {"scale": 4},
    "nearest_conv": {"scale": 4},
    "three": {"upsampler": "direct", "scale": 2, "last_convolutions": 3},
    "bicubic": {"upsampler": "direct", "scale": 2, "over_bicubic": True},
    "unshuffle": {"upsampler": "none", "scale": 1, "unshuffle": 2},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def tiny(kind="direct", *, drawn=True, **options):
    """Small, and with weights large enough that every layer matters."""
    torch.manual_seed(0)
    options = {**TINY, "upsampler": kind, "over_bicubic": False, **KINDS[kind], **options}
    model = vt.create_model("swinir_nano_x2", **options).eval()
    if drawn:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5 * (max(1, parameter[0].numel()) ** -0.5 if parameter.ndim > 1 else 1.0))
    return model


# The published sizes


@pytest.mark.parametrize("scale, published, later", [(2, 878, 910_152), (3, 886, 918_267), (4, 897, 929_628)])
def test_lightweight_sizes(scale, published, later):
    """[Liang+ 2021, table 3] counts 878 k, 886 k and 897 k: without the relative tables, 24 x 225 x 6. Later papers count these too."""
    with torch.device("meta"):
        model = vt.create_model(f"swinir_light_x{scale}")
    assert count_parameters(model) == later
    tables = sum(p.numel() for name, p in model.named_parameters() if name.endswith("position.table"))
    assert tables == 24 * 225 * 6
    assert round((later - tables) / 1000) == published


@pytest.mark.parametrize(
    "name, expected",
    [("classical_x2", 11_752_487), ("classical_x4", 11_900_199), ("real_x4", 11_715_559), ("denoise", 11_504_163)],
)
def test_middle_sizes_by_hand(name, expected):
    """Six groups of six blocks with 180 channels, then what each head has."""
    width, table = 180, 225 * 6
    block = 2 * 2 * width + 4 * (width * width + width) + table + (width * 360 + 360) + (360 * width + width)

    def convolution(before, after):
        return 9 * before * after + after

    body = convolution(3, width) + 6 * (6 * block + convolution(width, width)) + convolution(width, width) + 2 * 2 * width
    head = {
        "classical_x2": convolution(width, 64) + convolution(64, 256) + convolution(64, 3),
        "classical_x4": convolution(width, 64) + 2 * convolution(64, 256) + convolution(64, 3),
        "real_x4": convolution(width, 64) + 3 * convolution(64, 64) + convolution(64, 3),
        "denoise": convolution(width, 3),
    }[name]
    with torch.device("meta"):
        assert count_parameters(vt.create_model(f"swinir_{name}")) == body + head == expected


# What it computes


def reference(model, images):
    """SwinIR written out: every pixel looks at every pixel, and all that are not in its window are left out of the softmax."""
    c, w = model.config, dict(model.state_dict())
    height, width = images.shape[2:]
    pads = [(-side) % (c.window * c.unshuffle) for side in (height, width)]
    x = torch.from_numpy(np.pad(images.numpy(), [(0, 0), (0, 0), (0, pads[0]), (0, pads[1])], mode="symmetric"))
    mean = torch.tensor(MEAN if c.in_channels == 3 else (0.0,)).view(1, -1, 1, 1)

    def conv(name, x):
        return F.conv2d(x, w[f"{name}.weight"], w[f"{name}.bias"], padding=w[f"{name}.weight"].shape[-1] // 2)

    def closing(name, x):
        if c.last_convolutions == 1:
            return conv(name, x)
        return conv(f"{name}.4", F.leaky_relu(conv(f"{name}.2", F.leaky_relu(conv(f"{name}.0", x), 0.2)), 0.2))

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    n, channels, tall, wide, u = *x.shape, c.unshuffle
    cells = (x - mean).reshape(n, channels, tall // u, u, wide // u, u).permute(0, 1, 3, 5, 2, 4)  # n channels row column cells
    shallow = conv("first", cells.reshape(n, channels * u * u, tall // u, wide // u))
    b, d, gh, gw = shallow.shape
    ys, xs = torch.arange(gh).repeat_interleave(gw), torch.arange(gw).repeat(gh)

    def attention(name, z, shift):
        windows = torch.stack(
            [(ys - shift).div(c.window, rounding_mode="floor"), (xs - shift).div(c.window, rounding_mode="floor")]
        )
        together = (windows[:, :, None] == windows[:, None, :]).all(0)
        dy, dx = ((axis[:, None] - axis[None, :] + c.window - 1).clamp(0, 2 * c.window - 2) for axis in (ys, xs))
        bias = w[f"{name}.position.table"][dy * (2 * c.window - 1) + dx]
        q, k, v = (linear(f"{name}.attention.{part}", z) for part in ("query", "key", "value"))
        e = d // c.heads
        heads = []
        for h in range(c.heads):
            part = slice(h * e, (h + 1) * e)
            logits = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(e) + bias[..., h]
            heads.append(logits.masked_fill(~together, -torch.inf).softmax(-1) @ v[..., part])
        return linear(f"{name}.attention.output", torch.cat(heads, -1))

    tokens = norm("first_norm", shallow.reshape(b, d, -1).transpose(1, 2))
    for g, depth in enumerate(c.depths):
        z = tokens
        for n in range(depth):
            block = f"groups.{g}.encoder.blocks.{n}"
            z = z + attention(f"{block}.attention", norm(f"{block}.attention_norm", z), c.window // 2 if n % 2 else 0)
            hidden = F.gelu(linear(f"{block}.mlp.expand", norm(f"{block}.mlp_norm", z)))
            z = z + linear(f"{block}.mlp.contract", hidden)
        maps = closing(f"groups.{g}.convolution", z.transpose(1, 2).reshape(b, d, gh, gw))
        tokens = tokens + maps.reshape(b, d, -1).transpose(1, 2)
    deep = shallow + closing("after", norm("norm", tokens).transpose(1, 2).reshape(b, d, gh, gw))
    u = "upsampling"
    if c.upsampler == "none":
        out = F.pixel_shuffle(conv(f"{u}.0", deep), c.unshuffle) + x
    elif c.upsampler == "direct":
        out = F.pixel_shuffle(conv(f"{u}.0", deep), c.scale) + (0 if c.over_bicubic else mean)
    elif c.upsampler == "pixelshuffle":
        y = F.leaky_relu(conv(f"{u}.0", deep), 0.01)
        y = F.pixel_shuffle(conv(f"{u}.4", F.pixel_shuffle(conv(f"{u}.2", y), 2)), 2)
        out = conv(f"{u}.6", y) + mean
    else:
        y = F.leaky_relu(conv(f"{u}.before", deep), 0.01)
        for step in range(2):
            y = F.leaky_relu(conv(f"{u}.enlarged.{step}", y.repeat_interleave(2, 2).repeat_interleave(2, 3)), 0.2)
        out = conv(f"{u}.last", F.leaky_relu(conv(f"{u}.large", y), 0.2)) + mean
    out = out[..., : height * c.scale, : width * c.scale]
    return out + resize_bicubic(images, float(c.scale)) if c.over_bicubic else out


@kinds
@torch.no_grad()
def test_the_same_as_written_out_pixel_by_pixel(kind):
    model = tiny(kind)
    images = torch.rand(2, model.config.in_channels, 9, 14)  # neither is made of whole windows
    expected = reference(model, images)
    assert expected.std() > 0.05
    assert_close(model(images), expected, atol=1e-5, rtol=1e-5)


@kinds
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (4, 4), (5, 13)])
def test_any_size(kind, size):
    model = tiny(kind)
    out = model(torch.rand(2, model.config.in_channels, *size))
    assert out.shape == (2, model.config.out_channels, *(model.scale * side for side in size))
    assert out.isfinite().all()
    assert model.size_multiple == 1


def test_a_new_one_gives_what_it_was_given():
    images = torch.rand(1, 3, 6, 11)
    assert_close(tiny("none", drawn=False)(images), images)
    assert_close(tiny("unshuffle", drawn=False)(images), images)
    assert_close(tiny("bicubic", drawn=False)(images), resize_bicubic(images, 2.0))


@pytest.mark.parametrize(
    "kind, depths", [("none", (2,)), ("three", (2,)), ("pixelshuffle", (1, 1)), ("bicubic", (2,)), ("unshuffle", (2,))]
)
def test_nothing_beyond_its_reach_changes_a_pixel(kind, depths):
    model = tiny(kind, depths=depths)
    side = 2 * model.reach + 9
    images = torch.rand(1, 3, side, 8).requires_grad_()
    row = side // 2
    model(images)[0, :, model.scale * row : model.scale * (row + 1)].square().sum().backward()
    seen = images.grad.abs().sum((0, 1, 3)).nonzero()[:, 0]
    assert row - model.reach <= seen.min()
    assert seen.max() <= row + model.reach
    assert seen.max() - seen.min() > 4  # it sees farther than a window
    assert model.tile_step == 4 * model.config.unshuffle


def test_attention_is_recorded_in_the_images_own_places():
    """Behind the shift of 2, the pixel (3, 3) stands in the window of the rows and columns 2 to 5, and reads all of it."""
    model, images = tiny("bicubic"), torch.rand(1, 3, 8, 12)
    with vt.explain.record(model) as seen:
        model(images)
    assert len(seen.layers) == 5
    assert seen.names[1] == "groups.0.encoder.blocks.1.attention.attention"
    windows = seen.about(1).windows
    assert windows.grid == (8, 12)
    read = window_read(seen.layers[1].mean(1), windows, (3, 3))[0]
    assert (read > 0).nonzero().tolist() == [[row, column] for row in range(2, 6) for column in range(2, 6)]
    assert read.sum().item() == pytest.approx(1.0)


def test_saved_and_loaded(tmp_path):
    model, images = tiny("pixelshuffle", degradation="sr4"), torch.rand(1, 3, 5, 6)
    loaded = vt.load(vt.save(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert loaded.config.degradation == "sr4"
    assert loaded(images).equal(model(images))


def test_a_row_of_the_table(command):
    line = command("models", "swinir_light_x2").out.splitlines()[1]
    assert line.split() == ["swinir_light_x2", "910,152", "60", "24", "6", "-", "restoration", "swinir"]


def test_it_learns_to_sharpen():
    """Stripes, halved: a few steps are better than bicubic."""
    torch.manual_seed(0)
    model = vt.create_model("swinir_nano_x2", width=12, depths=(2,), heads=2, window=4).train()
    phase, angle = 6 * torch.rand(4, 1, 1, 1), 3 * torch.rand(4, 1, 1, 1)
    ys, xs = torch.arange(16.0).view(-1, 1), torch.arange(16.0)
    large = 0.5 + 0.4 * ((ys * angle.sin() + xs * angle.cos()) * 1.2 + phase).sin().sign().expand(4, 3, 16, 16)
    small = resize_bicubic(large, 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        loss = (model(small) - large).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx((resize_bicubic(small, 2.0) - large).abs().mean().item(), rel=1e-4)
    assert losses[-1] < 0.9 * losses[0]
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize(
    "options, words",
    [
        ({"scale": 9}, "scale must be from 1 to 8"),
        ({"scale": 5, "upsampler": "pixelshuffle"}, "by 3 or by a power of two"),
        ({"unshuffle": 2}, 'unshuffle goes with upsampler "none", got 2 with upsampler "direct"'),
        ({"unshuffle": 0}, "unshuffle must be at least 1"),
        ({"upsampler": "none"}, "over_bicubic goes with an upsampler"),
        ({"upsampler": "none", "over_bicubic": False}, "scale must be 1, got 2"),
        ({"in_channels": 1}, "in_channels 1, out_channels 3"),
        ({"in_channels": 0}, "in_channels must be from 1"),
        ({"depths": ()}, "depths must be at least 1 for each stage"),
        ({"window": 0}, "window must be at least 1"),
        ({"heads": 5}, "multiple of the heads"),
        ({"width": 2, "last_convolutions": 3}, "too narrow"),
        ({"last_convolutions": 2}, "1, 3"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("swinir_nano_x2", **options)


def test_other_images_are_refused():
    with pytest.raises(VitrailError, match=r"shape \(b, 3, h, w\), got \(1, 1, 4, 4\)"):
        tiny("none")(torch.rand(1, 1, 4, 4))
    with pytest.raises(VitrailError, match=r"got \(1, 3, 0, 4\)"):
        tiny("none")(torch.rand(1, 3, 0, 4))


# Compiled


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["swinir_nano", "unet_nano", "vit_restorer_nano"])
def test_compile_leaves_no_graph_break_and_export_gives_the_same(name):
    small = {
        "swinir_nano": {"width": 8, "depths": (2,), "window": 4},
        "unet_nano": {"levels": 2},
        "vit_restorer_nano": {"depth": 1},
    }
    model, images = vt.create_model(name, **small[name]).eval(), torch.rand(1, 3, 9, 10)
    torch.nn.init.normal_(model.get_submodule(model.last_layer).weight)
    expected = model(images)
    assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(images), expected, atol=1e-5, rtol=1e-5)
    assert_close(torch.export.export(model, (images,)).module()(images), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.compiled
def test_over_bicubic_compiles_and_exports_too():
    model, images = tiny("bicubic"), torch.rand(1, 3, 9, 10)
    assert_close(torch.compile(model, backend="aot_eager")(images), model(images), atol=1e-5, rtol=1e-5)
    assert_close(torch.export.export(model, (images,)).module()(images), model(images), atol=1e-5, rtol=1e-5)
