"""What a model's features are good for: neighbors, a linear reader, fine-tuning and training from scratch, each with some shares of the labels.

`vitrail eval RUN --protocol knn,linear,finetune --labels 0.1,1`. A cell (a protocol, a share, a seed) that is finished is kept, and
the same call goes on with the others.
"""

import csv
import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.clean import open_clean_any
from vitrail.data.copies import COPIES, read_copies
from vitrail.data.dataset import NO_COPIES, DataSet
from vitrail.data.label_share import keep_share
from vitrail.data.opening import divide_data
from vitrail.errors import VitrailError, check_choice
from vitrail.explain.probe import Labelled, probe_layers
from vitrail.files import write_table, write_whole
from vitrail.learn.metrics.bootstrap import bootstrap_interval
from vitrail.learn.metrics.nearest_neighbors import knn_votes
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import choose_device
from vitrail.models.backbones import backbone_of
from vitrail.models.catalogue import build_model, count_parameters
from vitrail.models.folder import WEIGHTS, find, load, save
from vitrail.preprocessing import Preprocessing
from vitrail.rendering import to_png
from vitrail.report.protocols import LINES, Cell, ProtocolReport, draw_protocols, mean_table, percent_of, write_protocol_report
from vitrail.run.evaluate import choose_source
from vitrail.run.feature_table import Described, FeatureTable, describe_by, pixel_preprocessing
from vitrail.run.stored import REPORT, training_options
from vitrail.run.train import run_training
from vitrail.tasks import registry
from vitrail.tasks.image_task import choose_recipe

