"""Segmenters: any size of images, every head, weights that come along, files, and what is refused."""

import json

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.models.segmentation_heads import HEADS
from vitrail.models.segmenter import Segmenter, SegmenterConfig, build_segmenter, segmenter_on
from vitrail.records import from_record, to_record

ENCODERS = {
    "vit": {"network": "vit", "backbone": {"width": 12, "depth": 3, "heads": 2, "patch": 4, "image_size": [12, 20]}},
    "hybrid": {
        "network": "vit",
        "backbone": {"width": 12, "depth": 2, "heads": 2, "patch": 4, "image_size": [12, 20], "tokenizer": "conv", "prefix": 0, "pool": "attention"},
    },
    "swin": {"network": "swin", "backbone": {"width": 6, "depths": [1, 2], "heads": 2, "window": [3, 3], "patch": 2, "image_size": [12, 20]}},
    "resnet": {"network": "resnet", "backbone": {"widths": [6, 10], "depths": [1, 1], "image_size": [12, 20]}},
}  # fmt: skip


def make(encoder: str = "vit", head: str = "linear", seed: int = 0, **settings: object) -> Segmenter:
    torch.manual_seed(seed)
    record = {"head": head, "num_classes": 7, "head_width": 10, "head_depth": 2, **ENCODERS[encoder], **settings}
    return build_segmenter(from_record(SegmenterConfig, record, what="test"))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_head_scores_every_pixel_of_any_image(encoder, head):
    model = make(encoder, head).eval()
    for size in ((12, 20), (13, 31), (5, 9)):
        found = model(torch.randn(2, 3, *size))
        assert found.shape == (2, 7, *size)
        assert found.isfinite().all()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_weight_that_may_learn_has_a_gradient(encoder, head):
    model = make(encoder, head, auxiliary=(0,)).train()
    scores, others = model.forward_training(torch.randn(3, 3, 13, 31))
    assert [other.shape for other in others] == [(3, 7, 13, 31)]
    (scores.square().mean() + others[0].square().mean()).backward()
    without = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert without == []
    assert all(name.startswith("backbone.head.") for name, p in model.named_parameters() if not p.requires_grad)


@pytest.mark.parametrize("head", HEADS)
def test_the_answer_does_not_depend_on_whether_other_heads_answer_too(head):
    model, images = make(head=head, auxiliary=(1, 0)).eval(), torch.randn(2, 3, 12, 20)
    assert_close(model.forward_training(images)[0], model(images))


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("head", HEADS)
def test_a_single_image_can_be_learned_from(head, norm):
    scores = make(head=head, norm=norm).train()(torch.randn(1, 3, 12, 20))
    assert scores.isfinite().all()


def test_a_linear_head_commutes_with_turning_the_image_around_by_whole_patches():
    # Without positions tokens are a set, and the head reads each by itself; the stretching does not look beyond one cell.
    model, images = make(position="none").eval(), torch.randn(1, 3, 12, 20)
    turned = torch.roll(images, (4, 8), dims=(2, 3))
    (cells,), (moved,) = model.maps(images, (2,)), model.maps(turned, (2,))
    assert_close(moved, torch.roll(cells, (1, 2), dims=(2, 3)))
    assert_close(model.head([moved]), torch.roll(model.head([cells]), (1, 2), dims=(2, 3)))
    assert (make(seed=0)(turned) - make(seed=0)(images)).abs().max() > 1e-3


def test_what_stands_beyond_the_image_is_the_mean_color():
    model, images = make().eval(), torch.randn(2, 3, 10, 17)
    padded = torch.zeros(2, 3, 12, 20)
    padded[:, :, :10, :17] = images
    assert_close(model(images), model(padded)[:, :, :10, :17])


def test_the_encoder_is_made_for_whole_cells_of_the_images():
    model = make(image_size=(10, 17))
    assert model.image_size == model.preprocessing.size == (10, 17)
    assert model.backbone.image_size == (12, 20)
    assert vt.create_model("setr_pup_vit_tiny_patch16_224", num_classes=11, image_size=(180, 240)).backbone.image_size == (
        192,
        240,
    )


