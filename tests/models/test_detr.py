"""Row F4: DETR, its queries, what it answers and how that is read."""

import dataclasses

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.learn.losses.set_prediction import set_loss
from vitrail.models.catalogue import MODELS, count_parameters
from vitrail.models.detections import Detected, Targets
from vitrail.models.detr import DetectorConfig, build_detector, decode_boxes, detector_on
from vitrail.run.card import card

BACKBONE = {"width": 20, "depth": 3, "heads": 2, "patch": 8, "image_size": [40, 56]}
TINY = {"width": 24, "depth": 1, "decoder_depth": 2, "heads": 3, "hidden": 29, "queries": 7, "num_classes": 5, "dropout": 0.0}
KINDS = ("learned", "anchor", "selected")


def make(**settings) -> torch.nn.Module:
    torch.manual_seed(3)
    model = build_detector(DetectorConfig(backbone=BACKBONE, **(TINY | settings))).eval()
    with torch.no_grad():  # heads that begin at zero would hide what goes into them
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def images(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, 40, 56, generator=torch.Generator().manual_seed(5))


def some_targets() -> list[Targets]:
    boxes = torch.tensor([[0.3, 0.4, 0.2, 0.3], [0.7, 0.6, 0.3, 0.1], [0.5, 0.5, 0.9, 0.8]])
    return [Targets(torch.tensor([4, 0, 2]), boxes), Targets(torch.tensor([1]), boxes[1:2])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("focal", [False, True])
def test_answers_have_the_shapes_of_the_contract_and_boxes_lie_inside(kind, focal):
    found = make(query_kind=kind, focal=focal)(images())
    answers = 3 if kind == "selected" else 2  # one more: what the image's own places said
    assert found.logits.shape == (answers, 2, 7, 5 if focal else 6)
    assert found.boxes.shape == (answers, 2, 7, 4)
    assert (found.boxes > 0).all()
    assert (found.boxes < 1).all()
    assert found.noised is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns(kind):
    model = make(query_kind=kind, denoising=0 if kind == "learned" else 9, levels=(0, -1)).train()
    set_loss(model(images(), some_targets()), some_targets(), focal=False).backward()
    idle = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    # DETR's queries have no content before they look at the image: their first look at each other reads zeros.
    assert idle == (["decoder.blocks.0.attention.value.weight"] if kind == "learned" else [])


@pytest.mark.parametrize("kind", KINDS[:2])
def test_permuting_queries_permutes_answers(kind):
    model, order = make(query_kind=kind), torch.randperm(7, generator=torch.Generator().manual_seed(1))
    before = model(images())
    with torch.no_grad():
        model.decoder.table.copy_(model.decoder.table[order])
        if kind == "anchor":
            model.decoder.anchors.copy_(model.decoder.anchors[order])
    after = model(images())
    assert_close(after.logits, before.logits[:, :, order])
    assert_close(after.boxes, before.boxes[:, :, order])


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("negatives", [False, True])
def test_noised_objects_do_not_change_the_answers_of_the_others(kind, negatives):
    model = make(query_kind=kind, denoising=20, negatives=negatives)
    alone, beside = model(images()), model(images(), some_targets(), generator=torch.Generator().manual_seed(2))
    assert beside.noised is not None
    assert beside.noised.logits.shape == (2, 2, 18, 6)  # groups of 3, or of 3 and 3
    assert_close(beside.logits, alone.logits, atol=1e-5, rtol=1e-5)
    assert_close(beside.boxes, alone.boxes, atol=1e-5, rtol=1e-5)


def test_targets_are_asked_for_only_where_they_are_learned_from():
    model = make(query_kind="anchor")
    assert model(images(), some_targets()).noised is None
    nothing = [Targets(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 4))] * 2
    assert make(query_kind="anchor", denoising=9)(images(), nothing).noised is None


def test_noise_is_the_generators():
    model = make(query_kind="anchor", denoising=9)
    one, same, other = (
        model(images(), some_targets(), generator=torch.Generator().manual_seed(seed)).noised.logits for seed in (1, 1, 2)
    )
    assert_close(one, same, rtol=0, atol=0)
    assert not torch.allclose(one, other)


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("swin_tiny_patch4_window7_224", {"width": 12, "depths": (1, 1, 1), "heads": (1, 2, 4)}),
        ("resnet8_32", {}),
        ("vit_micro_hybrid", {}),
    ],
)
def test_on_any_encoder_with_its_weights(name, sizes):
    encoder = vt.create_model(name, image_size=32, num_classes=3, **sizes)
    weights = {key: value.clone() for key, value in encoder.state_dict().items()}
    model = detector_on(encoder, levels=(0, -1), **TINY).eval()
    assert model.image_size == (32, 32)
    assert model.labels is None
    assert model.preprocessing.fit == "squash"
    for key, value in model.backbone.state_dict().items():
        assert_close(value, weights[key], rtol=0, atol=0)
    grids = [tokens.grid for tokens in model.backbone.forward_intermediates(torch.zeros(1, 3, 32, 32), (0, -1))]
    memory = model.encode(torch.zeros(2, 3, 32, 32))
    assert memory.x.shape == (2, sum(height * width for height, width in grids), 24)
    assert model(torch.zeros(2, 3, 32, 32)).boxes.shape == (2, 2, 7, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind, tmp_path):
    model = make(query_kind=kind, focal=True, denoising=0 if kind == "learned" else 5)
    model.labels = tuple("abcde")
    again = vt.load(vt.save(model, tmp_path))
    assert again.config == model.config
    assert again.labels == model.labels
    assert again.num_classes == 5
    assert_close(again(images()).boxes, model(images()).boxes, rtol=0, atol=0)
    for text in ((tmp_path / "README.md").read_text(), card(model, task="detect")):
        assert "pipeline_tag: object-detection" in text
    assert "# Object detector (detr)" in card(model, task="detect")