PREDICTIONS = "predictions.csv"
PROTOCOLS = ("knn", "linear", "finetune", "scratch")
BASELINES = ("scratch", "pixels")  # what owes nothing to the run
LABELS = "0.1,1"  # shares, unless others are asked for
NEIGHBORS = 20  # with a temperature of 0.07, as published [Caron+ 2021, DINO]
TABLE, FIGURE, ASKED = "protocol.csv", "protocol.png", "protocol.json"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What of it, with how much."""

    protocols: tuple[str, ...]
    shares: tuple[float, ...]
    seeds: int
    epochs: int | None

    @classmethod
    def of(cls, options: Any) -> "Asked":
        assert options.protocol is not None
        words = [word.strip() for word in options.protocol.split(",") if word.strip()]
        if not words:
            raise VitrailError(f"--protocol is empty: choose from {', '.join(PROTOCOLS)}, several with commas")
        for word in words:
            check_choice("protocol", word, PROTOCOLS)
        if options.seeds < 1 or (options.epochs is not None and options.epochs < 1):
            raise VitrailError(f"--seeds and --epochs must be at least 1, got {options.seeds} and {options.epochs}")
        if options.epochs is not None and not {"finetune", "scratch"} & set(words):
            raise VitrailError("--epochs is about training: none of the protocols trains; finetune and scratch do")
        protocols = tuple(name for name in PROTOCOLS if name in words)
        shares = parse_shares(LABELS if options.labels is None else options.labels)
        return cls(protocols=protocols, shares=shares, seeds=options.seeds, epochs=options.epochs)


def parse_shares(words: str) -> tuple[float, ...]:
    """0.01,0.1,1 as numbers from the smallest on, each once."""
    found = set[float]()
    for word in words.split(","):
        try:
            share = float(word)
        except ValueError:
            raise VitrailError(f"--labels takes shares such as 0.01,0.1,1, got {words!r}") from None
        if not 0 < share <= 1:
            raise VitrailError(f"--labels: a share is above 0 and at most 1, got {word.strip()}")
        found.add(share)
    return tuple(sorted(found))


def run_protocols(run: str, options: Any, *, quiet: bool = False) -> list[Cell]:
    """All cells that were asked for, and files of them: see `Evaluation`."""
    asked, bar = Asked.of(options), ProgressBar(quiet=quiet)
    model, trained = load(run), training_options(run)
    backbone = backbone_of(model, what=run)
    source, own = choose_source(run, trained, options)
    known = read_bad_files(find(run).resolve().parent / BAD_FILES) if own else None
    found, bad = open_clean_any(
        source, seed=0, image_size=backbone.image_size, limit=options.bad_files, progress=bar, known=known, divide=False,
        search=True, known_copies=read_copies(find(run).resolve().parent / COPIES) if own else NO_COPIES,
    )  # fmt: skip
    check_data(found, asked, given=options.data is not None)
    first = trained.seed if trained is not None and own else 0
    folder = choose_folder(run, trained, options)
    bad.path = folder / BAD_FILES
    evaluation = Evaluation(
        name=run, source=source, found=found, bad=bad, backbone=backbone, asked=asked, options=options, first=first, folder=folder,
        bar=bar, quiet=quiet,
    )  # fmt: skip
    return evaluation.run()


def check_data(data: DataSet, asked: Asked, *, given: bool) -> None:
    if len(data.classes) < 2:
        raise VitrailError(
            f"{data.name}: has no labels to tell apart" + ("" if given else "; give --data with images that have them")
        )
    if data.multi_label:
        raise VitrailError(f"{data.name}: an image may have several labels, and a protocol reads one")
    if "test" not in data.splits and asked.seeds > 1:
        raise VitrailError(
            f"--seeds {asked.seeds}: {data.name} has no test split of its own, so that every seed would test other images, some of "
            "which the run may have learned from; leave --seeds out"
        )
    if "train" not in data.splits:
        raise VitrailError(f"{data.name}: has no training images, whose labels a protocol learns from")


def choose_folder(run: str, trained: Any, options: Any) -> Path:
    """--out, or protocol/ in the run."""
    if options.out is not None:
        return Path(options.out).expanduser()
    if trained is None:
        raise VitrailError(f"{run}: a model folder is not written into; give --out")
    return find(run).resolve().parent / "protocol"


@dataclass(kw_only=True)
class Evaluation:
    """Cells over shares and seeds, in one folder: protocol.csv, predictions, protocol.png, report.html, and the runs that were trained."""

    name: str  # of the run, as the user calls it
    source: str
    found: DataSet  # not divided yet
    bad: BadFiles
    backbone: Any
    asked: Asked
    options: Any
    first: int  # seed
    folder: Path
    bar: ProgressBar
    quiet: bool
    cells: list[Cell] = field(default_factory=list)

    @cached_property
    def features(self) -> FeatureTable:
        describe = describe_by(self.backbone, choose_device(self.options.device))
        return self.table(describe, self.backbone.preprocessing, what="features")

    @cached_property
    def pixels(self) -> FeatureTable:
        small = pixel_preprocessing(self.backbone.preprocessing)
        return self.table(lambda images: images.flatten(1), small, what="pixels")

    def table(self, describe: Any, preprocessing: Preprocessing, *, what: str) -> FeatureTable:
        options = self.options
        return FeatureTable(
            describe, preprocessing, what=what, batch=options.batch_size, workers=options.workers, bad=self.bad, bar=self.bar
        )

    def run(self) -> list[Cell]:
        for seed in self.seeds:  # before any work
            check_shares(divide_data(self.found, seed=seed), self.asked.shares)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "predictions").mkdir(exist_ok=True)
        self.begin()
        for seed in self.seeds:
            data = divide_data(self.found, seed=seed)
            for share in self.asked.shares:
                for protocol in self.protocols:
                    if not any((cell.protocol, cell.labels, cell.seed) == (protocol, share, seed) for cell in self.cells):
                        self.keep(self.measure(protocol, keep_share(data, share, seed=seed), share, seed))
        self.show()
        return self.cells

    @property
    def seeds(self) -> range:
        return range(self.first, self.first + self.asked.seeds)

    @property
    def protocols(self) -> tuple[str, ...]:
        """Neighbors by pixels are what features must be better than."""
        return ("pixels", *self.asked.protocols) if "knn" in self.asked.protocols else self.asked.protocols

    def begin(self) -> None:
        """Go on with what the folder has, if it is about the same."""
        digest = hashlib.sha256((find(self.name) / WEIGHTS).read_bytes()).hexdigest()
        now = {"run": str(find(self.name).resolve()), "weights": digest, "data": self.source, "epochs": self.asked.epochs}
        if (self.folder / ASKED).is_file():
            before = json.loads((self.folder / ASKED).read_text())
            for name in ("weights", "data", "epochs"):
                if before.get(name) != now[name]:
                    was = "" if name == "weights" else f" ({before.get(name)}, now {now[name]})"
                    raise VitrailError(f"{self.folder}: is about other {name}{was}; give another --out, or remove it")
            self.cells = read_cells(self.folder / TABLE)
        elif any(path for path in self.folder.iterdir() if path.name != "predictions"):
            raise VitrailError(f"{self.folder}: has other files in it; give a new or empty folder as --out")
        write_whole(self.folder / ASKED, json.dumps(now, indent=2) + "\n")

    def measure(self, protocol: str, data: DataSet, share: float, seed: int) -> Cell:
        self.bar.say(f"{LINES[protocol].title}, {percent_of(share)} of the labels: {len(data['train']):,} images, seed {seed}")
        if protocol in ("finetune", "scratch"):
            return self.train(protocol, data, share, seed)
        answers, test, chosen = (
            read_linear(self.features, data)
            if protocol == "linear"
            else ask_neighbors(self.pixels if protocol == "pixels" else self.features, data)
        )
        file = f"predictions/{protocol}-{share:g}-seed{seed}.csv"
        rows = zip(test.names, test.labels.tolist(), answers.tolist(), strict=True)
        named = ((name, data.classes[truth], data.classes[said]) for name, truth, said in rows)
        write_table(self.folder / file, [("picture", "truth", "predicted"), *named])
        return score((answers == test.labels).numpy(), protocol, share, seed, len(data["train"]), chosen, file)

    def train(self, protocol: str, data: DataSet, share: float, seed: int) -> Cell:
        """`vitrail train` from the run's weights or from new ones, in a folder of its own; one that is started goes on."""
        recipe = choose_recipe(len(data["train"]))
        task = registry.find(registry.DEFAULT)
        epochs = self.asked.epochs or task.recipes[recipe]["epochs"]  # as many passes for both
        weights = str(find(self.name).resolve()) if protocol == "finetune" else self.new_weights(seed)
        folder = self.folder / f"{protocol}-{share:g}-seed{seed}"
        options = registry.options_of(registry.DEFAULT)(
            data=self.source,
            weights=weights,
            labels=share,
            seed=seed,
            epochs=epochs,
            recipe="finetune" if protocol == "finetune" else recipe,
            workers=self.options.workers,
            bad_files=self.options.bad_files,
            device=self.options.device,
            out=str(folder),
            resume=True,
        )
        run_training(options, given={"data", "labels", "seed", "epochs", "recipe", "out", "resume"}, quiet=self.quiet)
        with (folder / PREDICTIONS).open(newline="") as file:
            right = np.array([row["truth"] == row["predicted"] for row in csv.DictReader(file)])
        file_name = f"{folder.name}/{PREDICTIONS}"
        return score(right, protocol, share, seed, len(data["train"]), f"{epochs} epochs, recipe {options.recipe}", file_name)

    def new_weights(self, seed: int) -> str:
        """A model folder with the same network, as it is before it has learned anything."""
        folder = self.folder / f"untrained-seed{seed}"
        if not (folder / "config.json").is_file():
            torch.manual_seed(seed)
            model = build_model(self.backbone.architecture, self.backbone.config)
            model.labels, model.multi_label = self.backbone.labels, self.backbone.multi_label
            model.preprocessing = self.backbone.preprocessing
            save(model, folder)
        return str(folder.resolve())

    def keep(self, cell: Cell) -> None:
        """One more line of protocol.csv, which is whole at any time."""
        order = list(LINES)
        self.cells = sorted((*self.cells, cell), key=lambda one: (order.index(one.protocol), one.labels, one.seed))
        write_table(self.folder / TABLE, [Cell._fields, *map(spell_cell, self.cells)])
        self.bar.say(f"  {100 * cell.accuracy:.2f} % of the test images ({cell.chosen})")

    def show(self) -> None:
        run = shlex.quote(self.name)
        write_whole(self.folder / FIGURE, to_png(draw_protocols(self.cells)))
        height, width = self.backbone.image_size
        headline, against = describe_best(self.cells)
        report = ProtocolReport(
            title=f"{self.found.name}, with few labels",
            headline=headline,
            against=against,
            cells=self.cells,
            details={
                "Features of": f"{self.name}, {self.backbone.architecture}, {count_parameters(self.backbone):,} parameters",
                "Images": f"{self.source}, {height}x{width}, {len(self.found.classes)} classes",
            },
            commands={
                "More of it": f"vitrail eval {run} --protocol {','.join(PROTOCOLS)} --labels SHARES --out {shlex.quote(str(self.folder))}",
                "Use it": f"vitrail train --data DIR --weights {run}",
            },
        )
        write_protocol_report(report, self.folder / REPORT)


