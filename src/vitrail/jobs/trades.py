"""What tasks there are, and what each does in the places of `vitrail train` and `vitrail eval` where tasks differ.

A new task is a file with a class that satisfies `Trade`, and a line in TRADES. No torch here: the class is imported when it is used.
"""

import importlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions

if TYPE_CHECKING:
    from typing import Self

    from vitrail.jobs.options import EvalOptions
    from vitrail.learn.training.objective import Batches, Objective
    from vitrail.learn.training.plan import Plan
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.learn.training.state import Progress
    from vitrail.learn.training.world import World

Topic = Literal[
    "pictures", "classifying", "text", "captions", "translation", "language models", "pixels", "restoration", "k-space",
    "masks", "boxes", "volumes", "hidden patches", "a decoder", "visual words", "their codes", "views", "prototypes",
]  # fmt: skip


@runtime_checkable
class Trade(Protocol):
    """A task with its data, its model and options without `auto`: all that training needs."""

    name: str  # of the data, by which the run's folder is called
    options: TrainOptions
    model: Any

    @classmethod
    def prepare(cls, options: TrainOptions, bar: "ProgressBar", *, begun: Path | None) -> "Self":
        """Open the data, build the model. `begun`: the folder of a run that is gone on with, which kept what it began with."""

    def find_rate(self, folder: Path, bar: "ProgressBar") -> float:
        """The rate that a range test finds; model and generators are as before afterwards."""

    def describe(self, folder: Path, bar: "ProgressBar") -> None:
        """What will be done, in a few lines."""

    def keep(self, folder: Path, bar: "ProgressBar") -> None:
        """Write what a resumed run must find again. Before config.yaml, which says that the rest is there."""

    def make_plan(self, *, device: str) -> "Plan": ...

    def make_task(self, *, device: str, world: "World") -> "Objective": ...

    def make_loaders(self, world: "World") -> "tuple[Batches, Batches]":
        """What is learned from, and what chooses the best epoch."""

    def finish(self, folder: Path, progress: "Progress", bar: "ProgressBar", world: "World") -> tuple[dict[str, float], Any]:
        """Read test once, with the model in best/; write what there is to read, and metrics.json last: it ends a run."""

    @staticmethod
    def evaluate(
        run: str, model: Any, trained: TrainOptions | None, options: "EvalOptions", bar: "ProgressBar"
    ) -> dict[str, float]:
        """The metrics of a loaded model on a split; `trained` are the options of the run that it comes from."""


class Entry(NamedTuple):
    """Where a task's class is, and what its options are about."""

    home: str  # module:class
    topics: tuple[Topic, ...]


TRADES: Mapping[str, Entry] = MappingProxyType(
    {
        "classify": Entry("vitrail.jobs.classifying:Classifying", ("pictures", "classifying")),
        "caption": Entry("vitrail.jobs.captioning:Captioning", ("pictures", "text", "captions")),
    }
)

# Options that only tasks with this in them have.
ABOUT: Mapping[Topic, frozenset[str]] = MappingProxyType(
    {
        "pictures": frozenset(
            {
                "image_size", "in_channels", "batch", "workers", "balance", "bad_files", "cache", "cache_gb", "drop_path", "flip",
                "shift", "rotate", "zoom", "cutout", "operations", "magnitude", "erase", "mixup", "cutmix", "repeats", "token_keep",
                "progressive",
            }
        ),
        "classifying": frozenset({"pack", "merge", "val_share", "labels", "freeze", "teacher", "distill", "distill_share", "distill_temperature"}),
        "text": frozenset({"vocabulary", "lower", "bytes", "longest", "batch_tokens", "dropout"}),
        "captions": frozenset({"beams"}),
        "translation": frozenset({"source", "target", "beams", "merge_dropout"}),
        "language models": frozenset({"masked"}),
        "pixels": frozenset({"colors", "masked", "dropout"}),
        "restoration": frozenset(
            {
                "degrade", "patch_size", "patches", "in_channels", "batch", "workers", "bad_files", "cache", "cache_gb", "flip",
            }
        ),
        "k-space": frozenset({"acceleration", "mask", "center", "consistency", "objective", "slices", "rows", "scalp", "image_size", "batch"}),
        "masks": frozenset(
            {
                "head", "loss", "class_weights", "ignore_index", "val_share", "jitter", "image_size", "in_channels", "batch", "workers", "bad_files", "drop_path", "flip",
                "rotate", "zoom", "freeze", "window", "flip_test", "scales",
            }
        ),
        "boxes": frozenset(
            {
                "queries", "denoising", "query_kind", "guesses", "negatives", "focal", "least_window", "val_share", "jitter", "turns", "image_size", "in_channels", "batch", "workers", "bad_files", "cache",
                "cache_gb", "flip", "shift", "rotate", "zoom",
            }
        ),
        "hidden patches": frozenset({"hide"}),
        "a decoder": frozenset({"decoder_depth", "decoder_width", "mask_tokens", "plain_pixels"}),
        "visual words": frozenset({"tokenizer"}),
        "their codes": frozenset({"codes", "temperature"}),
        "views": frozenset({"momentum", "temperature", "knn_every"}),
        "prototypes": frozenset({"prototypes", "teacher_temperature", "views"}),
        "volumes": frozenset(
            {"crop", "spacing", "window_level", "foreground", "divide_axis", "keep_largest", "overlap", "batch", "flip", "rotate", "zoom"}
        ),
    }
)  # fmt: skip


def find_trade(task: str) -> Any:
    """The class of a task, which satisfies `Trade`, or what makes one in the same way."""
    module, name = TRADES[task].home.split(":")
    return getattr(importlib.import_module(module), name)


def foreign_options(task: str) -> dict[str, Topic]:
    """The options that a task does not have, and what they are about: the first topic that has one."""
    own = TRADES[task].topics
    mine = {name for topic in own for name in ABOUT[topic]}
    return {name: topic for topic, names in reversed(tuple(ABOUT.items())) if topic not in own for name in sorted(names - mine)}


def refuse_options(options: TrainOptions, nothing: Mapping[str, Any], *, who: str) -> None:
    """An option that would have no effect is refused, not passed over: beside `auto` only what `nothing` has says nothing."""
    for name, value in nothing.items():
        if getattr(options, name) not in ("auto", value):
            raise VitrailError(f"--{name.replace('_', '-')} {getattr(options, name)}: {who} has no such option")


def check_foreign(options: TrainOptions) -> None:
    """An option of another task is refused, not passed over."""
    defaults = {field.name: field.default for field in fields(options)}
    for name, topic in foreign_options(options.task).items():
        if name in defaults and getattr(options, name) != defaults[name]:  # some are `vitrail eval`'s alone
            raise VitrailError(f"--{name.replace('_', '-')} is about {topic}: --task {options.task} has none")
