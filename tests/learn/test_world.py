"""Two real processes, started once, must agree with one: gradients, gathered rows, means, flags, shared values, lost contact.

This file is also what the two processes run: `python test_world.py FOLDER`, each with torchrun's environment.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vitrail.errors import VitrailError
from vitrail.learn.training.world import World, read_environment

PATIENCE = 4.0  # seconds until a process gives up on a silent one
EVERYWHERE = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)


def small_model(dtype: torch.dtype) -> nn.Module:
    return nn.Sequential(nn.Linear(7, 11), nn.GELU(), nn.LayerNorm(11), nn.Linear(11, 3)).to(dtype)


def gradients(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Of a mean over the batch, flat."""
    model(x).square().mean().backward()
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def some_rows(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Thirteen rows in no order, with a NaN where there can be one: what one process alone would have."""
    generator = torch.Generator().manual_seed(5)
    rows, order = torch.randn(13, 5, 2, generator=generator) * 9, torch.randperm(13, generator=generator)
    if dtype.is_floating_point:
        rows[4, 1, 1] = torch.nan
    return (rows > 0 if dtype == torch.bool else rows.to(dtype)), order


def one_of_two(folder: Path) -> dict[str, Any]:
    """What each process finds out; the test compares it with the single-process answer."""
    torch.set_num_threads(1)
    world = World.join(timeout=60.0)
    found: dict[str, Any] = {"rank": world.rank, "first": world.first, "size": world.size}
    found["mean"] = world.mean([float(world.rank), 0.1 + world.rank, -3.0])
    found["any"] = [world.any(flag) for flag in (False, world.rank == 1, world.rank == 0, True)]
    found["share"] = world.share({"ü": [1, None, 2.5]} if world.first else "not mine")
    found["gather"] = world.gather(["x" * 5 * world.rank, world.rank])
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(world.rank)  # different weights at first: wrapping must take the first process's
        model = small_model(dtype)
        x = torch.linspace(-2, 2, 6 * 7, dtype=dtype).reshape(6, 7).sin()
        got = gradients(world.wrap(model), x[world.rank :: 2])
        torch.manual_seed(0)
        found[f"gradient {dtype}"] = (got - gradients(small_model(dtype), x)).abs().max().item()
    normed = nn.Sequential(nn.BatchNorm1d(7))
    x = torch.arange(6 * 7).reshape(6, 7).sin()
    wrapped = world.wrap(normed)
    for _ in range(3):
        wrapped(x[world.rank :: 2])
    world.average_buffers(normed)
    alone = nn.BatchNorm1d(7)
    for _ in range(3):
        alone(x)
    found["running mean"] = (normed[0].running_mean - alone.running_mean).abs().max().item()
    found["rows"] = {}
    for dtype in DTYPES:
        rows, order = some_rows(dtype)
        mine = slice(0, 4) if world.first else slice(4, None)
        got, indices = world.gather_rows(rows[mine], order[mine])
        right = got.dtype == dtype and same(got, rows[order.argsort()]) and indices.tolist() == list(range(13))
        none = slice(0, 0) if world.first else slice(None)  # uneven to the end: nothing here
        rows = torch.empty(0) if world.first else rows  # and not even the shape is known
        got, indices = world.gather_rows(rows, order[none])
        found["rows"][str(dtype)] = [right, same(got, some_rows(dtype)[0][order.argsort()]), got.dtype == dtype]
    nothing, indices = world.gather_rows(torch.empty(0, 3), torch.empty(0, dtype=torch.int64))
    found["nothing"] = [list(nothing.shape), indices.tolist()]
    column = torch.tensor([[world.rank, 7, 8]])[:, 0]  # one row of a column: contiguous, whatever its stride
    found["column"] = world.gather_rows(torch.zeros(1, 2), column)[1].tolist()
    try:
        world.gather_rows(torch.zeros(2, 3 + world.rank), torch.arange(2))
    except ValueError as error:
        found["different"] = str(error)
    world.wait()
    world.leave()
    world.leave()  # twice is harmless

    os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    world = World.join(timeout=PATIENCE)
    begin = time.monotonic()
    if world.first:
        try:
            world.wait()  # the other never comes
        except VitrailError as error:
            found["lost"] = str(error)
            found["after"] = time.monotonic() - begin
        (folder / "done").touch()
    else:
        while not (folder / "done").exists() and time.monotonic() - begin < 200:
            time.sleep(0.05)
        found["silent"] = (folder / "done").exists()
    return found


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def free_ports() -> int:
    """The first of two neighboring ports that nobody listens on."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    from examples.once import make_once  # not where this file is the program

    return list(make_once(tmp_path_factory, "world", lambda: run_two(tmp_path_factory.mktemp("world"))))


def run_two(folder: Path) -> list[dict[str, Any]]:
    """What both processes found out."""
    port = free_ports()
    processes = []
    for rank in range(2):
        who = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        processes.append(
            subprocess.Popen([sys.executable, __file__, str(folder)], env=os.environ | who, stdout=subprocess.PIPE, text=True)
        )
    try:
        texts = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    return [json.loads(text) for text in texts]


def test_each_process_knows_which_it_is(found):
    assert [(f["rank"], f["first"], f["size"]) for f in found] == [(0, True, 2), (1, False, 2)]


def test_means_flags_and_values_are_the_same_on_both(found):
    for f in found:
        assert f["mean"] == [0.5, 0.6000000000000001, -3.0]
        assert f["any"] == [False, True, True, True]
        assert f["share"] == {"ü": [1, None, 2.5]}
        assert f["gather"] == [["", 0], ["xxxxx", 1]]


def test_gradients_of_two_half_batches_are_the_whole_batchs(found):
    for f in found:
        assert f["gradient torch.float32"] < 1e-6
        assert f["gradient torch.float64"] < 1e-15


def test_averaged_running_means_are_those_of_whole_batches(found):
    assert all(f["running mean"] < 1e-6 for f in found)


def test_gathered_rows_are_those_of_one_process_bit_for_bit(found):
    for f in found:
        assert f["rows"] == {str(dtype): [True, True, True] for dtype in DTYPES}
        assert f["nothing"] == [[0, 3], []]
        assert f["column"] == [0, 1]


def test_rows_of_different_shapes_are_refused_by_both(found):
    assert all("differ in shape or type" in f["different"] for f in found)


def test_a_silent_process_is_given_up_in_time(found):
    assert found[0]["lost"].startswith("process 0 of 2 lost the others: ")
    assert "\n" not in found[0]["lost"]
    assert found[0]["after"] > PATIENCE - 0.5
    assert found[1][
        "silent"
    ]  # it was given up while it was still there: it waits for that, fifty times as long as the other's patience


def test_alone_everything_is_trivial(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("torch.distributed.init_process_group", None)  # calling it would fail
    world, model = World.join(), nn.BatchNorm1d(3)
    assert world == World()
    assert world.first
    assert world.wrap(model) is model
    assert world.mean([1.5, 2.0]) == [1.5, 2.0]
    assert world.share({"a": 1}) == {"a": 1}
    assert world.gather("x") == ["x"]
    assert (world.any(True), world.any(False)) == (True, False)
    rows, indices = world.gather_rows(torch.tensor([[3.0], [1.0], [2.0]]), torch.tensor([30, 10, 20]))
    assert rows.tolist() == [[1.0], [2.0], [3.0]]
    assert indices.tolist() == [10, 20, 30]
    world.average_buffers(model)
    world.wait()
    world.leave()


def test_a_row_without_an_index_is_refused():
    with pytest.raises(Exception, match=r"index|indices"):  # by shape in the tests, by our own message elsewhere
        World().gather_rows(torch.zeros(2, 1), torch.arange(3))


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"RANK": "0"}, "RANK is set but WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not"),
        ({"WORLD_SIZE": "2", "RANK": "1", **EVERYWHERE}, "LOCAL_RANK is not"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "here"}, "MASTER_PORT is not"),
        ({"WORLD_SIZE": "two", "RANK": "0", "LOCAL_RANK": "0", **EVERYWHERE}, 'WORLD_SIZE is "two"'),
        ({"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0", **EVERYWHERE}, "RANK 2"),
        ({"WORLD_SIZE": "2", "RANK": "-1", "LOCAL_RANK": "0", **EVERYWHERE}, "RANK -1"),
    ],
)
def test_half_an_environment_is_one_clear_line(environment, message):
    with pytest.raises(VitrailError, match=message) as caught:
        read_environment(environment)
    assert "\n" not in str(caught.value)


def test_an_environment_of_one():
    assert read_environment({}) == (0, 1, 0)
    assert read_environment({"MASTER_ADDR": "somewhere"}) == (0, 1, 0)
    assert read_environment({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", **EVERYWHERE}) == (0, 1, 0)
    assert read_environment({"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", **EVERYWHERE}) == (9, 16, 1)


@pytest.mark.parametrize("device, message", [("mps", "need cpu or cuda"), ("cuda:1", "say --device cuda")])
def test_several_processes_cannot_share_a_device(monkeypatch, device, message):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", **EVERYWHERE}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(VitrailError, match=message):
        World.join(device)


if __name__ == "__main__":
    found_here = one_of_two(Path(sys.argv[1]))
    print(json.dumps(found_here), flush=True)
    os._exit(0)  # a group that has lost a member may wait for it while it is taken apart
