"""torch.compile and torch.export; run without the shape checks, which neither can trace."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.models.parts import POSITIONS

pytestmark = pytest.mark.compiled
QUICK = ("none", "learned_2d", "relative_shaw", "relative_table", "rotary", "selected", "swin_nano_patch2_window4_32")
OPTIONS = {"width": 48, "heads": 3, "depth": 2, "image_size": 32, "num_classes": 7}


def mostly_slow(names):
    """A few of a kind in `make test`, the others in `make test-slow`: what breaks one breaks those like it."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("position", mostly_slow(POSITIONS))
def test_export_with_a_free_batch(position):
    model = vt.create_model("vit_tiny_patch16_224", position=position, **OPTIONS).eval()
    program = torch.export.export(model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    images = torch.randn(5, 3, 32, 32)
    assert_close(program.module()(images), model(images))


@pytest.mark.parametrize("kind", mostly_slow(["learned", "anchor", "selected"]))
def test_a_detector_is_exported_with_a_free_batch(kind):
    sizes = {"width": 24, "heads": 3, "hidden": 29, "decoder_depth": 2, "queries": 7, "num_classes": 5, "image_size": 32}
    model = vt.create_model("detr_micro", query_kind=kind, denoising=0, **sizes).eval()
    with torch.no_grad():
        program = torch.export.export(
            model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},)
        )
        images = torch.randn(5, 3, 32, 32)
        found, expected = program.module()(images), model(images)
    assert_close(found.logits, expected.logits)
    assert_close(found.boxes, expected.boxes)


ONE_OF_A_KIND = [
    "absolute_qk",
    "relative_shaw",
    "relative_projected_1d",
    "relative_table",
    "continuous_bias",
    "rotary",
    "alibi",
    "conditional",
]


@pytest.mark.parametrize(
    "position, where",
    [
        *(pytest.param(name, "auto", marks=() if name in QUICK else pytest.mark.slow) for name in ONE_OF_A_KIND),
        ("learned_1d", "layers"),
        ("sinusoidal_2d", "layers_apart"),
    ],
)
def test_compile_of_every_kind_of_position(position, where):
    torch._dynamo.reset()  # else the ninth model is one too many for the same code
    model = vt.create_model("vit_tiny_patch16_224", position=position, position_where=where, **OPTIONS).eval()
    images = torch.randn(2, 3, 32, 32)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(images), model(images), atol=1e-5, rtol=1e-5)


def test_tokens_cross_export():
    class Features(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, images):
            return self.model.forward_features(images)

    model = vt.create_model("vit_tiny_patch16_224", **OPTIONS).eval()
    images = torch.randn(2, 3, 32, 32)
    tokens = torch.export.export(Features(model), (images,)).module()(images)
    assert isinstance(tokens, vt.Tokens)
    assert (tokens.grid, tokens.prefix) == ((2, 2), 1)


def test_compile_gives_the_same_and_leaves_no_graph_break():
    model = vt.create_model("vit_nano_conv", image_size=16).eval()
    images = torch.randn(2, 3, 16, 16)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(images), model(images), atol=1e-5, rtol=1e-5)
    with pytest.raises(vt.VitrailError, match="compiled model"), vt.explain.record(compiled):
        pass


@pytest.mark.parametrize("name", mostly_slow(["swin_nano_patch2_window4_32", "swinv2_nano_window4_32"]))
def test_windows_compile_and_cross_export(name):
    """Also behind a pass in inference mode, which leaves what it prepared on the layers."""
    torch._dynamo.reset()
    model = vt.create_model(name, depths=(2, 1), image_size=(18, 22)).eval()
    images = torch.randn(2, 3, 18, 22)
    with torch.inference_mode():
        model(images)
    program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    more = torch.randn(5, 3, 18, 22)
    assert_close(program.module()(more), model(more), atol=1e-5, rtol=1e-5)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(images), model(images), atol=1e-5, rtol=1e-5)
    model.train()(images).sum().backward()


@pytest.mark.parametrize("name", ["segmenter_mask_vit_micro_hybrid", "upernet_vit_micro_hybrid", "trans2seg_vit_micro_hybrid"])
def test_export_of_segmenters_of_images_that_are_not_whole_cells(name):
    model = vt.create_model(name, num_classes=3, image_size=(30, 44)).eval()
    program = torch.export.export(model, (torch.randn(2, 3, 30, 44),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    images = torch.randn(3, 3, 30, 44)
    assert_close(program.module()(images), model(images), atol=1e-5, rtol=1e-5)
