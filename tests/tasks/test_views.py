"""DINO and MoCo v3: who learns and who follows, and that two processes do what one would.

This file is also what the two processes run: `python test_teaching.py`, each with torchrun's environment.
"""

import json
import math
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vitrail.data.dataset import ArraySplit, Part
from vitrail.data.digits import open_digits
from vitrail.data.image_source import image_loader
from vitrail.data.loader import Loader
from vitrail.data.views import ViewBatch, looks, view_loader
from vitrail.learn.losses.self_distillation import self_distillation_loss, sharpen
from vitrail.learn.metrics.nearest_neighbors import knn_accuracy
from vitrail.learn.training.loop import describe_scores
from vitrail.learn.training.objective import Evaluation, Following, Objective
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper
from vitrail.learn.training.world import World
from vitrail.models import dino, moco
from vitrail.models.backbones import NETWORKS, backbone_of, mean_features
from vitrail.models.catalogue import ARCHITECTURES, create_model
from vitrail.models.folder import load, save
from vitrail.records import from_record, to_record
from vitrail.tasks.dino.metrics import METRICS
from vitrail.tasks.dino.objective import FROZEN, SelfDistillation
from vitrail.tasks.moco.objective import Contrast
from vitrail.tasks.views import Neighbors

DIGITS = open_digits()
LOOKS = looks((8, 8), (4, 4), 2, mirror=False, area=0.5)


def backbone(**changes):
    torch.manual_seed(0)
    options = {"num_classes": 0, "width": 16, "depth": 2, "heads": 2, "image_size": (8, 8), "in_channels": 1, "prefix": 1}
    return create_model("vit_nano_patch2_32", **options | {"pool": "class"} | changes)


def student_and_teacher(momentum: float = 0.9, **settings):
    inside = backbone(**settings.pop("backbone", {}))
    head = {"prototypes": 17, "hidden": 24, "bottleneck": 8, "batch_norm": settings.pop("batch_norm", False)}
    config = dino.DINOConfig(backbone=to_record(inside.config), **head)
    task = {"look": LOOKS[0], "momentum": momentum, "temperature": 0.1, "teacher_temperature": 0.05, **settings}
    return SelfDistillation(dino.assemble(inside, config), **task)


def contrast(momentum: float = 0.9, **settings):
    inside = backbone(**settings.pop("backbone", {}))
    config = moco.MoCoConfig(backbone=to_record(inside.config), hidden=24, width=8)
    return Contrast(moco.assemble(inside, config), look=LOOKS[0], momentum=momentum, temperature=0.2, batch=32, **settings)


def views(batch: int = 24, **shared) -> Loader:
    return view_loader(DIGITS["train"], backbone().preprocessing, wanted=LOOKS, batch=batch, **shared)


def plan(**changes) -> Plan:
    return Plan(**{"epochs": 1, "lr": 1e-3, "weight_decay": 0.04, "warmup": 0.0, "clip": 1.0, **changes})


def take(task, steps: int = 3, *, begin: float = 0.5, world: World | None = None, **changes) -> None:
    world = world or World()
    stepper = Stepper(task, plan(**changes), world)
    task.model.train()
    for number, batch in zip(range(steps), views(rank=world.rank, world=world.size).batches(), strict=False):
        stepper.take(batch, 1e-3, begin + number / 1000)


@pytest.mark.parametrize("make", [student_and_teacher, contrast])
def test_tasks_are_what_the_loop_asks_for_and_the_teacher_gets_no_gradient(make):
    task = make()
    assert isinstance(task, Objective)
    assert isinstance(task, Following)
    task.before_step(0.5)
    task.loss(next(iter(views().batches()))).backward()
    for teacher, student in task.model.pairs:
        assert all(p.grad is None and not p.requires_grad for p in teacher.parameters())
        assert any((p.grad != 0).any() for p in student.parameters() if p.grad is not None)
    free = [name for name, p in task.model.named_parameters() if p.requires_grad]
    assert all(task.model.get_parameter(name).grad is not None for name in free)  # as several processes need


