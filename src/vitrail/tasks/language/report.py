"""The report of a language model: the frame of every run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitrail.data.text.plain import LineData
from vitrail.report.frame import Frame, write_framed
from vitrail.tasks.task import Scored, Setup


def write(path: Path, scored: Scored[LineData], setup: Setup[Any, LineData, Any], frame: Frame) -> None:
    """report.html: how surprising the text is, the curves, what the run was."""
    write_framed(path, frame)


def commands(run: str, model: Any) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        **({"Continue a text": f'vitrail complete {run} "THE BEGINNING"'} if model.config.causal else {}),
        "Score it again": f"vitrail eval {run}",
        "Score it on another text": f"vitrail eval {run} --data TEXT",
    }
