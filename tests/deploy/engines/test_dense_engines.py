"""Detectors and segmenters by other engines than torch: the same boxes, and the masks of the same windows."""

import numpy as np
import pytest
import torch
from PIL import Image

import vitrail as vt
from vitrail.deploy.engines import missing
from vitrail.models.dense_inference import Inference
from vitrail.tasks.segment.predict import Pipeline

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITRAIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def images():
    generator = np.random.default_rng(0)
    return [Image.fromarray(generator.integers(0, 256, (height, 40, 3), np.uint8)) for height in (30, 64)]


def test_boxes_are_torchs(images):
    if (lack := missing("openvino")) is not None:
        pytest.skip(lack)
    torch.manual_seed(0)
    small = {"width": 16, "heads": 2, "hidden": 16, "depth": 1, "decoder_depth": 1}
    model = vt.create_model("detr_micro_plain", queries=5, image_size=32, num_classes=3, **small).eval()
    expected = vt.pipeline("object-detection", model)(images, threshold=0)
    detect = vt.pipeline("object-detection", model, engine="openvino")
    for one, other in zip(detect(images, threshold=0), expected, strict=True):
        assert [(row["label"], row["box"]) for row in one] == [(row["label"], row["box"]) for row in other]
        assert [row["score"] for row in one] == pytest.approx([row["score"] for row in other], abs=1e-5)
    assert detect.engine_report == "openvino"


def test_masks_are_those_of_windows(images):
    if (lack := missing("onnxruntime")) is not None:
        pytest.skip(lack)
    torch.manual_seed(0)
    model = vt.create_model("segmenter_linear_vit_micro_hybrid", num_classes=3, image_size=24).eval()
    windows = Pipeline(model, how=Inference(window=(24, 24)))
    segment = vt.pipeline("image-segmentation", model, engine="onnxruntime")
    for image in images:
        one, other = segment.segment(image), windows.segment(image)
        assert np.abs(one.scores - other.scores).max() < 1e-5
        assert (one.numbers == other.numbers).mean() > 0.999
    with pytest.raises(vt.VitrailError, match="the engine onnxruntime computes windows of 24x24, the model's own"):
        Pipeline(model, how=Inference(window=(12, 24)), engine="onnxruntime")
    with pytest.raises(
        vt.VitrailError, match='engine="auto" is for image-classification, image-segmentation, object-detection'
    ):
        vt.pipeline("image-to-image", model, engine="auto")