@pytest.mark.parametrize("make", [student_and_teacher, contrast])
def test_a_teacher_of_momentum_one_stays_and_of_zero_is_the_student(make):
    task = make(momentum=1.0)
    before = {name: p.clone() for name, p in task.model.named_parameters()}
    take(task)
    after = dict(task.model.named_parameters())
    frozen = [name for name, p in after.items() if not p.requires_grad]
    assert frozen
    assert all(torch.equal(after[name], before[name]) for name in frozen)
    assert any(not torch.equal(after[name], before[name]) for name in after)
    task = make(momentum=0.0)
    take(task, 2, begin=0.0)
    task.before_step(0.0)
    task.after_step() if make is contrast else task.model.steps.add_(1)
    for teacher, student in task.model.pairs:
        pairs = zip(teacher.parameters(), student.parameters(), strict=True)
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)
    assert task.model.steps == 3


def test_momentum_rises_to_one_and_prototypes_wait():
    task = student_and_teacher(momentum=0.8)
    found = []
    for done in (0.0, 0.5, 1.0):
        task.before_step(done)
        found.append((task.momentum, task.model.student_head.learning))
    assert found == [(pytest.approx(0.8), 0.0), (pytest.approx(0.9), 1.0), (pytest.approx(1.0), 1.0)]
    before = torch.nn.functional.normalize(task.model.student_head.prototypes.weight.detach(), dim=1).clone()
    take(task, 2, begin=FROZEN / 4)
    assert_close(torch.nn.functional.normalize(task.model.student_head.prototypes.weight.detach(), dim=1), before)
    take(task, 2, begin=0.5)
    assert not torch.allclose(torch.nn.functional.normalize(task.model.student_head.prototypes.weight.detach(), dim=1), before)


def test_the_temperature_of_the_teacher_warms_up_over_the_first_third():
    """From 0.04 to its own at a share 0.3 of the run; or its own from the beginning, where that is lower  [Caron+ 2021, appendix]."""
    batch, task = next(iter(views().batches())), student_and_teacher(teacher_temperature=0.07)
    task.model.eval()
    for done, temperature in ((0.0, 0.04), (0.15, 0.055), (0.3, 0.07), (1.0, 0.07)):
        task.before_step(done)
        assert task.teacher_temperature == pytest.approx(temperature)
        student, teacher = task.model(batch.large, batch.small)
        expected = self_distillation_loss(student, sharpen(teacher, task.model.center, temperature), temperature=0.1)
        assert_close(task.loss(batch), expected)
    cold = student_and_teacher(teacher_temperature=0.03)
    cold.before_step(0.0)
    assert cold.teacher_temperature == pytest.approx(0.03)


def test_the_center_moves_once_a_step_towards_the_mean_of_the_teacher():
    batch = next(iter(views().batches()))
    found = []
    for parts in (1, 3):
        task = student_and_teacher(momentum=1.0)
        Stepper(task, plan(accumulate=parts), World()).take(batch, 0.0, 0.5)
        found.append(task.model.center.clone())
    with torch.no_grad():
        mean = task.model(batch.large, batch.small)[1].flatten(0, 1).mean(0)
    assert_close(found[0], 0.1 * mean)
    assert_close(found[1], found[0])
    still = student_and_teacher(centered=False)
    take(still, 1)
    assert (still.model.center == 0).all()


def test_the_patch_projection_of_moco_does_not_move():
    task = contrast()
    before = {name: p.clone() for name, p in task.model.backbone.named_parameters()}
    take(task)
    after = dict(task.model.backbone.named_parameters())
    assert all(torch.equal(after[name], before[name]) for name in after if name.startswith("tokenizer."))
    assert all(p.grad is None for p in task.model.backbone.tokenizer.parameters())
    assert not all(torch.equal(after[name], before[name]) for name in after if name.startswith("encoder."))