def check_shares(data: DataSet, shares: Sequence[float]) -> None:
    """A share is of every class, which has at least one image: less than that cannot be given."""
    count, classes = len(data["train"]), len(data.classes)
    for share in shares:
        if share * count < classes:
            raise VitrailError(
                f"--labels {share:g}: of {count:,} training images that is less than one for each of {classes} classes; "
                f"the least is {np.ceil(1e4 * classes / count) / 1e4:g}"
            )


def ask_neighbors(table: FeatureTable, data: DataSet) -> tuple[torch.Tensor, Described, str]:
    train, test = table.of(data["train"]), table.of(data["test"])
    answers = knn_votes(train.features, train.labels, test.features, classes=len(data.classes), k=NEIGHBORS)
    return answers.cpu(), test, f"{min(NEIGHBORS, len(train.labels))} neighbors"


def read_linear(table: FeatureTable, data: DataSet) -> tuple[torch.Tensor, Described, str]:
    parts = {name: table.of(data[name]) for name in ("train", "val", "test")}
    splits: dict[Any, Labelled] = {name: Labelled(part.features[None].double(), part.labels) for name, part in parts.items()}
    probe = probe_layers(splits, len(data.classes))
    return torch.tensor(probe.answers[0]), parts["test"], f"penalty {probe.penalties[0]:g}"


