"""LoRA against full fine-tuning with few labels: the same weights, data, epochs and number of learning rates tried.

    python benchmarks/lora.py --weights RUN --data pets/by_breed --name pets --out FOLDER
    python benchmarks/lora.py --weights few_labels/runs/dino --data cifar10/arrays.npz --name cifar10 --out FOLDER

Every method is first trained with each of its rates (--rates, --adapter-rates: as many) and seed 0; validation, never test, chooses its rate. Then it is trained with that rate and every
seed, which chooses the labelled images too. Everything is `vitrail train` as a user types it, and its own defaults but for the rate.

--out gets trials.csv (validation accuracy of each rate), results.csv and the test predictions of every run, as benchmarks/recompute.py reads
them, and config.yaml. A row that is there already is not run again, and a run that was interrupted goes on; --rows N ends after N trainings.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from records import append, best_validation, keep, read_accuracies, read_rows

METHODS: dict[str, tuple[str, ...]] = {
    "full": (),
    "lora": ("--lora", "8"),
    "lora all": ("--lora", "8", "--lora-targets", "attention", "output", "mlp"),
    "lora everywhere": ("--lora", "8", "--lora-targets", "attention", "output", "mlp", "convolution"),
    "dora all": ("--lora", "8", "--lora-targets", "attention", "output", "mlp", "--dora"),
}


class Job(NamedTuple):
    """A training: a row of the results, or a trial."""

    method: str
    rate: float
    seed: int

    def folder(self, options: argparse.Namespace) -> Path:
        return options.out / "runs" / f"{options.name}-{self.method.replace(' ', '-')}-lr{self.rate:g}-seed{self.seed}"

    def words(self, options: argparse.Namespace) -> list[str]:
        own = ("--data", options.data, "--weights", options.weights, "--labels", options.labels, "--epochs", options.epochs)
        how = ("--lr", self.rate, "--seed", self.seed, *METHODS[self.method], *options.more)
        return ["train", *map(str, (*own, *how)), "--out", str(self.folder(options)), "--resume"]


def train(job: Job, options: argparse.Namespace) -> Path:
    folder = job.folder(options)
    if not (folder / "metrics.json").is_file():
        options.left -= 1
        if options.left < 0:
            raise SystemExit("the rows asked for are done; the same command goes on")
        words = [sys.executable, "-m", "vitrail", *job.words(options)]
        print("$ vitrail " + shlex.join(words[3:]), flush=True)
        with (options.out / "runs" / "log.txt").open("a") as log:
            done = subprocess.run(words, env={**os.environ}, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{folder.name}: {done.stderr.strip()}")
    return folder


def rates_of(method: str, options: argparse.Namespace) -> list[float]:
    """Adapters begin at 0 and have further to go: their rates are higher, and as many."""
    found: list[float] = options.rates if method == "full" else options.adapter_rates
    return found


def choose_rate(method: str, options: argparse.Namespace) -> float:
    """The rate of the best validation with seed 0; of equal ones the lowest."""
    found: dict[float, float] = {}
    known = {(row["data"], row["method"], float(row["lr"])) for row in read_rows(options.out / "trials.csv")}
    for rate in sorted(rates_of(method, options)):
        found[rate] = best_validation(train(Job(method, rate, 0), options))
        if (options.name, method, rate) not in known:
            row = {"data": options.name, "method": method, "lr": f"{rate:g}", "validation": f"{found[rate]:.2f}"}
            append(options.out / "trials.csv", row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return max(sorted(found), key=found.__getitem__)


def rows(options: argparse.Namespace) -> Iterator[Job]:
    """What is not yet in the table; a method's rate is chosen when its first row is due."""
    for method in options.methods:
        rate = choose_rate(method, options)
        for seed in options.seeds:
            if (f"{options.name} {method}", seed) not in read_accuracies(options.out):
                yield Job(method, rate, seed)


def record(job: Job, folder: Path, options: argparse.Namespace) -> None:
    answers, epochs = read_rows(folder / "predictions.csv"), read_rows(folder / "results.csv")
    keep(
        options.out, f"{options.name} {job.method}", job.seed,
        [row["truth"] for row in answers], [row["predicted"] for row in answers],
        data=options.name, method=job.method, labels=options.labels, lr=f"{job.rate:g}", rates=len(rates_of(job.method, options)), epochs=len(epochs),
        validation=f"{best_validation(folder):.2f}", seconds=epochs[-1]["seconds"],
    )  # fmt: skip


def print_table(options: argparse.Namespace) -> None:
    """Markdown; the last column is the difference to full fine-tuning."""
    found: dict[str, list[float]] = {}
    for row in read_rows(options.out / "results.csv"):
        if row["data"] == options.name:
            found.setdefault(row["method"], []).append(float(row["test_accuracy"]))
    print(f"\n{options.name}\n\n| | test accuracy | each seed | against full |\n|---|---|---|---|")
    for method, scores in found.items():
        more = f"{statistics.mean(scores) - statistics.mean(found['full']):+.2f}" if "full" in found else ""
        print(f"| {method} | {statistics.mean(scores):.2f} % | {', '.join(f'{score:.2f}' for score in scores)} | {more} |")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True, help="a run, a model folder, or what else --weights takes")
    parser.add_argument("--data", type=Path, required=True, help="a folder of images, or arrays")
    parser.add_argument("--name", required=True, help="of the data in the table")
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["full", "lora", "lora all"])
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 2e-3, 4e-3], help="tried by full fine-tuning")
    parser.add_argument("--adapter-rates", type=float, nargs="+", default=[2e-3, 4e-3, 8e-3], help="tried by adapters: as many")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--labels", type=float, default=0.1, help="share of the labels")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000, help="trainings at most; those that are there do not count")
    parser.add_argument("--more", type=shlex.split, default=[], help='words for every training, such as "--image-size 96"')
    options = parser.parse_args()
    if len(options.rates) != len(options.adapter_rates):
        parser.error(f"{len(options.rates)} --rates and {len(options.adapter_rates)} --adapter-rates: as many of each")
    options.data, options.left = options.data.resolve(), options.rows
    if Path(options.weights).exists():
        options.weights = Path(options.weights).resolve()
    return options


def main() -> None:
    options = parse()
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    with (options.out / "config.yaml").open("a") as file:
        line = f"# python benchmarks/lora.py {shlex.join(sys.argv[1:])}\n"
        if line not in (options.out / "config.yaml").read_text():
            file.write(line)
    for job in rows(options):
        record(job, train(job, options), options)
    print_table(options)


if __name__ == "__main__":
    main()
