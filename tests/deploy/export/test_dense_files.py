"""Exported detectors, segmenters and models of volumes: what their files compute, and what they say of it."""

import json
from functools import partial

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.deploy.export.interface import as_tuple
from vitrail.deploy.export.metadata import metadata_of
from vitrail.deploy.export.onnx_file import open_onnx
from vitrail.deploy.export.openvino_file import open_openvino
from vitrail.deploy.export.pt2_file import open_pt2
from vitrail.run.export import export_model, interface_of

pytestmark = pytest.mark.compiled
WRITERS = {
    "onnx": (partial(export_model, format="onnx"), open_onnx),
    "openvino": (partial(export_model, format="openvino"), open_openvino),
    "pt2": (partial(export_model, format="pt2"), open_pt2),
}
SMALL = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "decoder_depth": 1, "image_size": (32, 48), "num_classes": 3}
MADE = {
    "plain": lambda: vt.create_model("detr_micro_plain", queries=5, **SMALL),
    "selected": lambda: vt.create_model("detr_micro", queries=5, **SMALL),
    "segmenter": lambda: vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=3, image_size=(26, 34)),
    "unetr": lambda: vt.create_model(
        "unetr_micro", width=8, heads=2, depth=3, features=2, patch=4, image_size=(8, 12, 8), num_classes=3
    ),
    "convfree": lambda: vt.create_model("convfree_micro", width=8, heads=2, depth=1, patch=4, image_size=(8, 12, 8)),
}


def check_export(name, format, folder):
    torch.manual_seed(0)
    model = MADE[name]().eval()
    write, open_file = WRITERS[format]
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(5, model.config.in_channels, *model.image_size, generator=generator)
    done = write(model, folder / "file", images=images, dynamic_size="auto", check=True)
    assert (done.step, done.size) == (None, model.image_size)
    assert done.parity.deviation < 2e-5
    run, more = open_file(done.path), torch.randn(6, *images.shape[1:], generator=generator)
    with torch.inference_mode():
        expected = as_tuple(interface_of(model).module(more))
    found = as_tuple(run(more))
    assert len(found) == len(expected) == len(interface_of(model).outputs)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol=2e-5, rtol=1e-4)
    return done.path


@pytest.mark.parametrize("name, format", [("plain", "onnx"), ("unetr", "onnx")])
def test_a_file_answers_as_its_model_does(name, format, tmp_path):
    path = check_export(name, format, tmp_path)
    if format != "onnx":
        return
    onnx = pytest.importorskip("onnx")
    proto = onnx.load(path)
    named = {one.name: [dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in proto.graph.output}
    if name == "plain":
        assert named == {"logits": ["batch", 5, 4], "boxes": ["batch", 5, 4]}
    else:
        assert (proto.graph.input[0].name, named) == ("volumes", {"logits": ["batch", 3, 8, 12, 8]})


@pytest.mark.slow
@pytest.mark.parametrize("format", list(WRITERS))
@pytest.mark.parametrize("name", list(MADE))
def test_every_kind_in_every_format(name, format, tmp_path):
    check_export(name, format, tmp_path)


@pytest.mark.parametrize("name, score", [("plain", "the last one is: nothing"), ("selected", "before sigmoid")])
def test_what_the_numbers_of_a_detector_mean(name, score):
    model = MADE[name]()
    about = {key: json.loads(text) for key, text in metadata_of(model, interface_of(model)).items()}
    assert (about["task"], about["input"], list(about["outputs"])) == ("object-detection", "images", ["logits", "boxes"])
    assert score in about["outputs"]["logits"]
    assert "center x, center y, width, height, in shares" in about["outputs"]["boxes"]
    assert about["preprocessing"]["fit"] == "squash"


def test_what_a_scan_must_become():
    model = vt.create_model("convfree_micro", spacing=(1.5, 1.5, 2.0), window=(-100.0, 200.0), values=(0, 7))
    about = {key: json.loads(text) for key, text in metadata_of(model, interface_of(model), size=(16, 16, 24)).items()}
    assert about["preprocessing"] == {
        "size": [16, 16, 24], "channels": 1, "axes": "RAS", "spacing": [1.5, 1.5, 2.0], "window": [-100, 200], "values": [0, 7],
    }  # fmt: skip
    assert (about["input"], about["output"], about["size_step"]) == ("volumes", "logits", None)


def test_which_number_of_masks_is_which_class():
    model = vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=3, values=(1, 2, 300))
    assert json.loads(metadata_of(model, interface_of(model))["config"])["values"] == [1, 2, 300]
