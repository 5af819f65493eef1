"""Learning with few labels: each way of pretraining against training from scratch, and students with and without a teacher.

    python benchmarks/few_labels.py --data cifar10/arrays.npz --out FOLDER
    python benchmarks/few_labels.py --data cifar10/arrays.npz --out FOLDER --methods --deit

First each method learns from all training images without their labels, --minutes long (BEiT's time is divided: a part for the
tokenizer, the rest for itself). Then the same network is trained on a share of the labels for the same number of epochs, from each of
these weights and from new ones (scratch), with every seed, which chooses the labelled images too. Neighbors by the features of each
method, and by pixels, are asked with all labels and with the share.

--deit: a student learns from labels alone, with a convolutional teacher's hard or soft answers, and the same with a distillation token.
Teacher and students see the same labels (--deit-labels, all of them unless said otherwise).

Everything is `vitrail pretrain`, `vitrail train` and `vitrail eval` as a user types them; validation chooses epochs, test is read once a run.
--out gets results.csv and the test predictions of every run, as benchmarks/recompute.py reads them, config.yaml and few_labels.png. What is
there already is not run again, and a run that was interrupted goes on. On two cores the defaults take about 90 minutes for the first
part; what it will take is reported before it begins. --jobs 2 runs two trainings side by side with a thread each, which is faster where models are
small.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from records import keep, read_accuracies, read_rows

METHODS = ("mae", "beit", "dino", "moco")
TOKENIZER = 0.25  # of BEiT's time
STUDENTS = {  # what is learned from beside the labels, and whether by a token of its own
    "student alone": (False, ()),
    "student hard": (False, ("--distill", "hard")),
    "student soft": (False, ("--distill", "soft")),
    "token hard": (True, ("--distill", "hard")),
    "token soft": (True, ("--distill", "soft")),
}


def divide(data: Path, validation: int, target: Path) -> Path:
    """The same images with so many of the training ones, the last of a fixed shuffle, as validation: what is asked after every epoch."""
    if not target.is_file():
        with np.load(data, allow_pickle=False) as arrays:
            order = np.random.default_rng(0).permutation(len(arrays["y_train"]))
            learn, choose = order[:-validation], order[-validation:]
            parts = {
                f"{kind}_{name}": arrays[f"{kind}_train"][part]
                for name, part in (("train", learn), ("val", choose))
                for kind in "xy"
            }
            kept = {name: arrays[name] for name in ("x_test", "y_test", "classes") if name in arrays}
            np.savez(target, **parts, **kept)
    return target


class Job(NamedTuple):
    """A command, and the folder that its `metrics.json` or `protocol.csv` ends."""

    folder: Path
    words: tuple[object, ...]

    @property
    def finished(self) -> bool:
        return (self.folder / "metrics.json").is_file()


def vitrail(verb: str, folder: Path, *words: object) -> Job:
    return Job(folder, (verb, *words, "--out", folder, "--resume"))


def run(jobs: list[Job], options: argparse.Namespace) -> None:
    """Those that are not finished; with --jobs several at a time, each with its share of the cores."""
    waiting = [job for job in jobs if not job.finished]
    threads = max(1, (os.cpu_count() or 1) // options.jobs)
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(threads)} if options.jobs > 1 else {})}

    def call(job: Job) -> None:
        words = [sys.executable, "-m", "vitrail", *map(str, job.words)]
        print("$ vitrail " + shlex.join(words[3:]), flush=True)
        with (options.out / "runs" / "log.txt").open("a") as log:
            done = subprocess.run(words, env=environment, stdout=log, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{job.folder.name}: {done.stderr.strip()}")

    with ThreadPoolExecutor(options.jobs) as pool:
        for _ in pool.map(call, waiting):
            pass


def pretraining(options: argparse.Namespace) -> list[list[Job]]:
    """Stages: what a stage needs, those before it have made."""
    runs, model = options.out / "runs", ("--model", options.model)
    tokenizer_minutes = TOKENIZER * options.minutes

    def job(method: str, minutes: float, more: list[str], *words: object) -> Job:
        length = () if "--epochs" in more else ("--minutes", minutes)
        own = ("--method", method, "--data", options.data, "--seed", 0, *words, *length, *more)
        return vitrail("pretrain", runs / method, *own)

    first = [job(method, options.minutes, extra(options, method), *model) for method in options.methods if method != "beit"]
    if "beit" not in options.methods:
        return [first]
    first.append(job("dvae", tokenizer_minutes, options.dvae, *stride_of(options.model)))
    words = (*model, "--tokenizer", runs / "dvae")
    return [first, [job("beit", options.minutes - tokenizer_minutes, extra(options, "beit"), *words)]]


def stride_of(model: str) -> tuple[object, ...]:
    """Words that give the tokenizer's codes the patch of a model, as its name says it."""
    return ("--model", f"dvae_small_stride{model.split('_patch')[1].split('_')[0]}")


