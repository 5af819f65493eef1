"""What several rooms' tests share: the command line as a function, a small dataset, and one trained run."""

import contextlib
import cProfile
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch, translate
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: models this small only wait for a second thread
os.environ["HF_HUB_OFFLINE"] = "1"

import hypothesis
import numpy as np
import pytest

import vitrail
from examples import figures
from vitrail.cli.app import run

pytest_plugins = ["studio_fixtures"]  # in tests/fixtures
SOURCE = Path(vitrail.__file__).parents[1]
NANO = ("--model", "vit_nano_conv", "--epochs", "1", "--batch-size", "256")


# No test depends on how busy the machine is.
hypothesis.settings.register_profile("vitrail", deadline=None)
hypothesis.settings.load_profile("vitrail")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


NOT_FAST = Path(__file__).parent / "net" / "not_fast.txt"
SLOW = [line for line in (Path(__file__).parent / "net" / "slow.txt").read_text().splitlines() if not line.startswith("#")]


TESTS = Path(__file__).parent
# Whole commands, trainings, files and pages: shape checks would take half as long again. What they compute is checked by the tests of its parts,
# and by a run of every task, `CHECKED` of the conformance suite. `make test-slow` runs all of them with shape checks.
COMMANDS = (
    "cli/*", "run/*", "serve/*", "report/*", "deploy/*", "conformance/*", "models/test_presets.py", "models/test_folder.py", "models/test_text_folder.py",
    "test_docs.py", "test_readme.py", "test_package.py", "test_figures.py", "test_extras.py", "test_byte_pairs.py", "docs/*",
    "tasks/test_[!v]*.py", "tasks/*/test_*runs*.py", "tasks/*/test_task.py", "tasks/*/test_report*.py", "tasks/*/test_explain*.py", "tasks/*/*browser*",
    "tasks/*/test_studio*", "tasks/classify/test_[!o]*.py",
    "learn/test_engine.py", "learn/test_event_log.py", "learn/test_following.py", "learn/test_kill*.py", "learn/test_loop.py", "learn/test_modules_in_training.py", "learn/test_range_test.py",
    "learn/test_resolution.py", "learn/test_resume.py", "learn/test_sam.py", "learn/test_sharding.py", "learn/test_state.py", "learn/test_world.py",
    "data/formats/*", "data/text/*", "data/test_ahead.py", "data/test_bad_files.py", "data/test_cache.py", "data/test_captions.py", "data/test_duplicates.py",
    "data/test_folder.py", "data/test_image*.py", "data/test_scanning.py",
    "explain/figures/*", "explain/test_contract.py", "explain/test_methods.py", "explain/test_position_similarity.py",
)  # fmt: skip
# Runs that nobody reads the report of: to draw its figures takes longer than to train for two tiny epochs. The reports themselves have tests
# of their own, and each task's is drawn and opened in a browser by the conformance suite.
UNDRAWN = (
    "cli/*", "run/*", "learn/*", "conformance/*", "tasks/*/test_*runs*.py", "tasks/*/test_task.py", "tasks/test_[!v]*.py", "tasks/classify/test_[!r]*.py",
    "deploy/*", "serve/*", "data/*", "models/*", "test_docs.py", "test_readme.py",
)  # fmt: skip
CHECKED = (
    "test_a_run_has_its_files_and_ends_with_its_score",
    "test_its_own_data_gives_its_own_score",
    "test_several_inputs_as_json",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="without the files of tests/net/not_fast.txt: `make check`")
    parser.addoption(
        "--part", choices=("checked", "plain", "compiled"), help="one of the three calls of `make test`; default: all"
    )


def find_parts(path: Path) -> set[str]:
    """Which calls of `make test` have tests of a file: with shape checks, without, or those that compile."""
    name, parts = path.relative_to(TESTS).as_posix(), set[str]()
    if name.startswith("conformance/") or not any(fnmatch(name, pattern) for pattern in COMMANDS):
        parts.add("checked")
    if any(fnmatch(name, pattern) for pattern in COMMANDS):
        parts.add("plain")
    return parts | ({"compiled"} if "pytest.mark.compiled" in path.read_text(encoding="utf-8") else set())


