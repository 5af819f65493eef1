"""Runs as commit e20a20b left them, interrupted halfway. Every later version must go on with them, score their models the same and read their
config.yaml: when a test here fails, the library is wrong, and neither the folders nor the numbers are to be made again.

Only the command line is used, so that the tests outlive any change inside the package.
"""

import csv
import getpass
import json
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from vitrail.tasks import registry
from vitrail.tasks.options import present_record

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"
TASKS = (
    "classify", "translate", "language", "caption", "igpt", "mae", "dino", "moco", "dvae", "beit", "restore", "mri", "segment",
    "detect", "segment3d",
)  # fmt: skip
NEEDS = {
    "translate": ("sacrebleu",), "caption": ("sacrebleu",), "mri": ("nibabel",), "detect": ("scipy", "pycocotools"),
    "segment3d": ("nibabel", "scipy"),
}  # extras that a task cannot do without  # fmt: skip
ROOT = "RUNS"  # in config.yaml, for the folder that all runs, data and weights lie in
MOST_BYTES = 8_000_000
TOLERANCE = 1e-4


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a run, whose config.yaml says where its copied data, weights and tokenizer are."""

    def copy(task: str) -> Path:
        for module in NEEDS.get(task, ()):
            pytest.importorskip(module)
        shutil.copytree(RUNS / task, tmp_path / task)
        config = tmp_path / task / "config.yaml"
        text = config.read_text(encoding="utf-8")
        for name in set(re.findall(rf"{ROOT}/(\S+)", text)):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (RUNS / name).is_dir() else shutil.copy)(RUNS / name, tmp_path / name)
        config.write_text(text.replace(f"{ROOT}/", f"{tmp_path.as_posix()}/"), encoding="utf-8")
        return tmp_path / task

    return copy


def read_rows(run: Path) -> list[dict[str, str]]:
    """Of results.csv, as text: later versions may have more columns."""
    return list(csv.DictReader((run / "results.csv").read_text().splitlines()))


@pytest.mark.parametrize("task", TASKS)
def test_a_stopped_run_goes_on(task: str, put: Callable[[str], Path], command: Callable[..., Any]) -> None:
    run = put(task)
    rows, steps = read_rows(run), (run / "metrics.jsonl").read_bytes()
    epochs = int(re.search(r"^epochs: (\d+)$", (run / "config.yaml").read_text(), re.MULTILINE)[1])
    assert 0 < len(rows) < epochs
    answer = command("train", "--out", run, "--resume")
    assert answer.code == 0, answer.err
    after = read_rows(run)
    assert [row["epoch"] for row in after] == [str(n + 1) for n in range(epochs)]
    kept = [{name: row[name] for name in rows[0]} for row in after[: len(rows)]]
    assert kept == rows, "the epochs before are as they were written, to the last digit"
    assert (run / "metrics.jsonl").read_bytes().startswith(steps)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["split"] in ("test", "val")
    assert "<html" in (run / "report.html").read_text(encoding="utf-8")
    again = command("train", "--out", run, "--resume")
    assert (again.code, again.out.splitlines()[-1]) == (0, answer.out.splitlines()[-1]), "a finished run says its score"


@pytest.mark.parametrize("task", TASKS)
def test_its_model_has_the_same_scores(task: str, put: Callable[[str], Path], command: Callable[..., Any]) -> None:
    run, expected = put(task), json.loads((RUNS / task / "expected.json").read_text())
    assert expected
    for split, metrics in expected.items():
        answer = command("eval", run, "--split", split, "--device", "cpu", "--json")
        assert answer.code == 0, answer.err
        found = json.loads(answer.out)
        assert {name: found[name] for name in metrics} == pytest.approx(metrics, rel=TOLERANCE, abs=TOLERANCE), split


@pytest.mark.parametrize("name", [f"{task}/config" for task in TASKS] + [f"automatic/{task}" for task in TASKS])
def test_its_options_are_read_by_config(name: str, tmp_path: Path, command: Callable[..., Any]) -> None:
    """Data that is not there is complained about once all options are understood."""
    path = RUNS / f"{name}.yaml"
    text = path.read_text(encoding="utf-8").replace(f"{ROOT}/weights", f"{(RUNS / 'weights').as_posix()}")
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    answer = command("train", "--config", tmp_path / "config.yaml", "--data", tmp_path / "nowhere", "--out", tmp_path / "run")
    assert answer.code == 2
    assert "nowhere" in answer.err
    assert not (tmp_path / "run").exists()


def test_there_is_one_of_each() -> None:
    assert {path.parent.name for path in RUNS.glob("*/config.yaml")} == set(TASKS)
    assert {path.stem for path in RUNS.glob("automatic/*.yaml")} == set(TASKS)


@pytest.mark.parametrize("task", ["classify", "translate"])
def test_another_run_begins_with_its_config(task: str, put: Callable[[str], Path], command: Callable[..., Any]) -> None:
    run = put(task)
    answer = command("train", "--config", run / "config.yaml", "--epochs", 1, "--seed", 8, "--out", run.parent / "other")
    assert answer.code == 0, answer.err
    old, new = (yaml.safe_load((folder / "config.yaml").read_text()) for folder in (run, run.parent / "other"))
    present = present_record(registry.options_of(task), old, hint=False)  # some have other names now
    added = {name: new[name] for name in new.keys() - present.keys()}
    assert added.items() <= {"min_crop": 1.0, "probe": 0.0}.items(), "what has been added since changes nothing"
    assert present.keys() <= new.keys()
    changed = {name for name, value in present.items() if new[name] != value}
    assert changed == {"epochs", "seed"}, "and every other option is as it was"


def test_no_file_names_a_machine() -> None:
    names = [b"/tmp", b"/work", b"/home/", b"/root", b"/Users/", b"C:\\"]
    names += [name.encode() for name in (str(Path.home()), socket.gethostname(), getpass.getuser()) if len(name) > 5]
    files = [path for path in RUNS.rglob("*") if path.is_file()]
    assert len(files) > 100
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        content = path.read_bytes()
        if path.suffix == ".safetensors":  # its header alone: among weights any few letters may stand
            content = content[: 8 + int.from_bytes(content[:8], "little")]
        elif path.suffix in (".png", ".gz", ".npz"):
            continue
        assert not [name for name in names if name in content], path
