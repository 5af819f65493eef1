"""Every registered task, and the toys of the tests, with one tiny run each: trained once in a session, whichever worker needs it first."""

import contextlib
import fcntl
import importlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from examples import figures
from examples.example import Example, write_example
from examples.once import shared_folder
from examples.toys import TOYS, forget_toys, register_toys
from vitrail.cli.app import run
from vitrail.tasks import registry

TIMEOUT = 120  # seconds that another worker, or a child, may take


def task_names() -> list[str]:
    """Whatever is registered: a new task is tested because it is there."""
    return [*registry.TASKS, *TOYS]


PAIRED = (
    "classify",
    "detect",
    "segment3d",
    "translate",
    "mae",
)  # two processes: a task for each kind of data; the others are slow


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "two_processes" in metafunc.fixturenames:
        slow = [pytest.param(name, marks=() if name in PAIRED else pytest.mark.slow) for name in task_names()]
        metafunc.parametrize("task", slow)
    elif "task" in metafunc.fixturenames:
        metafunc.parametrize("task", task_names())


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    """Only while a case runs: the other tests of this process know the real tasks alone."""
    register_toys()
    yield
    forget_toys()


@dataclass(frozen=True)
class Answer:
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def headline(self) -> str:
        return self.out.splitlines()[-1]

    def refused(self) -> str:
        """The one line of a refusal."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("vitrail: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


def call(*words: object) -> Answer:
    """`vitrail` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(word) for word in words])
    return Answer(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Trained:
    """A task's example and its run. Shared: who writes into it copies it first."""

    task: str
    example: Example
    path: Path
    answer: Answer
    options: tuple[str, ...]  # of train, beside --out

    @property
    def entry(self) -> registry.Entry:
        return registry.TASKS[self.task]

    @cached_property
    def metrics(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "metrics.json").read_text())
        return found

    @property
    def measured(self) -> dict[str, float]:
        """Those that `vitrail eval` measures too."""
        keys = [metric.key for metric in registry.metrics_of(self.task)]
        return {key: self.metrics[key] for key in keys if key in self.metrics}

    def words(self, *changes: object, out: Path) -> list[str]:
        return ["train", *self.options, *map(str, changes), "--out", str(out)]

    def has(self, part: registry.Part) -> bool:
        return registry.part(self.task, part) is not None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this session have in common."""
    folder = shared_folder(tmp_path_factory) / "conformance"
    folder.mkdir(exist_ok=True)
    return folder


def train_once(task: str, shared: Path) -> Trained:
    """By the worker that gets the lock first; the others wait and read."""
    folder = shared / task
    with (shared / f"{task}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            folder.mkdir()
            example = write_example(task, folder)
            needed = {name: str(train_once(name, shared).path) for name in example.needs}
            asked = tuple(word.format(**needed) for word in example.options)
            options = ("--task", task, "--data", example.data, *asked, "--device", "cpu")
            with smaller(example), figures.drawn():
                answer = call("train", *options, "--out", folder / "run")
            kept = {"options": options, "example": vars(example), "answer": vars(answer)}
            (folder / "trained.json").write_text(json.dumps(kept))
    kept = json.loads((folder / "trained.json").read_text())
    example = Example(**{name: tuple(value) if isinstance(value, list) else value for name, value in kept["example"].items()})
    return Trained(task, example, folder / "run", Answer(**kept["answer"]), tuple(kept["options"]))


@contextlib.contextmanager
def smaller(example: Example) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in example.constants.items():
            patch.setattr(name, value)
        yield


@pytest.fixture
def trained(task: str, shared: Path) -> Iterator[Trained]:
    found = train_once(task, shared)
    assert found.answer.code == 0, found.answer.err
    with smaller(found.example):
        yield found


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Trained:
    """The run in a folder of the test's own."""
    shutil.copytree(trained.path, tmp_path / "run")
    return Trained(trained.task, trained.example, tmp_path / "run", trained.answer, trained.options)


@pytest.fixture
def vitrail() -> Callable[..., Answer]:
    """`vitrail` in this process: vitrail("eval", run)."""
    return call


# ---- other processes, forked from this one: what it imported need not be imported again


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def run_forked(words: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """In the child: a command line, its output in a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    code = 1
    try:
        code = run(list(words))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        os._exit(code)


# What commands import late, some of it for seconds: imported here once instead of in every child.
IMPORTED_LATE = (
    "torch._dynamo",
    "torch.distributed",
    "uvicorn",
    "vitrail.run.train",
    "vitrail.run.report",
    "vitrail.serve.app",
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[Any, Path]]]:
    """Start a command in a process of its own; whatever still runs at the end of the test is ended."""
    started: list[Any] = []
    for name in IMPORTED_LATE:
        importlib.import_module(name)

    def begin(words: Sequence[object], environment: Mapping[str, str] | None = None) -> tuple[Any, Path]:
        log = tmp_path / f"process{len(started)}.txt"
        arguments = ([str(word) for word in words], environment or {}, str(log))
        child = multiprocessing.get_context("fork").Process(target=run_forked, args=arguments)
        child.start()
        started.append(child)
        return child, log

    yield begin
    for child in started:
        if child.is_alive():
            child.kill()
        child.join()


@pytest.fixture
def two_processes(start: Callable[..., tuple[Any, Path]]) -> Callable[..., list[Answer]]:
    """A command line in two processes that find each other as torchrun's do."""

    def both(*words: object) -> list[Answer]:
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        pair = [start(words, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(2)]
        for child, _ in pair:
            child.join(TIMEOUT)
        return [Answer(-1 if child.exitcode is None else child.exitcode, log.read_text(), "") for child, log in pair]

    return both


# ---- pages


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[[str], Any]]:
    """Opens an address in the browser. Complaints in the console, and requests that leave the page's own place, fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    complaints: list[str] = []
    asked: list[str] = []
    started: list[str] = []

    def opened(address: str) -> Any:
        started.append(address)
        tab = context.new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(address)
        return tab

    yield opened
    context.close()
    assert complaints == []
    own = tuple(address.rpartition("/")[0] + "/" for address in started)
    assert [url for url in asked if not url.startswith(("data:", "blob:", *own))] == []