def is_checked(item: pytest.Item) -> bool:
    """Whether a test of the conformance suite runs with shape checks."""
    return getattr(item, "originalname", None) in CHECKED


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_slow = re.compile("|".join(map(translate, SLOW))).match
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")
    part = config.getoption("--part")
    if part in ("checked", "plain"):
        kept = [item for item in items if item.path.parent.name != "conformance" or is_checked(item) == (part == "checked")]
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Seconds of each suite, a folder of tests/, added over the processes."""
    seconds, counts = Counter[str](), Counter[str]()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            suite = report.nodeid.split("::")[0].split("/")[1]
            seconds[suite] += report.duration
            counts[suite] += report.when == "call"
    if len(seconds) > 1 and sum(seconds.values()) > 60:
        terminalreporter.section("seconds of each suite")
        for suite, spent in sorted(seconds.items()):
            terminalreporter.write_line(f"{suite:<20} {spent:7.1f} s  {counts[suite]:6,} tests")
        terminalreporter.write_line(f"{'all':<20} {sum(seconds.values()):7.1f} s  {sum(counts.values()):6,} tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of another part are not even read: to collect all tests takes half a minute."""
    if not re.fullmatch(r"test_.*\.py", collection_path.name):
        return None
    if (part := config.getoption("--part")) is not None and part not in find_parts(collection_path):
        return True
    if not config.getoption("--fast"):
        return None
    lines = NOT_FAST.read_text().splitlines()
    listed = {line.split()[0] for line in lines if line and not line.startswith("#")}
    return True if collection_path.relative_to(NOT_FAST.parents[2]).as_posix() in listed else None


class Answer(NamedTuple):
    """What a command line left behind."""

    code: int
    out: str
    err: str


class Effort:
    """What a block of code took, counted instead of timed: the same on a busy machine."""

    calls = 0  # of functions, Python's and C's, in this thread
    memory = 0  # bytes: the most that Python and numpy held at once, beyond what there was; counted where it is asked for


@pytest.fixture
def effort() -> Callable[..., contextlib.AbstractContextManager[Effort]]:
    """with effort(memory=True) as spent: ...; assert spent.calls < 1000"""

    @contextlib.contextmanager
    def measure(memory: bool = False) -> Iterator[Effort]:
        spent, profile = Effort(), cProfile.Profile()
        if memory:
            tracemalloc.start()
        profile.enable()
        try:
            yield spent
        finally:
            profile.disable()
            spent.calls = sum(entry.callcount for entry in profile.getstats())
            if memory:
                spent.memory = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()

    return measure


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`vitrail` in this process: command("train", "--data", "digits")."""

    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = run([str(word) for word in words])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """For subprocesses, which find this checkout from any folder."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "100"}


@pytest.fixture
def process(environment: dict[str, str], tmp_path: Path) -> Callable[..., Answer]:
    """`python -m vitrail` in a process of its own, in an empty folder."""

    def call(*words: object) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "vitrail", *map(str, words)],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="module")
def quick_report() -> Iterator[None]:
    """A report without its figures, which take twice as long as two tiny epochs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.report.frame.write_page", lambda path, frame, sections: path.write_text(frame.headline))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, so that runs which a module shares are made as its tests want them."""
    name = item.path.relative_to(TESTS).as_posix()
    figures.draw(not any(fnmatch(name, pattern) for pattern in UNDRAWN) or item.get_closest_marker("figures") is not None)


@pytest.fixture
def quick_figures() -> None:
    """Empty figures in this test."""
    figures.draw(False)


def quadrants(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """8x8 images of three classes: which quadrant is bright."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    images = generator.integers(0, 100, (count, 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 120
    return images, labels


@pytest.fixture(scope="session")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .npz file with 96 + 15 + 18 images."""
    path = tmp_path_factory.mktemp("data") / "quadrants.npz"
    parts = {}
    for number, (split, count) in enumerate({"train": 96, "val": 15, "test": 18}.items()):
        parts[f"x_{split}"], parts[f"y_{split}"] = quadrants(count, seed=number)
    np.savez(path, **parts)
    return path


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """One epoch on the built-in digits, and what the command said. Shared: tests only read it."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    out, err = io.StringIO(), io.StringIO()
    with figures.drawn(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["train", "--data", "digits", *NANO, "--out", str(folder)])
    return folder, Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, or whichever is here; without one the test is skipped, and says so."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are NOT tested in a browser: playwright is missing")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("pages are NOT tested in a browser: no chromium on this machine")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()
