"""Which epoch is the best? Rules compared on images that neither trained nor chose.

    python benchmarks/best_epoch.py --data digits --epochs 60 --out FOLDER
    python benchmarks/best_epoch.py --data PETS --model vit_nano_hybrid --image-size 48 --epochs 24 --choose 0.5 150 --out FOLDER

A quarter of train and validation is held out, by four seeds, and the rest learned from; the test split is never read. Of each epoch's hits and
misses on the held-out images a part chooses the epoch (--choose: a share of them, or a number), and all others score it, 40 draws of each seed.

--out gets hits-SEED.csv.gz, a line of 0 and 1 for each epoch, and results.csv, the mean accuracy of the images that did not choose. A seed whose
hits are there is not trained again.
"""

import argparse
import csv
import gzip
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from vitrail.learn.training.best_epoch import consider
from vitrail.learn.training.loop import fit
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import RunFolder
from vitrail.learn.training.state import Progress
from vitrail.learn.training.world import World
from vitrail.run.plan import make_plan
from vitrail.run.prepare import prepare
from vitrail.tasks import registry
from vitrail.tasks.options import check

DRAWS = 40


class Evaluation:
    """As the loop sees one."""

    metrics: dict[str, float] = {}  # noqa: RUF012

    def __init__(self, hits: np.ndarray, *, paired: bool) -> None:
        share, count = float(hits.mean()), len(hits)
        self.share, self.error = share, max(1 / count, (share * (1 - share) / count) ** 0.5)
        if paired:
            self.per_sample = hits


def by_loop(hits: np.ndarray, *, paired: bool) -> int:
    """The epoch that the training loop keeps."""
    progress, kept = Progress(), 0
    for number, row in enumerate(hits):
        found = Evaluation(row, paired=paired)
        if consider(progress, found, epoch=number + 1, score=found.share, sign=1.0):
            kept = number
    return kept


RULES: dict[str, Callable[[np.ndarray], int]] = {
    "the highest, the first of equals": lambda hits: int(hits.mean(axis=1).argmax()),
    "the highest, the latest of equals": lambda hits: len(hits) - 1 - int(hits.mean(axis=1)[::-1].argmax()),
    "the latest within one standard error of the highest score": lambda hits: by_loop(hits, paired=False),
    "the latest within one standard error of the paired difference": lambda hits: by_loop(hits, paired=True),
    "the last epoch": lambda hits: len(hits) - 1,
}


def train(options: Any) -> np.ndarray:
    """Hits of each epoch on the held-out images."""
    check(options)
    options, bar, rows = options.normalize(), ProgressBar(quiet=True), list[np.ndarray]()
    setup = prepare(options, bar, resumed=None)
    task = registry.find("classify")
    objective = task.objective(setup, device="cpu", world=World())
    evaluate = objective.evaluate

    def watched(batches: Any) -> Any:
        found = evaluate(batches)
        rows.append(found.per_sample)
        return found

    objective.evaluate = watched
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder), writes=False)
        fit(objective, *task.loaders(setup, World()), make_plan(task, setup, device="cpu"), run, bar)
    return np.array(rows)


def compare(hits: np.ndarray, choose: float, seed: int) -> dict[str, list[float]]:
    """Accuracy in percent of the images that did not choose, of each rule and draw."""
    generator, count = np.random.default_rng(seed), hits.shape[1]
    some = round(choose * count) if choose < 1 else int(choose)
    found: dict[str, list[float]] = {rule: [] for rule in RULES}
    for _ in range(DRAWS):
        order = generator.permutation(count)
        for rule, chosen in RULES.items():
            found[rule].append(100 * float(hits[chosen(hits[:, order[:some]])][order[some:]].mean()))
    return found


def read_hits(path: Path) -> np.ndarray:
    with gzip.open(path, "rt") as file:
        return np.array([[digit == "1" for digit in line.strip()] for line in file])


def write_hits(path: Path, hits: np.ndarray) -> None:
    with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as file:
        file.write("".join("".join("01"[int(hit)] for hit in row) + "\n" for row in hits).encode())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--held-out", type=float, default=0.25)
    parser.add_argument("--choose", type=float, nargs="+", default=[0.5])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(given.seeds):
        path = given.out / f"hits-{seed}.csv.gz"
        if not path.is_file():
            kind = registry.options_of("classify")
            size = None if given.image_size is None else (given.image_size,)
            hits = train(
                kind(
                    data=given.data,
                    model=given.model,
                    image_size=size,
                    epochs=given.epochs,
                    seed=seed,
                    val_split=given.held_out,
                )
            )
            write_hits(path, hits)
            print(
                f"seed {seed}: {len(hits)} epochs, {hits.shape[1]} held-out images, the last epoch {100 * hits[-1].mean():.2f} %",
                flush=True,
            )
        rows.append(read_hits(path))
    with (given.out / "results.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["choose", "rule", "accuracy", "of_seeds", "epoch"])
        for choose in given.choose:
            found = [compare(hits, choose, seed) for seed, hits in enumerate(rows)]
            for rule, chosen in RULES.items():
                of_seeds = [statistics.fmean(one[rule]) for one in found]
                epoch = statistics.fmean(chosen(hits) + 1 for hits in rows)
                table.writerow(
                    [
                        f"{choose:g}",
                        rule,
                        f"{statistics.fmean(of_seeds):.2f}",
                        " ".join(f"{one:.2f}" for one in of_seeds),
                        f"{epoch:.1f}",
                    ]
                )
                print(f"{choose:g}  {rule}: {statistics.fmean(of_seeds):.2f}")


if __name__ == "__main__":
    main()
