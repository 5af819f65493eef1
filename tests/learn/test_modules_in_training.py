"""What the training step asks of a model's modules: to draw anew after it, and for losses of their own. In two processes too.

This file is also what the two processes run: `python test_modules_in_training.py FOLDER DATA`, each with torchrun's environment.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import vitrail as vt
from vitrail.learn.optim.averaging import Average
from vitrail.learn.training.objective import Adding, Redrawing
from vitrail.learn.training.plan import Plan
from vitrail.learn.training.step import Stepper, find_adding, find_redrawing
from vitrail.learn.training.world import World
from vitrail.models.catalogue import create_model
from vitrail.nn.attention import build
from vitrail.report import frame

PLAN = Plan(epochs=1, lr=0.1, weight_decay=0.0, warmup=0.0, clip=1e9, optimizer="sgd", seed=0, device="cpu")
OPTIONS = {
    "model": "vit_nano_patch4_32",
    "epochs": 2,
    "batch_size": 24,
    "seed": 5,
    "workers": 0,
    "device": "cpu",
    "quiet": True,
}


def with_toys():
    from examples.kernels import TOYS

    return MappingProxyType({**build.ATTENTION, **TOYS})


@pytest.fixture(autouse=True)
def _toys(monkeypatch):
    monkeypatch.setattr(build, "ATTENTION", with_toys())


class Classified:
    name, score = "classified", "accuracy"

    def __init__(self, attention, **options):
        torch.manual_seed(0)
        size = {"image_size": 8, "width": 24, "heads": 3, "depth": 2, "num_classes": 5}
        self.model = create_model("vit_nano_patch4_32", **size, attention=attention, attention_options=options).train()

    def loss(self, batch):
        return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def evaluate(self, batches):
        raise NotImplementedError


class Batch(NamedTuple):
    images: torch.Tensor
    labels: torch.Tensor


BATCH = Batch(torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(2)), torch.arange(6) % 5)


def rows(model):
    return [module.rows.clone() for module in find_redrawing(model)]


def test_draws_are_a_function_of_seed_and_step():
    one, two = Classified("redrawn", features=7, every=2), Classified("redrawn", features=7, every=2)
    first = rows(one.model)
    assert len(first) == 2
    assert not torch.equal(*first)  # layers draw apart
    stepper, seen = Stepper(one, PLAN, World()), []
    for step in range(4):
        stepper.take(BATCH, 0.1, step=step)
        seen.append(rows(one.model))
    assert all(torch.equal(a, b) for a, b in zip(first, seen[0], strict=True))  # every second step
    assert not torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[1][0], seen[2][0])
    Stepper(two, PLAN, World()).take(BATCH, 0.1, step=3)  # as a resumed run would
    assert all(torch.equal(a, b) for a, b in zip(seen[3], rows(two.model), strict=True))


def test_a_step_that_is_not_taken_draws_nothing():
    task = Classified("redrawn", features=7)
    before = rows(task.model)
    assert not Stepper(task, PLAN, World()).take(Batch(BATCH.images * torch.nan, BATCH.labels), 0.1).finite
    assert all(torch.equal(a, b) for a, b in zip(before, rows(task.model), strict=True))


def test_an_average_of_weights_has_the_draws_themselves():
    task = Classified("redrawn", features=7)
    average = Average(task.model, 0.9)
    for module in find_redrawing(task.model):
        module.after_step(4)
    live = rows(task.model)
    average.update()
    with average.applied():
        assert all(torch.equal(a, b) for a, b in zip(live, rows(task.model), strict=True))


def gradients(task, plan=PLAN):
    stepper = Stepper(task, plan, World())
    taken = stepper.gradient(BATCH)
    return taken, [parameter.grad.clone() for parameter in stepper.parameters]


def test_auxiliary_losses_are_added_once():
    taken, found = gradients(Classified("spread", cost=0.3))
    task = Classified("spread", cost=0.3)
    loss = task.loss(BATCH)
    auxiliary = sum(module.last for module in task.model.modules() if hasattr(module, "auxiliary_loss"))
    (loss + auxiliary).backward()
    assert taken.auxiliary == pytest.approx(auxiliary.item(), rel=1e-5)
    assert taken.loss == pytest.approx((loss + auxiliary).item(), rel=1e-5)
    for ours, expected in zip(found, (one.grad for one in task.model.parameters()), strict=True):
        assert_close(ours, expected)
    free, others = gradients(Classified("spread", cost=0.0))
    assert free.auxiliary == 0.0
    assert any(not torch.allclose(a, b) for a, b in zip(found, others, strict=True))


def test_in_parts_the_mean_is_taken():
    whole, found = gradients(Classified("spread", cost=0.3))
    parts, again = gradients(Classified("spread", cost=0.3), replace(PLAN, accumulate=3))
    assert parts.auxiliary == pytest.approx(whole.auxiliary, rel=1e-4)
    for one, other in zip(found, again, strict=True):
        assert_close(one, other, atol=1e-6, rtol=1e-3)


def test_other_models_are_asked_nothing():
    task = Classified("softmax")
    stepper = Stepper(task, PLAN, World())
    assert (stepper.redrawing, stepper.adding) == ([], [])
    assert stepper.take(BATCH, 0.1).auxiliary is None


class Loud(nn.Module):
    def __init__(self, *children):
        super().__init__()
        self.inside = nn.ModuleList(children)

    def auxiliary_loss(self):
        return torch.zeros(())


def test_a_module_answers_for_all_inside_it_and_a_teacher_adds_nothing():
    inner, outer = Loud(nn.Linear(2, 2)), Loud(Loud(nn.Linear(2, 2)))
    teacher = Loud(nn.Linear(2, 2)).requires_grad_(False)
    assert isinstance(outer, Adding)
    assert not isinstance(outer, Redrawing)
    assert list(find_adding(nn.Sequential(inner, outer, teacher, nn.Linear(2, 2)))) == [inner, outer]


def test_a_run_records_them(arrays, tmp_path, quick_report):
    run = vt.train(data=arrays, out=tmp_path / "run", attention="spread", attention_options={"cost": 0.5}, **OPTIONS)
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert all(0.0 < record["auxiliary_loss"] < record["loss"] for record in records)
    assert "attention_options:\n  cost: 0.5\n" in (run.path / "config.yaml").read_text()
    assert vt.load(run.path).config.attention_options == {"cost": 0.5}


@pytest.mark.slow
def test_two_processes_have_the_same_draws(arrays, tmp_path):
    """Real ones: what each has at the end, and what is saved."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(tmp_path), str(arrays)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(vt.__file__).parents[1]), str(Path(__file__).parents[1])]),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    assert [process.wait(300) for process in started] == [0, 0]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    assert first["steps"] == 8
    model = vt.load(tmp_path / "run/last")
    kernels = list(find_redrawing(model))
    assert [module.rows.tolist() for module in kernels] == first["rows"]
    for kernel in kernels:  # by the seed that is saved with them
        kernel.after_step(first["steps"])
    assert [module.rows.tolist() for module in kernels] == first["rows"]


def one_of_two(folder: Path, data: str) -> None:
    build.ATTENTION = with_toys()
    frame.write_page = lambda path, *_, **__: path.write_text("")
    taken: list[int] = []
    last: list[list[list[float]]] = []
    original = Stepper.take

    def take(self, batch, rate, done=0.0, step=0):
        found = original(self, batch, rate, done, step)
        taken.append(step)
        last[:] = [module.rows.tolist() for module in self.redrawing]
        return found

    Stepper.take = take
    options = {**OPTIONS, "attention": "redrawn", "attention_options": {"features": 7}}
    vt.train(data=data, out=folder / "run", **options)
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps({"rows": last, "steps": len(taken)}))


if __name__ == "__main__":
    one_of_two(Path(sys.argv[1]), sys.argv[2])