def test_other_classes():
    model = make(query_kind="selected", denoising=6, focal=True)
    model.reset_classifier(3, labels=("x", "y", "z"))
    targets = [Targets(torch.tensor([2]), torch.full((1, 4), 0.5))] * 2
    found = model(images(), targets)
    assert found.logits.shape[-1] == 3
    assert found.noised.logits.shape[-1] == 3
    assert model.labels == ("x", "y", "z")
    assert model.config.num_classes == 3


def test_sizes_by_name():
    model = vt.create_model("detr_micro", num_classes=3, image_size=(48, 64), in_channels=1)
    assert model.image_size == (48, 64)
    assert model.backbone.config.image_size == (48, 64)
    assert model(torch.zeros(1, 1, 48, 64)).boxes.shape[1:] == (1, model.config.queries, 4)


def test_boxes_by_hand_where_classes_share_a_softmax():
    config = DetectorConfig(backbone=BACKBONE, **(TINY | {"num_classes": 2}))
    logits = torch.tensor([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]]).log()[None, None]
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.25, 0.5, 0.5, 0.5], [0.9, 0.9, 0.4, 0.2]])[None, None]
    ((scores, classes, corners),) = decode_boxes(Detected(logits, boxes), torch.tensor([[100, 200]]), config=config, top=2)
    assert_close(scores, torch.tensor([0.8, 0.6]))
    assert classes.tolist() == [1, 0]
    assert_close(corners, torch.tensor([[140.0, 80.0, 200.0, 100.0], [0.0, 25.0, 100.0, 75.0]]))  # 220 is outside: 200


def test_boxes_by_hand_where_each_class_has_a_sigmoid():
    config = DetectorConfig(backbone=BACKBONE, focal=True, **(TINY | {"num_classes": 2}))
    logits = torch.tensor([[0.9, 0.7], [0.2, 0.8]]).logit()[None, None]
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.5, 0.5, 1.0, 1.0]])[None, None]
    ((scores, classes, corners),) = decode_boxes(Detected(logits, boxes), torch.tensor([[10, 20]]), config=config, top=3)
    assert_close(scores, torch.tensor([0.9, 0.8, 0.7]))
    assert classes.tolist() == [0, 1, 1]  # one query may name two
    assert corners.tolist() == [[8.0, 4.0, 12.0, 6.0], [0.0, 0.0, 20.0, 10.0], [8.0, 4.0, 12.0, 6.0]]
    assert len(decode_boxes(Detected(logits, boxes), torch.tensor([[10, 20]]), config=config)[0][0]) == 4


def test_the_published_transformer_has_its_parameters():
    """DETR-R50 has 41.3 M: 23.5 M of the backbone, and by hand: [Carion+ 2020, section 4 and published code]."""
    width, hidden, classes, queries = 256, 2048, 91, 100
    attention, norm = 4 * (width * width + width), 2 * width
    mlp = width * hidden + hidden + hidden * width + width
    blocks = 6 * (attention + mlp + 2 * norm) + 6 * (2 * attention + mlp + 3 * norm) + norm
    heads = width * (classes + 1) + classes + 1 + 2 * (width * width + width) + 4 * width + 4
    projection = 2048 * width + width
    by_hand = blocks + heads + projection + queries * width
    with torch.device("meta"):
        model = build_detector(DetectorConfig(network="resnet", backbone={"widths": [2048], "depths": [1]}))
    assert count_parameters(model) - count_parameters(model.backbone) == by_hand
    assert round((by_hand + 23_454_912) / 1e6, 1) == 41.5  # 41.3 without the batch norms' two numbers a channel


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"network": "vitt"}, 'unknown network of a backbone "vitt"'),
        ({"levels": (3,)}, "levels: 3 does not exist: the backbone has 3 maps to give, 0 to 2"),
        ({"levels": ()}, "levels must name at least one map"),
        ({"levels": (2, -1)}, "each once"),
        ({"width": 25}, "width must be a multiple of heads and of 4: got width 25, heads 3"),
        ({"queries": 0}, "queries must be at least 1, got 0"),
        ({"queries": 20_000}, "queries must be at most 10000, got 20000"),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ({"denoising": 5}, 'denoising goes with query_kind "anchor" or "selected"'),
        ({"depth": -1}, "depth must be 0 to 1000"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"position_base": 1.0}, "position_base must be above 1, got 1.0"),
        ({"attention": "sofmax"}, 'did you mean "softmax"'),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(VitrailError, match=r"^[^\n]*$") as caught:
        DetectorConfig(backbone=BACKBONE, **(TINY | settings))
    assert words in str(caught.value)


def test_a_misspelled_option_and_too_few_places():
    with pytest.raises(VitrailError, match='did you mean "query_kind"'):
        vt.create_model("detr_micro", query_kinds="anchor")
    with pytest.raises(VitrailError, match="36 queries are chosen among the 35 places of the image"):
        make(query_kind="selected", queries=36)(images())
    with pytest.raises(VitrailError, match="expected 'learned', 'anchor', 'selected'"):
        vt.create_model("detr_micro", query_kind="anchors")


def test_presets_are_detectors():
    presets = {name: config for name, (kind, config) in MODELS.items() if kind == "detr"}
    assert all(dataclasses.is_dataclass(config) and name.startswith("detr_") for name, config in presets.items())
