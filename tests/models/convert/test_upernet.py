"""UPerNet on Swin and BEiT that segments against transformers', with copied weights."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.models.convert.upernet import from_segmenting_beit, from_upernet
from vitrail.models.segmenter import build_segmenter
from vitrail.nn.functional.maps import stretch

SWIN = {"embed_dim": 6, "depths": [1, 2, 1], "num_heads": [1, 2, 3], "window_size": 3, "patch_size": 2, "image_size": 24}
HEADS = {"auxiliary_channels": 10, "num_labels": 5}
BEIT = {
    "hidden_size": 12, "num_hidden_layers": 5, "num_attention_heads": 3, "intermediate_size": 29, "image_size": 20,
    "patch_size": 5, "out_indices": [2, 3, 4, 5], **HEADS, "auxiliary_channels": 12,
}  # fmt: skip


def shaken(model):
    """Zero biases, equal norms and untouched statistics would hide a mistake."""
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.is_floating_point():
            noise = 0.2 * torch.randn_like(value)
            value.data.add_(noise.abs() if name.endswith("var") else noise)
    return model.eval()


@pytest.fixture(scope="module")
def upernet():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    backbone = transformers.SwinConfig(**SWIN, out_features=["stage1", "stage2", "stage3"])
    config = transformers.UperNetConfig(backbone_config=backbone, hidden_size=10, auxiliary_in_channels=24, **HEADS)
    return shaken(transformers.UperNetForSemanticSegmentation(config))


@pytest.fixture(scope="module", params=["use_relative_position_bias", "use_shared_relative_position_bias"])
def beit(request):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return shaken(transformers.BeitForSemanticSegmentation(transformers.BeitConfig(**BEIT, **{request.param: True})))


def test_upernet_on_swin(upernet):
    config, weights, notes = from_upernet(upernet.state_dict(), upernet.config.to_dict())
    ours = build_segmenter(config).eval()
    ours.load_state_dict(weights)
    images = torch.randn(2, 3, 24, 40)
    with torch.inference_mode():
        theirs = upernet(images).logits
        logits, (helped,) = ours.forward_training(images)
        inside = upernet.auxiliary_head(upernet.backbone.forward_with_filtered_kwargs(images).feature_maps)
    assert_close(logits, theirs, atol=1e-4, rtol=1e-4)
    assert_close(helped, stretch(inside, (24, 40)), atol=1e-4, rtol=1e-4)
    assert theirs.std(dim=(0, 2, 3)).min() > 0.01  # not a comparison of constants
    assert (notes, config.auxiliary, config.layers) == ([], (2,), (0, 1, 2))


def test_beit_that_segments(beit):
    config, weights, _ = from_segmenting_beit(beit.state_dict(), beit.config.to_dict())
    ours = build_segmenter(config).eval()
    ours.load_state_dict(weights)
    images = torch.randn(2, 3, 20, 20)
    with torch.inference_mode():
        theirs = beit(images).logits  # on the grid of their finest map
        assert_close(ours(images), stretch(theirs, (20, 20)), atol=1e-4, rtol=1e-4)
    assert theirs.std(dim=(0, 2, 3)).min() > 0.01
    assert (config.layers, config.auxiliary, config.head_width) == ((0, 1, 2, 3), (2,), 12)


def test_a_folder_of_upernet_is_read(upernet, tmp_path):
    check_folder(upernet, tmp_path, size=(24, 24))


def test_a_folder_of_beit_is_read(beit, tmp_path):
    check_folder(beit, tmp_path, size=(20, 20))


def check_folder(theirs, tmp_path, *, size):
    theirs.config.id2label = dict(enumerate(("sky", "road", "car", "tree", "house")))
    theirs.save_pretrained(tmp_path)
    with pytest.warns(VitrailWarning, match="mean and std of the images' colors"):
        model = vt.load(tmp_path)
    images = torch.randn(1, 3, *size)
    with torch.inference_mode():
        assert_close(model(images), stretch(theirs(images).logits, size), atol=1e-4, rtol=1e-4)
    assert model.labels == ("sky", "road", "car", "tree", "house")
    assert model.preprocessing.size == model.image_size == size


def test_an_auxiliary_head_of_another_form_is_left_out(upernet):
    record = upernet.config.to_dict() | {"auxiliary_num_convs": 2}
    config, weights, notes = from_upernet(upernet.state_dict(), record)
    assert config.auxiliary == ()
    assert not any(name.startswith("auxiliary") for name in weights)
    assert "left out" in notes[0]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"backbone_config": {"model_type": "convnext"}}, "must be a swin, got convnext"),
        ({"backbone_config": None}, "must be a swin, got None"),
        ({"pool_scales": [1, 2]}, "pool_scales must be"),
        ({"hidden_size": 10**9}, "hidden_size must be a whole number"),
        ({"hidden_size": 11}, "must have the shape"),
    ],
)
def test_records_that_no_model_of_ours_can_follow_are_refused(upernet, changes, rule):
    with pytest.raises(VitrailError, match=rule):
        from_upernet(upernet.state_dict(), upernet.config.to_dict() | changes)


@pytest.mark.parametrize("indices", [[1, 2, 3, 4], [2, 3, 4, 9], [2, 3], None, "all", [2, 3, 4, True]])
def test_maps_that_are_not_there_are_refused(beit, indices):
    with pytest.raises(VitrailError, match="out_indices must be"):
        from_segmenting_beit(beit.state_dict(), beit.config.to_dict() | {"out_indices": indices})


def test_weights_without_a_record_are_refused(upernet, tmp_path):
    upernet.save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(VitrailError, match=r"expected config\.json"):
        vt.load(tmp_path / "model.safetensors")
