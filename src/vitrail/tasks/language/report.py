"""The report of a language model: the frame of every run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitrail.data.text.plain import LineData
from vitrail.learn.training.state import Row
from vitrail.models.language import LanguageModel
from vitrail.report.page import Section
from vitrail.tasks.stages import Scored, Setup


def sections(scored: Scored[LineData], setup: Setup[Any, LineData, Any], rows: Sequence[Row]) -> Iterable[Section]:
    return ()


def commands(run: str, model: LanguageModel) -> Mapping[str, str]:
    """What to do with a run: what it does -> a line for the shell. `run` is quoted."""
    return {
        **({"Continue a text": f'vitrail complete {run} "THE BEGINNING"'} if model.config.causal else {}),
        "Score it again": f"vitrail eval {run}",
        "Score it on another text": f"vitrail eval {run} --data TEXT",
    }
