"""A number that a task measures: its key in metrics.json, and how it is shown to people. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Unit = Literal[
    "%", "hundred", "dB", "mm", "bits", ""
]  # %: a share of 1, shown in percent; hundred: a share of 1, shown from 0 to 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One figure. Command line, report, card, `vitrail runs` and studio format it by this record and by nothing else."""

    key: str  # in metrics.json and, behind `val_`, in results.csv
    title: str  # "Average precision at IoU 0.5", in tables
    short: str  # "AP50", in headlines and curves
    unit: Unit = "%"
    higher_is_better: bool = True
    digits: int = 2
    each_epoch: bool = False  # printed after each epoch, also where it does not choose the best one

    @property
    def is_share(self) -> bool:
        """Whether 1 is the most that it can be."""
        return self.unit in ("%", "hundred")

    def format(self, value: float) -> str:
        """98.61 %, 33.66 dB, 31.18."""
        return f"{self.scaled(value):.{self.digits}f}{self.suffix}"

    def tick(self, value: float) -> str:
        """The same on an axis: 90 %, 33.5 dB."""
        return f"{self.scaled(value):.4g}{self.suffix}"

    @property
    def suffix(self) -> str:
        return "" if self.unit in ("hundred", "") else f" {self.unit}"

    def scaled(self, value: float) -> float:
        """The value in its unit."""
        return 100 * value if self.is_share else value

    def headline(self, split: str, value: float) -> str:
        """`test accuracy 98.61 %`: the last line of training."""
        return f"{split} {self.short} {self.format(value)}"

    def to_json(self) -> dict[str, Any]:
        """For the browser, which formats by it."""
        return {
            **asdict(self),
            "factor": 100 if self.is_share else 1,
            "suffix": self.suffix,
        }


LOSS = Metric(key="loss", title="Loss", short="loss", unit="", higher_is_better=False, digits=4)


def find_metric(metrics: Sequence[Metric], key: str) -> Metric:
    """The record of a key; of one that is in no table, a plain number."""
    return next((metric for metric in metrics if metric.key == key), Metric(key=key, title=key, short=key, unit="", digits=4))


def first_measured(metrics: Sequence[Metric], values: Mapping[str, Any]) -> Metric | None:
    """The headline: the first of a task's metrics that has a value."""
    return next((metric for metric in metrics if metric.key in values), None)


def headline(metrics: Sequence[Metric], split: str, values: Mapping[str, float]) -> str:
    """The last line of training and of `eval`."""
    metric = first_measured(metrics, values)
    return "" if metric is None else metric.headline(split, values[metric.key])


def describe_metrics(metrics: Sequence[Metric], values: Mapping[str, float]) -> dict[str, str]:
    """Title -> value in words, of what was measured, in the task's order; what has no record comes last."""
    known = [metric for metric in metrics if metric.key in values]
    others = [find_metric(metrics, key) for key in values if all(metric.key != key for metric in known)]
    return {metric.title: metric.format(values[metric.key]) for metric in (*known, *others)}