@pytest.mark.parametrize("encoder", ENCODERS)
def test_folders_give_back_the_model(tmp_path, encoder):
    model = make(encoder, "setr_mla", auxiliary=(0,), norm="group", values=(3, 0, 300, 2, 255, 5, 65535)).eval()
    model.labels, model.colors = tuple("abcdefg"), [(number, 0, 255) for number in range(7)]
    vt.save(model, tmp_path)
    again, images = vt.load(tmp_path), torch.randn(2, 3, 9, 13)
    assert torch.equal(again(images), model(images))
    assert (again.config, again.labels, again.colors) == (model.config, model.labels, model.colors)
    card = (tmp_path / "README.md").read_text()
    assert "pipeline_tag: image-segmentation" in card
    assert "head setr_mla" in card
    assert from_record(SegmenterConfig, to_record(model.config), what="again") == model.config


@pytest.mark.parametrize("colors", [[[1, 2, 3]], [[0, 0, 256]] * 7, [[0, 0]] * 7, [["r", 0, 0]] * 7, "red", [1] * 7])
def test_colors_that_are_none_are_refused(tmp_path, colors):
    vt.save(make(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"colors": colors}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(VitrailError, match="color"):
        vt.load(tmp_path)


def test_a_head_is_put_on_a_model_with_its_weights():
    classifier = vt.create_model("vit_nano_patch4_32", num_classes=3).eval()
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    model = segmenter_on(classifier, head="linear", num_classes=5)
    for name, value in model.backbone.state_dict().items():
        assert torch.equal(value, before[name])
    with pytest.warns(VitrailWarning, match="resized to 10x3"):
        other = segmenter_on(model.backbone, head="setr_pup", num_classes=5, image_size=(37, 11), head_width=6)
    assert other.eval()(torch.randn(1, 3, 37, 11)).shape == (1, 5, 37, 11)
    assert other.image_size == (37, 11)


def test_other_classes_keep_what_is_not_a_class():
    model = make(head="setr_naive", auxiliary=(0,), values=tuple(range(1, 8)))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.reset_classifier(7, labels=tuple("abcdefg"))
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {f"{part}.output.{kind}" for part in ("head", "auxiliary.0") for kind in ("weight", "bias")}
    assert model.config.values is None
    model.reset_classifier(3)
    assert model.eval()(torch.randn(1, 3, 12, 20)).shape == (1, 3, 12, 20)
    assert (model.labels, model.num_classes) == (None, 3)


def test_values_are_kept_where_they_say_something():
    assert make(values=tuple(range(7))).config.values is None
    assert make(values=(6, 5, 4, 3, 2, 1, 0)).config.values == (6, 5, 4, 3, 2, 1, 0)


def test_a_frozen_encoder_stands_still():
    model = make("hybrid")
    model.freeze_encoder()
    model.train()
    assert not model.backbone.training
    assert {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad} == {"head"}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"head": "setr_pub"}, 'unknown head "setr_pub".* did you mean "setr_pup"'),
        ({"network": "vot"}, 'network of an encoder "vot".* did you mean "vit"'),
        ({"num_classes": 0}, "num_classes must be from 1"),
        ({"head_width": 10**6}, "head_width must be from 1"),
        ({"layers": (3,)}, "layers must be from 0 to 2"),
        ({"layers": ()}, "at least one block"),
        ({"auxiliary": (-4,)}, "auxiliary must be from 0 to 2"),
        ({"values": (1, 2)}, "values must number the 7 classes, got 2 of them"),
        ({"values": (1, 2, 3, 4, 5, 6, 65536)}, "values must be from 0 to 65535, got 65536"),
        ({"values": (1, 2, 3, 4, 5, 6, -1)}, "values must be from 0 to 65535, got -1"),
        ({"values": (1, 2, 3, 4, 5, 6, 1)}, "each class differently"),
        ({"norm": "instance"}, "norm: expected 'batch', 'group'"),
        ({"head_wdith": 4}, 'unknown key "head_wdith".* did you mean "head_width"'),
        ({**ENCODERS["resnet"], "position": "rotary"}, "of the kind resnet has no position"),
    ],
)
def test_what_no_segmenter_can_be_is_refused(settings, rule):
    with pytest.raises(VitrailError, match=rule):
        make(**settings)


def test_images_of_other_channels_are_refused():
    with pytest.raises(VitrailError, match=r"expected images of shape \(b, 3, h, w\)"):
        make()(torch.randn(1, 1, 12, 20))
