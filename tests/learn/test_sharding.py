"""A model divided between two real processes must learn, evaluate, save and go on as two copies of it do.

This file is also what the two processes run, once for all tests: `python test_sharding.py FOLDER DATA`, with torchrun's environment.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import vitrail as vt
from vitrail.data import image_source
from vitrail.data.dataset import ArraySplit
from vitrail.data.loader import Loader
from vitrail.errors import VitrailError
from vitrail.learn.training import sharded_state
from vitrail.learn.training.checkpoint import find_checkpoint, find_fault, list_shards
from vitrail.learn.training.interruption import Interrupted
from vitrail.learn.training.sharded_state import check_written, load_shards, save_shards
from vitrail.learn.training.sharding import gather_weights, is_sharded, local, shard, whole
from vitrail.learn.training.state import Progress, save_state
from vitrail.learn.training.world import World
from vitrail.report import frame
from vitrail.run import train
from vitrail.tasks.classify.objective import Classify
from vitrail.tasks.classify.options import Options
from vitrail.tasks.options import check

# Batches of 14 for two, 15 images to validate: of the second batch one process has none.
PLAIN = {"model": "vit_nano_conv", "batch": 14, "epochs": 1, "seed": 5, "workers": 0}
FULL = {**PLAIN, "epochs": 2, "ema": 0.9, "accumulate": 3, "drop_path": 0.3, "mixup": 0.4}
SGD = {**FULL, "optimizer": "sgd"}  # AdamW makes steps of the rounding errors where a gradient is zero


class Pair:
    """One of the two processes."""

    def __init__(self, folder: Path, data: str) -> None:
        self.folder, self.data, self.count, self.models = folder, data, 0, list[torch.nn.Module]()
        self.rank = int(os.environ["RANK"])
        frame.write_page = lambda path, *_, **__: path.write_text("")
        train.shard = self.remember

    def remember(self, model: torch.nn.Module, world: World) -> None:
        shard(model, world)
        self.models.append(model)

    def join(self) -> World:
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(self.count)  # every group has its own names in the store
        self.count += 1
        return World.join(timeout=60.0)

    def train(self, run: str, **options: Any) -> None:
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(self.count)
        self.count += 1
        vt.train(data=self.data, out=self.folder / run, device="cpu", quiet=True, **options)

    def interrupt(self, run: str, epoch: int, number: int, **options: Any) -> bool:
        """A SIGTERM to the second process alone."""

        class Stopped(Loader):
            def batches(self, *place):
                for at, batch in enumerate(super().batches(*place)):
                    if self.order.shuffle and (place[0], at) == (epoch, number) and self.order.rank == 1:
                        os.kill(os.getpid(), signal.SIGTERM)
                    yield batch

        image_source.Loader = Stopped
        try:
            self.train(run, **options)
        except Interrupted:
            return True
        finally:
            image_source.Loader = Loader
        return False

    def spoil(self, run: str, **options: Any) -> None:
        """Three losses in a row are not finite, on the second process alone."""
        plain, calls = Classify.loss, iter(range(10**6))

        def loss(task, batch):
            return plain(task, batch) * (torch.nan if self.rank == 1 and next(calls) in (2, 3, 4) else 1.0)

        Classify.loss = loss
        try:
            self.train(run, **options)
        finally:
            Classify.loss = plain


def new_learner(world: World, *, steps: int = 0) -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = vt.create_model("vit_nano_conv", num_classes=3, image_size=(8, 8), in_channels=1)
    if world.size > 1:
        shard(model, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 1, 8, 8)).square().mean().backward()
        optimizer.step()
    world.average_buffers(model)
    return model, optimizer


def try_saving(world: World, folder: Path) -> dict[str, Any]:
    """Two processes' checkpoint to one, to two: the same tensors; and failures of one process are everyone's."""
    found: dict[str, Any] = {}
    model, optimizer = new_learner(world, steps=2)
    progress, extra = Progress(step=2), {"number": torch.tensor(7)}
    save_shards(folder / "two", progress, model, optimizer, world, extra=extra)
    checkpoint = find_checkpoint(folder / "two").checkpoint
    total = sum(p.numel() for p in model.parameters())
    found["moments here"] = sum(local(optimizer.state[p]["exp_avg"]).numel() for p in model.parameters()) / total
    gathered = gather_weights(model, keep=world.first)
    found["gathered"] = len(gathered)
    moments = {name: whole(optimizer.state[p]["exp_avg_sq"]) for name, p in model.named_parameters()}
    if world.first:
        alone, its = new_learner(World())
        number = {"number": torch.tensor(0)}
        load_shards(checkpoint, alone, its, World(), extra=number)
        found["number"] = number["number"].item()
        found["weights alone"] = all(tensor.equal(gathered[name]) for name, tensor in alone.state_dict().items())
        found["moments alone"] = all(its.state[p]["exp_avg_sq"].equal(moments[name]) for name, p in alone.named_parameters())
        save_state(folder / "one", progress, alone, its, extra=number)
    world.wait()
    again, optimizer = new_learner(world)
    load_shards(find_checkpoint(folder / "one").checkpoint, again, optimizer, world, extra=extra)
    save_shards(folder / "three", progress, again, optimizer, world, extra=extra)
    found["files"] = list_shards(checkpoint)
    other = find_checkpoint(folder / "three").checkpoint
    found["same"] = all(same_tensors(checkpoint / name, other / name) for name in found["files"])
    world.wait()

    plain = sharded_state.sum_of
    sharded_state.sum_of = full_disk if world.rank == 1 else plain
    found["full disk"] = refused(save_shards, folder / "two", Progress(step=3), again, optimizer, world, extra=extra)
    sharded_state.sum_of = plain
    found["remains"] = sorted(path.name for path in (folder / "two").iterdir())
    if world.rank == 1:
        local(next(iter(again.parameters())).detach())[0] = torch.nan
    found["not finite"] = refused(save_shards, folder / "two", Progress(step=3), again, optimizer, world, extra=extra)
    found["another"] = refused(load_shards, checkpoint, again, optimizer, world, extra={})
    world.wait()
    return found


def same_tensors(one: Path, other: Path) -> bool:
    """Bit for bit; the files are not the same bytes, because the order within their headers is not determined."""
    a, b = load_file(one), load_file(other)
    return a.keys() == b.keys() and all(tensor.equal(b[name]) for name, tensor in a.items())


def full_disk(path: Path) -> bytes:
    raise OSError(28, "No space left on device")


def refused(work: Any, *words: Any, **more: Any) -> str:
    try:
        work(*words, **more)
    except VitrailError as error:
        return str(error)
    return ""


def try_evaluating(world: World) -> dict[str, Any]:
    """Splits of any size: the answers of divided weights are those of copies, bit for bit and in order."""
    copies, divided = new_learner(World())[0], new_learner(world)[0]
    found = {}
    for size in (1, 2, 5, 8, 9, 15):
        images = torch.arange(size * 64).reshape(size, 8, 8).mul(37).remainder(251).to(torch.uint8).numpy()
        split = ArraySplit(images, torch.arange(size).remainder(3).numpy())
        answers = []
        for model in (copies, divided):
            loader = image_source.image_loader(split, model.preprocessing, batch=4, rank=world.rank, world=world.size)
            answers.append(Classify(model, world=world).evaluate(loader.batches()))
        same = (answers[0].logits == answers[1].logits).all() and (answers[0].truth == answers[1].truth).all()
        found[str(size)] = [bool(same), len(answers[1].truth), divided.training]
    return found


def one_of_two(folder: Path, data: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    pair = Pair(folder, data)
    pair.train("copies", **SGD)
    pair.train("divided", **SGD, shard=True, checkpointing=True)
    found: dict[str, Any] = {"rank": pair.rank}
    (model,) = pair.models
    found["here"] = sum(local(p).numel() for p in model.parameters()) / sum(p.numel() for p in model.parameters())
    pair.train("whole", **FULL, shard=True)
    found["interrupted"] = pair.interrupt("stopped", 1, 2, **FULL, shard=True)
    if pair.rank == 0:
        shutil.copytree(folder / "stopped", folder / "alone")
    pair.train("stopped", resume=True)
    pair.spoil("spoiled", **PLAIN, shard=True)
    world = pair.join()
    found["saving"] = try_saving(world, folder / "saving")
    found["evaluation"] = try_evaluating(world)
    world.leave()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharding")


@pytest.fixture(scope="module")
def found(folder: Path, arrays: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    processes = []
    for rank in range(2):
        who = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", **where}
        line = [sys.executable, __file__, str(folder), str(arrays)]
        processes.append(subprocess.Popen(line, env=environment | who, stdout=subprocess.PIPE, text=True))
    try:
        texts = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(text.splitlines()[-1]) for text in texts]


def steps_of(run: Path, name: str) -> list[float]:
    return [json.loads(line)[name] for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_divided_model_learns_what_its_copies_learn(found, folder):
    copies, divided = (load_file(folder / run / "last" / "model.safetensors") for run in ("copies", "divided"))
    assert copies.keys() == divided.keys()
    for name, tensor in copies.items():
        torch.testing.assert_close(divided[name], tensor, atol=1e-5, rtol=1e-5)
    for name in ("loss", "gradient"):  # the norm over all shares is the whole gradient's
        assert steps_of(folder / "divided", name) == pytest.approx(steps_of(folder / "copies", name), rel=1e-5)
    rows = [(folder / run / "results.csv").read_text().splitlines()[1].split(",")[:-1] for run in ("copies", "divided")]
    assert [float(cell) for cell in rows[1]] == pytest.approx([float(cell) for cell in rows[0]], rel=1e-5)


@pytest.mark.slow
def test_each_process_keeps_half(found):
    assert all(0.45 < f["here"] < 0.55 for f in found)
    assert all(0.45 < f["saving"]["moments here"] < 0.55 for f in found)
    assert sum(f["here"] for f in found) == pytest.approx(1.0)
    assert found[0]["saving"]["gathered"] > 0
    assert found[1]["saving"]["gathered"] == 0, "only the first process keeps whole weights"


@pytest.mark.slow
def test_an_interrupted_run_goes_on_bit_for_bit(found, folder):
    assert all(f["interrupted"] for f in found)
    checkpoints = [find_checkpoint(folder / run / "state").checkpoint for run in ("whole", "stopped")]
    names = [list_shards(checkpoint) for checkpoint in checkpoints]
    assert names[0] == names[1] == [f"shard-0000{number}-model-00001-of-00001.safetensors" for number in (1, 2)]
    files = [Path("best/model.safetensors"), Path("last/model.safetensors")]
    files += [Path("state") / checkpoints[0].name / name for name in names[0]]
    for name in files:
        assert same_tensors(folder / "whole" / name, folder / "stopped" / name), name
    assert steps_of(folder / "stopped", "step") == list(range(1, 13))


@pytest.mark.slow
def test_nothing_of_a_checkpoint_is_a_pickle(found, folder):
    names = {path.name.partition("-")[0] for path in find_checkpoint(folder / "whole" / "state").checkpoint.iterdir()}
    assert names == {"shard", "state.json", "SHA256SUMS"}


@pytest.mark.slow
def test_losses_that_are_not_finite_take_both_back(found, folder):
    numbers = json.loads((find_checkpoint(folder / "spoiled" / "state").checkpoint / "state.json").read_text())
    assert (numbers["rollbacks"], numbers["skipped"], numbers["factor"], numbers["finished"]) == (1, 3, 0.5, True)


@pytest.mark.slow
def test_any_number_of_processes_reads_a_checkpoint(found):
    first = found[0]["saving"]
    assert (first["number"], first["weights alone"], first["moments alone"]) == (7, True, True)
    assert all(f["saving"]["same"] and len(f["saving"]["files"]) == 2 for f in found), "2 to 1 to 2 is the same"


@pytest.mark.slow
def test_what_fails_on_one_process_is_reported_by_both(found):
    for what, text in (
        ("full disk", "step 3 cannot be written (No space left on device); the last good checkpoint (step 2) is intact"),
        ("not finite", "is not finite at step 3: nothing is saved; the last good checkpoint (step 2) is intact"),
        ("another", "does not fit this model (extra/number has shape (), expected None)"),
    ):
        assert all(text in f["saving"][what] for f in found), [f["saving"][what] for f in found]
    assert found[0]["saving"]["remains"] == ["step-000000002"]


@pytest.mark.slow
def test_evaluation_is_exact_for_every_size(found):
    for f in found:
        assert f["evaluation"] == {str(size): [True, size, True] for size in (1, 2, 5, 8, 9, 15)}


@pytest.mark.slow
def test_one_process_goes_on_and_passes_over_a_damaged_checkpoint(found, folder, arrays, command, quick_report):
    state = folder / "alone" / "state"
    (checkpoint,) = state.iterdir()
    for number, damage in enumerate((Path.unlink, cut_short)):
        newer = state / f"step-00000009{number}"
        shutil.copytree(checkpoint, newer)
        damage(newer / list_shards(newer)[number])
    answer = command("train", "--data", arrays, "--resume", "--out", folder / "alone")
    assert answer.code == 0, answer.err
    lines = [line for line in (answer.out + answer.err).splitlines() if "passed over" in line]
    assert [line.partition("(")[2] for line in lines] == [
        "its checksum is not the one in SHA256SUMS)",
        "No such file or directory)",
    ]
    assert steps_of(folder / "alone", "step") == list(range(1, 13))
    rows = [(folder / run / "results.csv").read_text().splitlines()[-1].split(",") for run in ("whole", "alone")]
    assert [float(cell) for cell in rows[1]][:2] == pytest.approx([float(cell) for cell in rows[0]][:2], rel=0.2)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.slow
def test_shares_without_their_sums_are_refused(found, folder, tmp_path):
    checkpoint = tmp_path / "step-000000001"
    shutil.copytree(find_checkpoint(folder / "whole" / "state").checkpoint, checkpoint)
    assert find_fault(checkpoint) is None
    (checkpoint / "SHA256SUMS").unlink()
    assert "No such file" in str(find_fault(checkpoint))


def test_a_file_that_reads_back_otherwise_is_noticed(tmp_path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(5)}
    save_file(tensors, tmp_path / "x.safetensors")
    check_written(tmp_path / "x.safetensors", {**tensors, "c": torch.zeros(2)})  # "c" is in another process's file
    tensors["a"][1, 2] += 1
    with pytest.raises(OSError, match=r"x\.safetensors reads back otherwise"):
        check_written(tmp_path / "x.safetensors", tensors)


def test_alone_it_is_refused_in_one_line(command, arrays, tmp_path):
    answer = command("train", "--data", arrays, "--shard", "--out", tmp_path / "run")
    assert answer.code != 0
    assert "--shard divides the model among several processes: start them with torchrun" in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "more, name", [({"compile": True}, "--compile"), ({"sam": 0.05}, "--sam 0.05"), ({"optimizer": "muon"}, "--optimizer muon")]
)
def test_what_does_not_go_with_it_is_named(more, name):
    with pytest.raises(VitrailError, match=f"--shard and {name} do not go together"):
        check(Options(data="digits", shard=True, **more))
    check(Options(data="digits", shard=True, sam=0.0, optimizer="sgd"))


def test_a_model_as_it_is_made_is_not_divided():
    model, tensor = torch.nn.Linear(2, 3), torch.zeros(2)
    assert not is_sharded(model)
    assert local(tensor) is tensor
    assert whole(tensor) is tensor


if __name__ == "__main__":
    found_here = one_of_two(Path(sys.argv[1]), sys.argv[2])
    print(json.dumps(found_here), flush=True)
