"""Rows C1 and C4: the residual net of small images, its published size, and what attention adds to it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from stopping import stop_at
from torch.testing import assert_close

import vitrail as vt
from vitrail.data.image_source import Batch
from vitrail.errors import VitrailError
from vitrail.learn.optim.groups import layer_groups
from vitrail.learn.training.interruption import Interrupted
from vitrail.learn.training.state import TENSORS, latest_state
from vitrail.models.catalogue import count_parameters
from vitrail.nn.convolution.hard_attention import HardAttention
from vitrail.nn.heads.classification import MapHead, map_tokens
from vitrail.run.card import card
from vitrail.tasks.classify.objective import Classify

PRESETS = vt.list_models("resnet*_32")
TINY = {"widths": (3, 5, 7), "depths": (1, 1, 1), "in_channels": 2, "num_classes": 11, "image_size": (8, 9)}
KINDS = {
    "plain": {},
    "se": {"channel_attention": "se"},
    "soft": {"spatial_attention": "soft"},
    "dot": {"spatial_attention": "soft", "compatibility": "dot"},
    "hard": {"spatial_attention": "hard"},
    "all": {"channel_attention": "se", "spatial_attention": "hard", "places": 2},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def tiny(kind, **options):
    torch.manual_seed(0)
    return vt.create_model("resnet8_32", **{**TINY, **KINDS[kind], **options})


def test_there_are_five():
    assert PRESETS == ["resnet20_32", "resnet20_hard_32", "resnet20_se_32", "resnet20_soft_32", "resnet8_32"]


def test_the_published_size():
    """[He+ 2016, table 6]: 0.27 M. A shortcut of option A has no parameters, so that this is the count of its layers."""
    convolutions = 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64)
    norms = 2 * (16 * 7 + 32 * 6 + 64 * 6)
    plain = count_parameters(vt.create_model("resnet20_32"))
    assert plain == convolutions + norms + 65 * 10 == 269_722
    assert count_parameters(vt.create_model("resnet20_se_32")) - plain == 3 * 2 * 4 * (16 + 32 + 64)
    assert count_parameters(vt.create_model("resnet20_soft_32")) - plain == 32 * 64 + 2 * 64 + 64 * 10
    assert count_parameters(vt.create_model("resnet20_hard_32")) - plain == 64


@kinds
@pytest.mark.parametrize("size", [(8, 8), (11, 17), (28, 28)])
def test_any_size_from_8_and_any_channels(kind, size):
    model = tiny(kind)
    images = torch.randn(2, 2, *size)
    assert model.train()(images).shape == (2, 11)
    assert model.eval()(images).shape == (2, 11)
    assert_close(model(images), model(images))
    assert model.forward_head(model.forward_features(images), pre_logits=True).shape == (2, model.head.features_width)


@kinds
def test_saved_and_loaded(kind, tmp_path):
    model, images = tiny(kind), torch.randn(3, 2, 8, 9)
    model(images)  # norms have seen something
    if model.surrogate_loss is not None:
        model.surrogate_loss(torch.tensor([1.0, 2.0, 3.0]))
    loaded = vt.load(vt.save(model, tmp_path / "model"))
    assert loaded.config == model.config
    assert loaded(images).equal(model.eval()(images))
    if kind == "hard":
        assert loaded.head.reader.baseline.total.item() == pytest.approx(0.1 * 2)
    assert copy.deepcopy(loaded)(images).equal(loaded(images))


def test_a_table_and_a_card_tell_of_it(command):
    line = command("models", "resnet20_s*").out.splitlines()[1]
    assert line.split() == ["resnet20_se_32", "272,410", "-", "9", "-", "-", "32x32", "resnet"]
    widths = "widths (3, 5, 7), depths (1, 1, 1), channel_attention none, spatial_attention soft."
    assert widths in card(tiny("soft"), task="classify")


def test_a_new_classifier_and_features():
    model, images = tiny("soft").eval(), torch.randn(2, 2, 8, 9)
    model.reset_classifier(0)
    assert model(images).shape == (2, 14)
    model.reset_classifier(4)
    assert model(images).shape == (2, 4)


@kinds
def test_stage_maps(kind):
    model = vt.create_model("resnet8_32", features_only=True, **{**TINY, **KINDS[kind]}).eval()
    images = torch.randn(2, 2, 13, 8)
    maps = model(images)
    assert [tuple(m.shape) for m in maps] == [(2, 3, 13, 8), (2, 5, 7, 4), (2, 7, 4, 2)]
    for ours, expected in zip(maps, model.model.forward_maps(images), strict=True):
        assert_close(ours, expected)
    with pytest.raises(VitrailError, match="stage 3 does not exist: the model has 3 stages, 0 to 2"):
        model.model.forward_intermediates(images, [3])


@pytest.mark.parametrize("kind, shape", [("soft", (2, 2, 4, 5)), ("dot", (2, 2, 4, 5)), ("hard", (2, 1, 2, 3))])
def test_maps_of_attention(kind, shape):
    model, images = tiny(kind).eval(), torch.randn(2, 2, 8, 9)
    maps = model.attention_maps(images)
    assert maps.shape == shape
    assert_close(maps.sum((2, 3)), torch.ones(shape[:2]))
    assert_close(vt.explain.pooling_map(model, images), maps.mean(1))


def test_without_attention_there_are_no_maps():
    with pytest.raises(VitrailError, match='spatial_attention is "none"'):
        tiny("se").attention_maps(torch.randn(2, 2, 8, 9))
    with pytest.raises(VitrailError, match="pooling does not work here"):
        vt.explain.explain_map(tiny("plain"), torch.randn(2, 2, 8, 9), "pooling")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"image_size": 7}, "image_size must be at least 8"),
        ({"widths": (4, 8)}, "each stage has a width and a depth"),
        ({"widths": (), "depths": ()}, "each stage has a width and a depth"),
        ({"widths": (8, 4, 4)}, "not shrink"),
        ({"depths": (1, 0, 1)}, "at least 1 each"),
        ({"depths": (400, 400, 400)}, "at most 1000 together"),
        ({"places": 0}, "places must be at least 1"),
        ({"spatial_attention": "firm"}, "'none', 'soft', 'hard'"),
        ({"depth": 3}, 'no option "depth"; did you mean "depths"'),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        vt.create_model("resnet8_32", **options)


def test_layers_learn_by_stage():
    model = tiny("hard")
    scales = {id(p): group["scale"] for group in layer_groups(model, 0.1, layer_decay=0.5) for p in group["params"]}
    found = {name.split(".stages.")[0].rsplit(".", 1)[0]: scales[id(p)] for name, p in model.named_parameters()}
    expected = {"stem": 1 / 16, "stem_norm": 1 / 16, "stages.0": 1 / 8, "stages.1": 1 / 4, "stages.2": 1 / 2, "head": 1.0}
    for name, scale in found.items():
        assert scale == expected[next(start for start in expected if name == start or name.startswith(f"{start}."))]


def test_stages_below_another_head_learn_by_stage_too():
    model = vt.create_model("upernet_resnet20_96", num_classes=3)
    scales = {id(p): group["scale"] for group in layer_groups(model, 0.1, layer_decay=0.5) for p in group["params"]}
    assert scales[id(model.backbone.stem.weight)] == 1 / 16
    assert [scales[id(next(stage.parameters()))] for stage in model.backbone.stages] == [1 / 8, 1 / 4, 1 / 2]
    assert all(scales[id(p)] == 1.0 for p in model.head.parameters())


# Training


@pytest.mark.parametrize("weights", [None, torch.linspace(0.5, 2.0, 11)])
def test_the_task_adds_the_gradient_of_the_draw(weights):
    """(L_i - b) grad log p_i, with each image's loss so weighted as it is in the batch's."""
    model, labels = tiny("hard"), torch.tensor([1, 4, 10])
    reader = model.head.reader
    reader.entropy_bonus = 0.0
    reader.baseline.total.fill_(0.7), reader.baseline.weight.fill_(1.0)
    images = torch.randn(3, 2, 8, 9)
    task = Classify(model, weights=weights)
    state = torch.get_rng_state()
    loss = task.loss(Batch(images, labels, torch.arange(3)))
    loss.backward()
    torch.set_rng_state(state)
    logits = model(images)
    shares, places = reader.drawn[0].log_softmax(-1), reader.drawn[1]
    assert_close(loss, F.cross_entropy(logits, labels, weight=weights))
    each = F.cross_entropy(logits, labels, reduction="none").detach()
    each = each if weights is None else 3 * each * weights[labels] / weights[labels].sum()
    expected = torch.autograd.grad(((each - 0.7) * shares.gather(1, places)[:, 0]).mean(), reader.score.weight)[0]
    assert expected.abs().max() > 1e-3
    assert_close(reader.score.weight.grad, expected)
    assert_close(reader.baseline.total, 0.9 * 0.7 + 0.1 * each.mean())


def test_hard_attention_learns_where_to_look():
    """Noise everywhere but at one place, where a mark tells the class; elsewhere the other class is pretended."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    head = MapHead(HardAttention(4), classes=2)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(150):
        maps, labels, _ = marked(generator)
        losses = F.cross_entropy(head(map_tokens(maps)), labels, reduction="none")
        optimizer.zero_grad()
        (losses.mean() + head.reader.surrogate_loss(losses.detach())).backward()
        optimizer.step()
    maps, labels, where = marked(generator)
    assert (head.reader.weights([maps]).flatten(1).argmax(1) == where).float().mean() > 0.95
    assert (head.eval()(map_tokens(maps)).argmax(1) == labels).float().mean() > 0.95


