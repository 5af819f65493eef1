"""What every backbone of the table promises, and a toy that only this file registers: whoever adds a row is tested by it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from examples.example import write_example
from examples.toy_backbone import ToyConfig, toy_registered
from vitrail.cli.app import run as run_command
from vitrail.errors import VitrailError
from vitrail.learn.losses.set_prediction import set_loss
from vitrail.models.backbones import NETWORKS, mean_features
from vitrail.models.catalogue import ARCHITECTURES, PRESETS, build_model
from vitrail.models.detections import Targets
from vitrail.models.detr import detector_on
from vitrail.models.gcnn import GCNNConfig
from vitrail.models.gsa import GSAConfig
from vitrail.models.protocols import Backbone, FeatureInfo
from vitrail.models.resnet import ResNetConfig
from vitrail.models.segmentation_heads import HEADS
from vitrail.models.segmenter import segmenter_on
from vitrail.models.swin import SwinConfig
from vitrail.models.vit import ViTConfig
from vitrail.nn.groups.group import find_group
from vitrail.tokens import Tokens

SHAPE: dict[str, Any] = {"image_size": (16, 16), "in_channels": 3, "num_classes": 5}
# A tiny one of every kind; at least one of each row of NETWORKS.
KINDS: dict[str, tuple[str, Any]] = {
    "vit": ("vit", ViTConfig(width=12, depth=5, heads=2, patch=4, **SHAPE)),
    "vit_auto": ("vit", ViTConfig(width=12, depth=2, heads=2, patch="auto", prefix=0, pool="attention", norm="post", **SHAPE)),
    "vit_raw": ("vit", ViTConfig(width=12, depth=4, heads=2, patch=8, last_norm="pooled", pool="mean", **SHAPE)),
    "vit_merging": ("vit", ViTConfig(width=12, depth=4, heads=2, patch=4, merge=3, **SHAPE)),
    "residual": (
        "vit",
        ViTConfig(
            width=12, depth=4, heads=2, patch=4, tokenizer="residual", tokenizer_widths=(8,), tokenizer_depths=(1, 1),
            tokenizer_norm="group", prefix=0, pool="mean", **SHAPE,
        ),
    ),
    "hybrid": ("vit", ViTConfig(width=12, depth=4, heads=2, patch=4, tokenizer="conv", prefix=0, pool="mean", **SHAPE)),
    "resnet_stem": ("vit", ViTConfig(width=16, depth=4, heads=2, tokenizer="resnet", tokenizer_depths=(1,), patch=4, **SHAPE)),
    "swin": ("swin", SwinConfig(width=6, depths=(1, 2, 1), heads=2, window=(3, 3), patch=2, **SHAPE)),
    "resnet": ("resnet", ResNetConfig(widths=(6, 10), depths=(1, 1), **SHAPE)),
    "resnet_soft": ("resnet", ResNetConfig(widths=(6, 9, 10), depths=(1, 1, 1), spatial_attention="soft", **SHAPE)),
    "resnet_hard": ("resnet", ResNetConfig(widths=(6, 10), depths=(1, 1), spatial_attention="hard", **SHAPE)),
    "gsa": ("gsa", GSAConfig(group="p4", width=8, heads=2, depths=(2, 1), windows=(0, 0), patch=2, **SHAPE)),
    "gsa_plain": ("gsa", GSAConfig(group="z2", width=8, heads=2, depths=(4,), windows=(3,), patch=4, **SHAPE)),
    "gsa_lifting": (
        "gsa", GSAConfig(group="p4", width=8, heads=2, depths=(2,), windows=(3,), lift="attention", patch=4, **SHAPE),
    ),
    "gcnn": ("gcnn", GCNNConfig(group="z2", width=8, depths=(1, 2), **SHAPE)),
    "gcnn_p4m": ("gcnn", GCNNConfig(group="p4m", width=6, depths=(1, 1, 2), **SHAPE)),
    "toy": ("toy", ToyConfig(**SHAPE)),
}  # fmt: skip
SIZES = {"square": (16, 16), "wide": (16, 32)}
GROUPS = ("gsa", "gsa_plain", "gsa_lifting", "gcnn", "gcnn_p4m")
ROUNDING = ("hybrid", "residual", "swin", "resnet", "resnet_soft", "resnet_hard", "toy")  # which take images of any size
every_kind = pytest.mark.parametrize("kind", KINDS)
# Under heads and the detector the first kind of each row of NETWORKS; the others are slow.
FIRST = {network: kind for kind, (network, _) in reversed(KINDS.items())}.values()
first_kinds = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in FIRST else pytest.mark.slow) for kind in KINDS]
)


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    with toy_registered():
        yield


def make(kind: str, **changes: Any) -> Any:
    torch.manual_seed(7)
    network, config = KINDS[kind]
    return build_model(network, replace(config, **changes))


def moved(model: Any) -> Any:
    """Away from zeros that a new model begins with: they would hide what is behind them."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def images_for(model: Any, size: tuple[int, int] = (16, 16), count: int = 2) -> torch.Tensor:
    return torch.randn(count, model.config.in_channels, *size, generator=torch.Generator().manual_seed(5))