def extra(options: argparse.Namespace, method: str) -> list[str]:
    """Of --more "dino --lr 1e-3": the words for one method."""
    return [word for words in options.more if shlex.split(words)[0] == method for word in shlex.split(words)[1:]]


def finetuning(options: argparse.Namespace) -> dict[tuple[str, int], Job]:
    """From every method's weights, and from scratch."""
    found = {}
    for seed in options.seeds:
        for method in ("scratch", *options.methods):
            words: list[object] = [
                "--data",
                options.data,
                "--labels",
                options.labels,
                "--epochs",
                options.epochs,
                "--seed",
                seed,
            ]
            if method == "scratch":
                words += ["--model", options.model, *options.scratch]
            else:
                words += ["--weights", options.out / "runs" / method, *options.finetune]
            found[method, seed] = vitrail("train", options.out / "runs" / f"{method}-labels-seed{seed}", *words)
    return found


def students(options: argparse.Namespace) -> tuple[list[Job], dict[tuple[str, int], Job]]:
    """The teacher, then its students."""
    runs, common = options.out / "runs", ("--data", options.data, "--labels", options.deit_labels)
    teacher = vitrail(
        "train", runs / "teacher", *common, "--model", options.teacher, "--epochs", options.teacher_epochs, "--seed", 0
    )
    found = {}
    for seed in options.seeds:
        for name, (token, words) in STUDENTS.items():
            model = options.student.replace("_patch", "_distilled_patch") if token else options.student
            taught = ("--teacher", runs / "teacher", *words) if words else ()
            own = ("--model", model, "--epochs", options.deit_epochs, "--seed", seed, *taught)
            found[name, seed] = vitrail("train", runs / f"{name.replace(' ', '-')}-seed{seed}", *common, *own)
    return [teacher], found


def keep_run(name: str, seed: int, job: Job, part: str, labels: float, options: argparse.Namespace) -> None:
    """The test predictions of a run, and a row of the table; validation is reported beside it, for whoever chooses by it."""
    answers, epochs = read_rows(job.folder / "predictions.csv"), read_rows(job.folder / "results.csv")
    keep(
        options.out,
        name,
        seed,
        [row["truth"] for row in answers],
        [row["predicted"] for row in answers],
        part=part,
        labels=labels,
        epochs=len(epochs),
        validation=f"{100 * max(float(row['val_accuracy']) for row in epochs):.2f}",
        seconds=epochs[-1]["seconds"],
    )


def ask_neighbors(options: argparse.Namespace) -> None:
    """`vitrail eval --protocol knn,linear` of every method, and what it says of pixels."""
    shares = sorted({options.labels, 1.0})
    for method in options.methods:
        run_folder = options.out / "runs" / method
        words = ("--data", options.data, "--protocol", "knn,linear", "--labels", ",".join(map(str, shares)))
        job = Job(run_folder / "protocol", ("eval", run_folder, *words, "--out", run_folder / "protocol"))
        if len(read_rows(job.folder / "protocol.csv")) < 3 * len(shares):
            run([job], options)
        done = read_accuracies(options.out)
        for row in read_rows(job.folder / "protocol.csv"):
            words = [row["protocol"], *(() if row["protocol"] == "pixels" else (method,)), f"{float(row['labels']):g}"]
            name = " ".join(words)
            if (name, 0) in done:
                continue
            answers = read_rows(job.folder / row["predictions"])
            truth, said = ([answer[side] for answer in answers] for side in ("truth", "predicted"))
            keep(
                options.out,
                name,
                0,
                truth,
                said,
                part="features",
                labels=float(row["labels"]),
                epochs="",
                validation="",
                seconds="",
            )


def estimate(options: argparse.Namespace) -> None:
    """Minutes of what is not finished, from a few steps of the network on this machine."""
    import torch

    import vitrail as vt

    data, size = vt.open_data(str(options.data)), 32
    learned, validation = len(data["train"]), len(data["val"])

    def pace(model: str) -> float:
        network, images = (
            vt.create_model(model, num_classes=10, image_size=(size, size), in_channels=3),
            torch.randn(128, 3, size, size),
        )
        network(images).sum().backward()
        begin = time.perf_counter()
        for _ in range(3):
            network(images).sum().backward()
        return 3 * 128 / (time.perf_counter() - begin)

    total = sum(options.minutes for method in options.methods if not (options.out / "runs" / method / "metrics.json").is_file())
    if options.methods:
        waiting = sum(not job.finished for job in finetuning(options).values())
        each = options.epochs * (options.labels * learned + validation / 3) / pace(options.model) / 60
        total += waiting * each
        print(f"{waiting} trainings with {options.labels:g} of the labels, about {each:.1f} minutes each")
    if options.deit:
        _, found = students(options)
        waiting = sum(not job.finished for job in found.values())
        each = options.deit_epochs * (options.deit_labels * learned * 1.3 + validation / 3) / pace(options.student) / 60
        total += waiting * each + options.teacher_epochs * options.deit_labels * learned / pace(options.teacher) / 60
        print(f"{waiting} students with {options.deit_labels:g} of the labels, about {each:.1f} minutes each, and a teacher")
    print(
        f"about {total:.0f} minutes in all" + (f", less with {options.jobs} side by side" if options.jobs > 1 else ""),
        flush=True,
    )