def marked(generator, count=64):
    labels, where = (torch.randint(n, (count,), generator=generator) for n in (2, 9))
    cells = 0.3 * torch.randn(count, 4, 9, generator=generator)
    cells[:, 0] += torch.randint(2, (count, 9), generator=generator) * 2.0 - 1.0
    rows = torch.arange(count)
    cells[rows, 0, where], cells[rows, 1, where] = labels * 2.0 - 1.0, 2.0
    return cells.reshape(count, 4, 3, 3), labels, where


@pytest.mark.usefixtures("quick_report")
@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_trains_on_digits(name, tmp_path):
    run = vt.train(data="digits", model=name, epochs=1, batch=256, out=tmp_path / "run", workers=0, recipe="plain", quiet=True)
    assert run.model.architecture == "resnet"
    assert run.metrics["accuracy"] > 0.15  # 0.25 to 0.53; 0.10 where no step was taken
    assert vt.load(run.path).config == run.model.config


@pytest.mark.usefixtures("quick_report")
def test_an_interrupted_run_of_the_hard_one_goes_on_bit_for_bit(arrays, tmp_path, monkeypatch):
    options = {"data": arrays, "model": "resnet20_hard_32", "batch": 32, "epochs": 2, "seed": 7, "workers": 0, "quiet": True}
    whole = vt.train(**options, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        stop_at(patch, 4)  # the first of the second epoch's three
        with pytest.raises(Interrupted):
            vt.train(**options, out=tmp_path / "run")
    torch.manual_seed(99)  # what the process has drawn since then does not matter
    run = vt.train(**options, out=tmp_path / "run", resume=True).path
    one, other = (load_file(latest_state(folder / "state") / TENSORS) for folder in (whole, run))
    assert one.keys() == other.keys()
    assert "model/head.reader.baseline.total" in one
    assert all(one[name].equal(other[name]) for name in one)
    assert (whole / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


# Compiled


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_export_with_a_free_batch(kind):
    model = tiny(kind).eval()
    program = torch.export.export(model, (torch.randn(2, 2, 8, 9),), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    images = torch.randn(5, 2, 8, 9)
    assert_close(program.module()(images), model(images))


@pytest.mark.compiled
def test_compile_gives_the_same_and_leaves_no_graph_break():
    model, images = tiny("soft").eval(), torch.randn(2, 2, 8, 9)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(images), model(images), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.compiled
def test_the_hard_one_learns_the_same_compiled(monkeypatch):
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **more: compiler(model, backend="aot_eager", **more))
    batch = Batch(torch.randn(3, 2, 8, 9), torch.tensor([1, 4, 10]), torch.arange(3))
    gradients = []
    for compiled in (False, True):
        model = tiny("hard")
        task = Classify(model, compiled=compiled)
        torch.manual_seed(1)
        task.loss(batch).backward()
        gradients.append(model.head.reader.score.weight.grad)
    assert_close(*gradients, atol=1e-5, rtol=1e-5)
    assert gradients[0].abs().max() > 0