def squares_only(kind: str) -> bool:
    network, config = KINDS[kind]
    return NETWORKS[network].needs_square(config)


def test_every_row_is_tested() -> None:
    assert {network for network, _ in KINDS.values()} == NETWORKS.keys()


def test_a_row_is_all_that_the_catalogue_knows() -> None:
    for name, row in NETWORKS.items():
        assert ARCHITECTURES[name].config is row.config
        assert ARCHITECTURES[name].takes == "images"
        assert PRESETS.get(name, row.presets) is row.presets  # the toy came after the import
    assert "toy_small" in vt.list_models("toy*")


@every_kind
def test_the_protocol_and_facts_with_nothing_built(kind: str) -> None:
    model = make(kind)
    assert isinstance(model, Backbone)
    info = model.feature_info
    assert info == KINDS[kind][1].feature_info == NETWORKS[KINDS[kind][0]].resolve(KINDS[kind][1]).feature_info
    assert all(isinstance(row, FeatureInfo) for row in info)
    assert len({row.name for row in info}) == len(info)
    assert [row.stride for row in info] == sorted(row.stride for row in info)  # fine to coarse
    assert model.num_features == info[-1].channels


@every_kind
@pytest.mark.parametrize("size", SIZES)
def test_maps_are_as_described(kind: str, size: str) -> None:
    model, sides = make(kind).eval(), SIZES[size]
    images = images_for(model, sides)
    if squares_only(kind) and sides[0] != sides[1]:
        with pytest.raises(VitrailError, match="must be square; got 16x32"):
            model.forward_intermediates(images, [0])
        return
    found = model.forward_intermediates(images, range(len(model.feature_info)))
    for tokens, row in zip(found, model.feature_info, strict=True):
        assert isinstance(tokens, Tokens)
        assert tokens.grid == tuple(side // row.stride for side in sides)
        assert tokens.cells.shape == (2, tokens.grid[0] * tokens.grid[1], row.channels)
        assert tokens.cells.isfinite().all()


@pytest.mark.parametrize("kind", ROUNDING)
@pytest.mark.parametrize("size", [(17, 11), (9, 30)])
def test_sizes_that_are_no_whole_cells_are_rounded_up(kind: str, size: tuple[int, int]) -> None:
    model = make(kind).eval()
    found = model.forward_intermediates(images_for(model, size), range(model.depth))
    assert [tokens.grid for tokens in found] == [tuple(-(-side // row.stride) for side in size) for row in model.feature_info]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ROUNDING])
def test_other_backbones_refuse_them_in_one_line(kind: str) -> None:
    model = make(kind).eval()
    with pytest.raises(VitrailError) as error:
        model.forward_intermediates(images_for(model, (17, 17)), [-1])
    assert "\n" not in str(error.value)


@every_kind
def test_features_are_what_the_head_reads(kind: str) -> None:
    model = make(kind).eval()
    images = images_for(model)
    tokens = model.forward_features(images)
    assert isinstance(tokens, Tokens)
    assert tokens.x.shape[2] == model.num_features
    assert_close(model.forward_head(tokens), model(images))
    assert mean_features(model, images).shape[0] == 2
    if kind not in (*GROUPS, "vit_merging"):  # their maps are averaged over the group, or have every merged cell again
        assert_close(model.forward_intermediates(images, [-1])[0].cells, tokens.cells)


@every_kind
def test_indices_count_from_the_end_and_keep_their_order(kind: str) -> None:
    model = make(kind).eval()
    images, count = images_for(model), len(model.feature_info)
    last, first, again = model.forward_intermediates(images, [-1, 0, count - 1])
    assert torch.equal(last.x, again.x)
    assert torch.equal(first.x, model.forward_intermediates(images, [-count])[0].x)
    for wrong in (count, -count - 1):
        with pytest.raises(VitrailError, match=f"{wrong} does not exist: the model has {count} "):
            model.forward_intermediates(images, [wrong])


@pytest.mark.parametrize("kind", ["gsa", "gsa_lifting", "gcnn_p4m"])
def test_maps_of_a_group_turn_as_the_image_does(kind: str) -> None:
    model = make(kind).eval()
    images = images_for(model)
    group = find_group(model.config.group)
    for index, row in enumerate(model.feature_info):
        for element in group.exact:
            [plain], [acted] = (
                model.forward_intermediates(found, [index]) for found in (images, group.act_on_images(images, element))
            )
            maps = [tokens.x.transpose(1, 2).reshape(2, row.channels, *tokens.grid) for tokens in (plain, acted)]
            assert_close(maps[1], group.act_on_images(maps[0], element), atol=1e-5, rtol=1e-4)


@every_kind
def test_new_classes_and_none(kind: str) -> None:
    model = make(kind).eval()
    images, info = images_for(model), model.feature_info
    before = model.forward_features(images).x
    model.reset_classifier(3, labels=["a", "b", "c"])
    assert model(images).shape == (2, 3)
    assert model.labels == ("a", "b", "c")
    model.reset_classifier(0)
    assert model.num_classes == 0
    assert model(images).ndim == 2
    assert torch.equal(model.forward_features(images).x, before)
    assert model.feature_info == info


@every_kind
def test_weights_come_back(kind: str, tmp_path: Path) -> None:
    model = make(kind).eval()
    again = build_model(model.architecture, model.config).eval()
    again.load_state_dict(model.state_dict())
    images = images_for(model)
    assert torch.equal(again(images), model(images))
    loaded = vt.load(vt.save(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert torch.equal(loaded(images), model(images))


# create_model(features_only=True)


@every_kind
def test_features_only(kind: str) -> None:
    model = make(kind).eval()
    images, info = images_for(model), model.feature_info
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.models.catalogue.model_config", lambda name, **_: (model.architecture, model.config))
        torch.manual_seed(7)
        maps = vt.create_model("any", features_only=True).eval()
        chosen = vt.create_model("any", features_only=True, out_indices=(-1, 0)).eval()
    plain = len({row.stride for row in info}) == 1
    assert maps.feature_info.channels() == [row.channels for row in info][-3 if plain else 0 :]
    assert maps.feature_info.out_indices == tuple(range(len(info)))[-3 if plain else 0 :]
    assert chosen.feature_info.reduction() == [info[-1].stride, info[0].stride]
    assert chosen.feature_info.module_name() == [info[-1].name, info[0].name]
    for net in (maps, chosen):
        found = net(images)
        assert [tuple(one.shape[1:]) for one in found] == [
            (channels, 16 // stride, 16 // stride)
            for channels, stride in zip(net.feature_info.channels(), net.feature_info.reduction(), strict=True)
        ]
        sum(one.sum() for one in found).backward()


@every_kind
def test_what_no_chosen_map_needs_is_left_out(kind: str) -> None:
    whole, first = make(kind), make(kind)
    first.prune(0)
    count = [sum(p.numel() for p in model.parameters()) for model in (whole, first)]
    assert count[1] < count[0] or kind == "toy"  # which has no method of its own and keeps all
    images = images_for(whole)
    [found] = first.eval().forward_intermediates(images, [0])
    assert found.grid == whole.eval().forward_intermediates(images, [0])[0].grid


# Under heads and under the detector


@pytest.mark.parametrize("head", HEADS)
@first_kinds
def test_under_every_head(kind: str, head: str) -> None:
    model = moved(segmenter_on(make(kind), head=head, num_classes=3, head_width=8)).train()
    images = images_for(model.backbone, (13, 21), count=3)
    scores = model(images)
    assert scores.shape == (3, 3, 13, 21)
    scores.square().mean().backward()
    without = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert without == []
    again = build_model("segmenter", model.config)
    again.load_state_dict(model.state_dict())
    assert again.config == model.config
    assert_close(again.eval()(images), model.eval()(images))


@pytest.mark.parametrize("levels", [(-1,), (0, -1)])
@first_kinds
def test_under_the_detector(kind: str, levels: tuple[int, ...]) -> None:
    model = detector_on(
        make(kind), num_classes=3, width=16, heads=2, hidden=16, depth=1, decoder_depth=1, queries=4, levels=levels,
        query_kind="selected", focal=True, dropout=0.0,
    ).train()  # fmt: skip
    images = images_for(model.backbone)
    targets = [Targets(torch.tensor([2]), torch.tensor([[0.4, 0.5, 0.3, 0.2]]))] * 2
    set_loss(moved(model)(images, targets), targets, focal=True).backward()
    parts = [*model.backbone.named_parameters(), *model.projections.named_parameters()]
    without = [name for name, p in parts if p.grad is None or not p.grad.any()]
    assert [name for name in without if not name.startswith("head.")] == []
    again = build_model("detr", model.config)
    again.load_state_dict(model.state_dict())
    assert_close(again.eval()(images).boxes, model.eval()(images).boxes)


@pytest.mark.parametrize("kind", ["gsa", "gcnn_p4m"])
def test_a_detector_on_a_group_is_refused_where_its_images_are_no_squares(kind: str) -> None:
    network, config = KINDS[kind]
    with pytest.raises(VitrailError, match=r"turns the .* by 90 degrees, so it must be square; got 16x32"):
        detector_on(build_model(network, config), num_classes=3, image_size=(16, 32))


# Compiled and exported


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["gsa", "gcnn_p4m", "resnet_soft", "toy"])
def test_compiled_and_exported_under_a_head(kind: str) -> None:
    model = segmenter_on(make(kind), head="linear", num_classes=3).eval()
    images = images_for(model.backbone, (13, 16))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(images), model(images), atol=1e-5, rtol=1e-5)
    batch = ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(model, (images,), dynamic_shapes=batch).module()
    more = images_for(model.backbone, (13, 16), count=5)
    assert_close(program(more), model(more), atol=1e-5, rtol=1e-5)


# A file and a row: it trains


TINY = {"epochs": 4, "batch_size": 4, "workers": 0, "quiet": True, "device": "cpu"}


@pytest.mark.usefixtures("quick_report")
def test_the_toy_trains_under_classify(arrays: Path, tmp_path: Path) -> None:
    run = vt.train(data=arrays, model="toy_small", out=tmp_path / "run", recipe="plain", **{**TINY, "batch_size": 16})
    assert run.model.architecture == "toy"
    assert run.metrics["accuracy"] > 0.6  # of four quadrants
    again = vt.load(run.path)
    images = images_for(again, again.image_size)
    assert torch.equal(again(images), run.model.eval()(images))
    assert vt.evaluate(run.path)["accuracy"] == run.metrics["accuracy"]


@pytest.mark.usefixtures("quick_report")
@pytest.mark.parametrize("head", ["setr_naive", "setr_pup"])
def test_the_toy_trains_under_segment(head: str, tmp_path: Path) -> None:
    data = write_example("segment", tmp_path).data
    run = vt.train(task="segment", data=data, model="toy_small", head=head, out=tmp_path / "run", recipe="plain", **TINY)
    assert (run.model.config.network, run.model.config.head) == ("toy", head)
    assert vt.load(run.path).config == run.model.config
    assert learned(run.path)


@pytest.mark.usefixtures("quick_report")
def test_the_toy_trains_under_detect(tmp_path: Path) -> None:
    data = write_example("detect", tmp_path).data
    sizes = {"image_size": (16, 24), "num_queries": 5}
    run = vt.train(task="detect", data=data, model="toy_small", out=tmp_path / "run", recipe="plain", **sizes, **TINY)
    assert run.model.config.network == "toy"
    assert vt.load(run.path).config == run.model.config
    assert learned(run.path)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gsa_p4_small", "gcnn_p4m_small"])
@pytest.mark.parametrize("task", ["segment", "detect"])
def test_groups_train_predict_and_explain_under_both(model: str, task: str, tmp_path: Path) -> None:
    """With everything behind training: the report, explanations, and one pass of the command that predicts."""
    example = write_example(task, tmp_path)
    sizes = {"image_size": (16, 16)} | ({"num_queries": 4} if task == "detect" else {"head": "setr_mla"})
    run = vt.train(task=task, data=example.data, model=model, out=tmp_path / "run", recipe="plain", **sizes, **TINY)
    assert command("predict", run.path, *example.inputs) == 0
    assert command("explain", run.path, example.inputs[0], "--out", tmp_path / "explained") == 0


def learned(run: Path) -> bool:
    """Whether the loss of the last steps is clearly below that of the first."""
    losses = [json.loads(line).get("loss") for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [loss for loss in losses if loss is not None]
    return sum(steps[-3:]) / 3 < 0.9 * steps[0]


def command(*words: object) -> int:
    return run_command([str(word) for word in words])