def test_contrast_is_symmetric_in_the_views():
    task = contrast(momentum=1.0)
    batch = next(iter(views().batches()))
    task.model.eval()  # a batch norm is over one view anyway
    turned = batch._replace(large=batch.large.flip(1))
    assert_close(task.loss(batch), task.loss(turned))


@pytest.mark.parametrize("make", [student_and_teacher, contrast])
def test_evaluation_does_not_depend_on_batches_and_asks_neighbors_now_and_then(make):
    known = image_loader(Part(DIGITS["train"], np.arange(100)), backbone().preprocessing, batch=30)
    task = make(neighbors=Neighbors(known=known, classes=10, every=2, steps=3))
    take(task, 3)
    wholes = [task.evaluate(image_loader(DIGITS["val"], backbone().preprocessing, batch=size).batches()) for size in (32, 50)]
    assert isinstance(wholes[0], Evaluation)
    assert wholes[0].error == math.inf
    assert wholes[0].metrics == pytest.approx(wholes[1].metrics, abs=1e-4)
    with torch.no_grad():
        features = [
            mean_features(task.model.backbone.eval(), torch.cat([b.images for b in image_loader(split, backbone().preprocessing, batch=99).batches()]))
            for split in (known.source.split, DIGITS["val"])
        ]  # fmt: skip
    task.model.train()
    labels = [torch.from_numpy(split.labels) for split in (known.source.split, DIGITS["val"])]
    assert wholes[0].metrics["knn"] == pytest.approx(
        knn_accuracy(features[0], labels[0], features[1], labels[1], classes=10), abs=0.01
    )
    assert 0 < wholes[0].metrics["spread"] < 1.2
    assert task.model.training
    assert "k-NN" in describe_scores(task.score, wholes[0].metrics, METRICS)
    task.model.steps += 3
    task.done = 0.6
    asked = []
    for _ in range(4):
        asked.append(task.asks)
        task.model.steps += 3
    assert asked == [True, False, True, False]


def test_nothing_is_dropped_by_the_teacher():
    task = student_and_teacher(backbone={"drop_path": 0.5})
    model = task.model
    assert model.student.config.drop_path == 0.5
    assert model.backbone.config.drop_path == 0.0
    assert model.config.backbone["drop_path"] == 0.5


