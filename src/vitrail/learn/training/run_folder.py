"""The files of one run: config.yaml, results.csv, metrics.jsonl, last/, best/, state/."""

import csv
import io
import json
import math
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from vitrail.errors import VitrailError
from vitrail.files import write_whole
from vitrail.learn.training.event_log import EventLog
from vitrail.learn.training.sharding import gather_weights, is_sharded
from vitrail.learn.training.state import Row
from vitrail.models.folder import save
from vitrail.run_files import read_rows
from vitrail.version import __version__

CONFIG, RESULTS, STEPS = "config.yaml", "results.csv", "metrics.jsonl"


class RunFolder:
    """Where a run keeps what it learns. Of several processes one writes; to the others it is a folder to read."""

    def __init__(self, path: Path, *, writes: bool = True, events: EventLog | None = None) -> None:
        self.path, self.writes, self.events = path, writes, events or EventLog(None)

    @property
    def state(self) -> Path:
        return self.path / "state"

    def write_config(self, options: Mapping[str, Any]) -> None:
        if not self.writes:
            return
        write_whole(self.path / CONFIG, yaml.safe_dump(dict(options), sort_keys=False, allow_unicode=True))

    def write_machine(self) -> None:
        """Versions and machine: what a person needs to understand a difference."""
        if not self.writes:
            return
        facts = {
            "vitrail": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "threads": torch.get_num_threads(),
            "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        }
        write_whole(self.path / "machine.yaml", yaml.safe_dump(facts, sort_keys=False))

    def write_results(self, rows: list[Row]) -> None:
        """One row per epoch, the whole table each time: a resumed run leaves no row twice."""
        if not self.writes:
            return
        text = io.StringIO()
        columns = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch"]  # an older version had fewer
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.path / RESULTS, text.getvalue())
        if rows:
            last = {name: value for name, value in rows[-1].items() if name != "epoch"}
            self.events.add("epoch", last, step=int(rows[-1]["epoch"]))

    def keep_steps(self, step: int) -> None:
        """Drop the records of steps that a resumed run will take again."""
        if not self.writes:
            return
        path = self.path / STEPS
        if path.is_file():
            lines = [line for line in path.read_text().splitlines() if _step(line) <= step]
            write_whole(path, "".join(f"{line}\n" for line in lines))

    def record_steps(self, records: list[Row]) -> None:
        """One record per step, appended."""
        if not self.writes:
            return
        if records:
            with (self.path / STEPS).open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
            for record in records:
                step = int(record["step"])
                self.events.add(
                    "train", {name: value for name, value in record.items() if name not in ("step", "epoch")}, step=step
                )
            self.events.flush()

    def save_model(self, name: str, model: nn.Module) -> None:
        weights = gather_weights(model, keep=self.writes) if is_sharded(model) else None  # takes all processes
        if not self.writes:
            return
        save(model, self.path / name, weights=weights)


def read_results(folder: Path) -> list[Row]:
    """The rows of a run's results.csv: numbers by name, those that a row does not have left out; nothing where there is no table."""
    try:
        return read_rows(folder / RESULTS)
    except (OSError, ValueError, TypeError, AttributeError, csv.Error):  # written by us; edited, it is only not shown
        return []


def read_steps(folder: Path) -> list[Row]:
    """The records of a run's metrics.jsonl, one per step; lines that cannot be read are left out."""
    try:
        lines = (folder / STEPS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [json.loads(line) for line in lines if math.isfinite(_step(line))]


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # a line cut short by a crash
        return float("inf")


def new_run_folder(parent: Path, name: str) -> Path:
    """parent/name, or parent/name-2, -3, ... : the first that does not exist; made, so that no other run takes it."""
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise VitrailError(f"{path}: cannot be made ({error.strerror})") from None
        else:
            return path