def groups_of(rows: list[dict[str, str]]) -> dict[str, dict[str, list[float]]]:
    """Test accuracies by part and model."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row["part"], {}).setdefault(row["model"], []).append(float(row["test_accuracy"]))
    return found


def print_tables(rows: list[dict[str, str]]) -> None:
    """Markdown; the last column is what a row is better by than the first of its part."""
    for part, models in groups_of(rows).items():
        basis = {"few labels": "scratch", "teacher": "student alone", "features": "pixels 1"}.get(part, next(iter(models)))
        print(f"\n{part}\n\n| | test accuracy | each seed | against {basis} |\n|---|---|---|---|")
        for model, scores in models.items():
            mean = statistics.mean(scores)
            more = mean - statistics.mean(models[basis]) if basis in models else float("nan")
            print(f"| {model} | {mean:.2f} % | {', '.join(f'{score:.2f}' for score in scores)} | {more:+.2f} |")


def draw(rows: list[dict[str, str]], target: Path) -> None:
    """A panel a part, a dot a run, a line at each mean."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    groups = groups_of(rows)
    tallest = max(map(len, groups.values()))
    figure, panels = plt.subplots(
        1, len(groups), figsize=(4.2 * len(groups), 0.8 + 0.27 * tallest), squeeze=False, layout="constrained"
    )
    for axes, (part, models) in zip(panels[0], groups.items(), strict=True):
        for place, scores in enumerate(models.values()):
            axes.plot(scores, [place] * len(scores), "o", color="#cc671d", alpha=0.7)
            axes.vlines(statistics.mean(scores), place - 0.3, place + 0.3, color="#333333")
        axes.set_yticks(range(len(models)), list(models), fontsize=8)
        axes.set_ylim(len(models) - 0.4, -0.6)
        axes.set_xlabel("test accuracy, %")
        axes.set_title(part, fontsize=10)
        axes.grid(axis="x", alpha=0.2)
    figure.savefig(target, dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="CIFAR-10 as arrays (x_train, y_train, x_test, y_test), or a folder"
    )
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    parser.add_argument(
        "--methods", nargs="*", choices=METHODS, default=list(METHODS), help="none: no pretraining, for --deit alone"
    )
    parser.add_argument("--model", default="vit_micro_patch4_32")
    parser.add_argument("--minutes", type=float, default=5.0, help="of pretraining, each method")
    parser.add_argument("--labels", type=float, default=0.1, help="share of the labels to fine-tune on")
    parser.add_argument("--epochs", type=int, default=20, help="of fine-tuning, and from scratch")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--more",
        nargs="*",
        default=[],
        help='words for the pretraining of one method, such as "dino --lr 1e-3"; with --epochs among them, that long',
    )
    parser.add_argument("--dvae", type=shlex.split, default=[], help="words for the tokenizer's training")
    parser.add_argument("--finetune", type=shlex.split, default=[], help='words for fine-tuning, such as "--lr 1e-3"')
    parser.add_argument("--scratch", type=shlex.split, default=[], help="words for training from scratch")
    parser.add_argument("--deit", action="store_true", help="students with and without a teacher")
    parser.add_argument("--student", default="deit_micro_patch4_32")
    parser.add_argument("--teacher", default="resnet20_32")
    parser.add_argument("--teacher-epochs", type=int, default=10)
    parser.add_argument("--deit-labels", type=float, default=1.0)
    parser.add_argument("--deit-epochs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side")
    parser.add_argument(
        "--validation", type=int, help="so many images for validation instead of a tenth: less to ask after each epoch"
    )
    options = parser.parse_args()
    options.data = options.data.resolve()
    return options


def main() -> None:
    options = parse()
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    if options.validation:
        options.data = divide(options.data, options.validation, (options.out / "runs" / "data.npz").resolve())
    (options.out / "config.yaml").write_text(f"# python benchmarks/few_labels.py {shlex.join(sys.argv[1:])}\n")
    estimate(options)
    if options.methods:
        for stage in pretraining(options):
            run(stage, options)
        ask_neighbors(options)
        jobs = finetuning(options)
        run(list(jobs.values()), options)
        for (method, seed), job in jobs.items():
            if (method, seed) not in read_accuracies(options.out):
                keep_run(method, seed, job, "few labels", options.labels, options)
    if options.deit:
        teacher, taught = students(options)
        run(teacher, options)
        run(list(taught.values()), options)
        for (name, seed), job in {("teacher", 0): teacher[0], **taught}.items():
            if (name, seed) not in read_accuracies(options.out):
                keep_run(name, seed, job, "teacher", options.deit_labels, options)
    rows = read_rows(options.out / "results.csv")
    draw(rows, options.out / "few_labels.png")
    print_tables(rows)


if __name__ == "__main__":
    main()