@pytest.mark.parametrize("make", [student_and_teacher, contrast])
def test_a_model_is_saved_whole(make, tmp_path):
    task = make()
    take(task, 2)
    save(task.model, tmp_path / "model")
    again = load(tmp_path / "model")
    for name, value in task.model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in task.model.parameters()]
    assert again.preprocessing == task.model.preprocessing
    assert again.steps == 2
    assert from_record(ARCHITECTURES[again.architecture].config, to_record(again.config), what="test") == task.model.config
    assert backbone_of(again, what="test") is again.backbone


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("resnet8_32", {}),
        ("swin_nano_patch2_window4_32", {}),
        ("vit_nano_conv", {}),
        ("vit_nano_patch4_32", {"position": "rotary"}),
    ],
)
def test_other_backbones_read_small_views_too(name, more):
    inside = create_model(name, num_classes=0, image_size=(32, 32), **more)
    assert inside.architecture in NETWORKS
    config = dino.DINOConfig(
        backbone=to_record(inside.config), network=inside.architecture, prototypes=7, hidden=12, bottleneck=5
    )
    model = dino.assemble(inside, config)
    student, teacher = model(torch.randn(2, 2, 3, 32, 32), torch.randn(2, 1, 3, 16, 16))
    assert student.shape == (3, 2, 7)
    assert teacher.shape == (2, 2, 7)
    student.sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def stripes(count: int = 96) -> ArraySplit:
    """Drawn so that views tell them apart: eight kinds."""
    generator, rows = np.random.default_rng(0), np.arange(8)
    images = [np.where((rows // (1 + i % 4)) % 2, 220, 30)[:, None].repeat(8, 1) for i in range(count)]
    turned = [p.T if i % 8 >= 4 else p for i, p in enumerate(images)]
    noisy = np.stack(turned) + generator.integers(0, 20, (count, 8, 8))
    return ArraySplit(noisy.astype(np.uint8), np.arange(count) % 8)


@pytest.mark.parametrize("collapsing", [False, True])
def test_a_forced_collapse_is_reported_and_a_healthy_run_is_not(collapsing):
    split, inside = stripes(), backbone()
    forced = {"centered": False, "momentum": 0.0}
    healthy = {"momentum": 0.96, "batch_norm": True, "backbone": {"prefix": 0, "pool": "mean"}}
    task = student_and_teacher(**(forced if collapsing else healthy))
    stepper, step = Stepper(task, plan(lr=3e-3), World()), 0
    loader = view_loader(split, inside.preprocessing, wanted=LOOKS, batch=32)
    task.model.train()
    for epoch in range(12):
        for batch in loader.batches(epoch):
            stepper.take(batch, 3e-3, 0.0 if collapsing else step / 100)
            step += 1
    found = task.evaluate(image_loader(split, inside.preprocessing, batch=32).batches())
    assert found.warning.startswith("collapsed: all images give nearly the same output") is collapsing, found.metrics


def two_halves() -> dict[str, object]:
    """What one of two processes has after two steps with its half of each batch."""
    torch.set_num_threads(1)
    world = World.join(timeout=60.0)
    found: dict[str, object] = {}
    task = student_and_teacher(world=world)
    take(task, 2, world=world)
    found["center"] = task.model.center.tolist()
    found["teacher"] = task.model.backbone.prefix.tokens.flatten().tolist()
    other = contrast(world=world)
    keys, indices = torch.arange(4.0)[:, None] + 10 * world.rank, torch.tensor([6, 0, 2, 4]) + world.rank
    every, own = other.all_keys(keys, indices)
    found["keys"], found["own"] = every.flatten().tolist(), own.tolist()
    take(other, 1, world=world)
    known = image_loader(Part(DIGITS["train"], np.arange(30)), backbone().preprocessing, batch=8, rank=world.rank, world=2)
    task.neighbors, task.done = Neighbors(known=known, classes=10, every=1, steps=1), 1.0
    val = image_loader(Part(DIGITS["val"], np.arange(21)), backbone().preprocessing, batch=8, rank=world.rank, world=2)
    found["metrics"] = task.evaluate(val.batches()).metrics
    world.leave()
    return found


@pytest.mark.slow
def test_two_processes_are_one():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__], env=os.environ | where | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        texts = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    found = [json.loads(text) for text in texts]
    alone = student_and_teacher()
    take(alone, 2)
    for one in found:
        assert one["center"] == pytest.approx(alone.model.center.tolist(), abs=1e-5)
        assert one["teacher"] == pytest.approx(alone.model.backbone.prefix.tokens.flatten().tolist(), abs=1e-4)
        assert one["keys"] == [1, 11, 2, 12, 3, 13, 0, 10]
        assert one["metrics"] == pytest.approx(found[0]["metrics"])
        assert "knn" in one["metrics"]
    assert found[0]["own"] == [6, 0, 2, 4]
    assert found[1]["own"] == [7, 1, 3, 5]
    known = image_loader(Part(DIGITS["train"], np.arange(30)), backbone().preprocessing, batch=8)
    alone.neighbors, alone.done = Neighbors(known=known, classes=10, every=1, steps=1), 1.0
    whole = alone.evaluate(image_loader(Part(DIGITS["val"], np.arange(21)), backbone().preprocessing, batch=8).batches())
    assert found[0]["metrics"] == pytest.approx(whole.metrics, abs=1e-3)


def test_views_are_cut_into_parts():
    batch = next(iter(views(batch=6).batches()))
    assert isinstance(batch, ViewBatch)
    assert batch.small.shape == (6, 2, 1, 4, 4)


if __name__ == "__main__":
    print(json.dumps(two_halves()))
