"""Weights for other images, patches, channels and classes: what is known of the result, and the line that tells it."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.adapting import adapt
from vitrail.nn.functional.maps import resize_filters, resizing

VIT = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "num_classes": 5, "image_size": (12, 20)}
SWIN = {"width": 8, "depths": (2, 2), "heads": 2, "window": (3, 3), "patch": 2, "num_classes": 5, "image_size": (12, 12)}
TABLES = {"position": "relative_table", "pool": "mean", "last_norm": "pooled"}
KINDS = {
    "class token": ("vit_tiny_patch16_224", VIT),
    "no class token": ("vit_tiny_patch16_224", VIT | {"prefix": 0, "pool": "mean"}),
    "antialiased": ("vit_tiny_patch16_224", VIT | {"prefix": 3, "position_antialias": True}),
    "by axis": ("vit_tiny_patch16_224", VIT | {"position": "learned_2d"}),
    "tables": ("vit_tiny_patch16_224", VIT | TABLES),
    "one table, bilinear": ("vit_tiny_patch16_224", VIT | TABLES | {"position_where": "layers", "position_resize": "bilinear"}),
    "sinusoidal": ("vit_tiny_patch16_224", VIT | {"position": "sinusoidal"}),
    "convolutions": (
        "vit_nano_conv",
        {"width": 12, "depth": 2, "heads": 3, "image_size": (16, 16), "patch": 4, "in_channels": 3},
    ),
    "swin": ("swin_tiny_patch4_window7_224", SWIN),
    "swin v2": ("swinv2_tiny_window8_256", SWIN | {"image_size": (16, 16)}),
    "resnet": ("resnet8_32", {"in_channels": 3}),
}


def make(kind, **more):
    torch.manual_seed(3)
    name, options = KINDS[kind]
    model = vt.create_model(name, **(options | more)).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(8, 28), (24, 24)])
def test_another_size_gives_what_the_model_gives_at_that_size(kind, size):
    model = make(kind)
    again, notes = adapt(model, image_size=size)
    assert again.image_size == again.preprocessing.size == size
    assert len(notes) == 1
    assert "\n" not in notes[0]
    images = torch.randn(2, 3, *size)
    with torch.inference_mode():
        expected = model(images)
        assert_close(again(images), expected, atol=1e-5, rtol=1e-5)
        assert expected.std() > 0.01


def test_notes_name_the_grids():
    assert adapt(make("class token"), image_size=(24, 24))[1] == ("positions: 3x5 rows resized to 6x6 (bicubic)",)
    assert adapt(make("antialiased"), image_size=(24, 24))[1] == ("positions: 3x5 rows resized to 6x6 (bicubic, antialiased)",)
    assert adapt(make("tables"), image_size=(24, 24))[1] == (
        "relative positions: tables of 5x9 offsets resized to 11x11 (bicubic)",
    )
    assert adapt(make("swin"), image_size=(24, 24))[1] == ("images of 24x24 instead of 12x12: no weight depends on it",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_channels_that_are_alike_give_what_they_gave(kind, channels):
    model = make(kind)
    again, notes = adapt(model, in_channels=channels)
    gray = torch.randn(2, 1, *model.image_size)
    with torch.inference_mode():
        expected = model(gray.expand(-1, 3, -1, -1))
        assert_close(again(gray.expand(-1, channels, -1, -1)), expected, atol=1e-4, rtol=1e-4)
    assert again.preprocessing.channels == channels
    assert len(notes) == 1
    assert notes[0].startswith(f"3 input channels became {channels}: ")


def test_one_channel_is_read_by_the_sum_of_the_filters():
    model = make("class token")
    again, notes = adapt(model, in_channels=1)
    filters = model.tokenizer.project.weight.view(12, 3, 16)
    assert_close(again.tokenizer.project.weight, filters.sum(1))
    assert notes == ("3 input channels became 1: their filters are added up",)


@pytest.mark.parametrize("new", [(5, 5), (7, 9), (16, 16)])
def test_filters_of_larger_patches_answer_as_the_old_ones(new):
    torch.manual_seed(0)
    filters, patch = torch.randn(7, 3, 5, 4), torch.randn(3, 5, 4, dtype=torch.float64)
    larger = resizing(5, new[0]) @ patch @ resizing(4, new[1]).T
    found = torch.einsum("chw,dchw->d", larger, resize_filters(filters, new).double())
    assert_close(found, torch.einsum("chw,dchw->d", patch, filters.double()), atol=1e-5, rtol=1e-5)


def test_the_matrix_resizes_a_side():
    image = torch.randn(7, 9, dtype=torch.float64)
    expected = torch.nn.functional.interpolate(image[None, None], size=(4, 13), mode="bicubic", antialias=True)[0, 0]
    assert_close(resizing(7, 4) @ image @ resizing(9, 13).T, expected)


def test_filters_of_smaller_patches_are_the_best_there_are():
    """Least squares over patches: what is left is at right angles to all that smaller patches can tell."""
    torch.manual_seed(0)
    filters, way = torch.randn(1, 1, 8, 8, dtype=torch.float64), torch.kron(resizing(8, 5), resizing(8, 5))
    found = resize_filters(filters, (5, 5)).flatten()
    rest = filters.flatten() - way.T @ found
    assert_close(way @ rest, torch.zeros(25, dtype=torch.float64), atol=1e-9, rtol=0)


def test_another_patch():
    model = make("class token")
    again, notes = adapt(model, patch=8, image_size=(24, 40))
    assert again.config.patch == 8
    assert notes == ("patches of 4x4 resampled to 8x8 (pseudo-inverse of the resizing)",)
    images = torch.randn(2, 3, 12, 20)
    # each patch is resized by itself, so that pixels beside its edges are not seen
    cut = images.unfold(2, 4, 4).unfold(3, 4, 4)  # b c h w 4 4
    way = resizing(4, 8).float()
    larger = (way @ cut @ way.T).permute(0, 1, 2, 4, 3, 5).reshape(2, 3, 24, 40)
    with torch.inference_mode():
        assert_close(again(larger), model(images), atol=1e-5, rtol=1e-5)
    with_rows = adapt(model, patch=2)
    assert with_rows[1][1:] == ("positions: 3x5 rows resized to 6x10 (bicubic)",)
    assert with_rows[0](images).shape == (2, 5)


def test_classes():
    model = make("class token")
    model.labels = tuple("abcde")
    same, notes = adapt(model, num_classes=5)
    assert notes == ()
    assert same.labels == model.labels
    again, notes = adapt(model, num_classes=3, labels=("x", "y", "z"))
    assert notes == ("the head is drawn anew (5 classes became 3) and has to be trained: vitrail train --weights",)
    assert again.labels == ("x", "y", "z")
    images = torch.randn(2, 3, 12, 20)
    assert again(images).shape == (2, 3)
    assert torch.equal(again.forward_features(images).x, model.forward_features(images).x)
    assert model(images).shape == (2, 5)  # the first one is as it was
    features, notes = adapt(model, num_classes=0)
    assert notes == ("the head of 5 classes is left out: features",)
    assert features.labels is None
    assert adapt(features, num_classes=2)[1][0].startswith("the head is drawn anew (there was none, now 2 classes)")
    assert adapt(model, labels=("v", "w", "x", "y", "z"))[0].labels == ("v", "w", "x", "y", "z")


def test_windows():
    model = make("swin")
    again, notes = adapt(model, window=(6, 6))
    assert notes == ("relative positions: tables of 5x5 offsets resized to 11x11 (bicubic)",)
    assert again(torch.randn(1, 3, 12, 12)).shape == (1, 5)
    second, notes = adapt(make("swin v2"), window=(6, 6))
    assert second.config.pretrained_windows == (3, 3)


def test_preprocessing_of_new_channels_is_the_mean_of_the_old():
    model = make("class token")
    model.preprocessing = replace(model.preprocessing, mean=(0.1, 0.2, 0.6), std=(0.2, 0.3, 0.4))
    found = adapt(model, in_channels=2)[0].preprocessing
    assert found.mean == pytest.approx((0.3, 0.3))
    assert found.std == pytest.approx((0.3, 0.3))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"image_size": (13, 20)}, "13"),
        ({"window": (3, 3)}, "m.pth: a model of the kind vit has no window to change"),
        ({"depth": 3}, "a model with these changes has other weights, such as encoder.blocks.2"),
        ({"width": 24}, r"of shape \(12, 48\) cannot be brought to \(24, 48\)"),
        ({"labels": ("a", "b"), "num_classes": 3}, "2 labels for 3 classes"),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(VitrailError, match=words):
        adapt(make("class token"), what="m.pth", **changes)


def test_of_what_learns_without_labels_the_backbone_goes_on():
    from vitrail.models.masked_autoencoder import MAEConfig, build_mae
    from vitrail.records import to_record

    model = build_mae(
        MAEConfig(backbone=to_record(make("class token").config), decoder_width=8, decoder_depth=1, decoder_heads=2)
    )
    assert adapt(model) == (model, ())
    again, notes = adapt(model, num_classes=4)
    assert again.architecture == "vit"
    assert again.num_classes == 4
    assert notes[0] == "what learns without labels is left out of this mae: its backbone goes on"