def score(right: np.ndarray, protocol: str, share: float, seed: int, images: int, chosen: str, file: str) -> Cell:
    low, high = bootstrap_interval(right)
    return Cell(protocol, share, seed, images, float(right.mean()), low, high, chosen, file)


def spell_cell(cell: Cell) -> tuple[object, ...]:
    return tuple(f"{value:.6f}" if name in ("accuracy", "low", "high") else value for name, value in cell._asdict().items())


def read_cells(path: Path) -> list[Cell]:
    if not path.is_file():
        return []
    kinds = Cell.__annotations__
    with path.open(newline="") as file:
        return [Cell(*(kinds[name](row[name]) for name in Cell._fields)) for row in csv.DictReader(file)]


def describe_best(cells: Sequence[Cell]) -> tuple[str, str]:
    """Which protocol does best with the fewest labels, and what it must be better than; means of the seeds, in words."""
    least = min(cell.labels for cell in cells)
    means: dict[str, float] = {}
    for name in LINES:
        found = [cell.accuracy for cell in cells if (cell.protocol, cell.labels) == (name, least)]
        if found:
            means[name] = float(np.mean(found))
    words = {name: f"{LINES[name].title} {100 * value:.2f} %" for name, value in means.items()}
    best = max(means, key=lambda name: (name not in BASELINES, means[name]))
    others = [words[name] for name in BASELINES if name in words and name != best]
    return f"{words[best]} with {percent_of(least)} of the labels", "to compare with: " + ", ".join(others) if others else ""


def describe_cells(cells: Sequence[Cell]) -> list[str]:
    """The table as lines for a terminal."""
    head, rows = mean_table(cells)
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        for row in (head, *rows)
    ]


def summarize(cells: Sequence[Cell]) -> dict[str, float]:
    """The means over the seeds by "protocol share"."""
    groups: dict[str, list[float]] = {}
    for cell in cells:
        groups.setdefault(f"{cell.protocol} {cell.labels:g}", []).append(cell.accuracy)
    return {name: float(np.mean(values)) for name, values in groups.items()}
