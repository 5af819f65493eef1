"""Records of experiments, in the layout of benchmarks/results/: results.csv, one row per run, and the test predictions of each run."""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Of a translation: runs of one to four words that stand in the reference, all such runs, words written, words of the reference.
COUNTS = (*(f"right_{n}" for n in range(1, 5)), *(f"runs_{n}" for n in range(1, 5)), "words", "reference_words")
MANY = 10_000  # predictions; a file of more is compressed


def append(path: Path, row: Mapping[str, Any]) -> None:
    """One more row of a table, with the names on top if it is the first."""
    new = not path.is_file()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A whole table at once: where there is a file of this name, it has all of its rows."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def read_rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_run(run: Path) -> tuple[Any, list[dict[str, str]], dict[str, Any]]:
    """Of a run of `vitrail train`: its options, what it said of the test samples, and facts for a row of the table."""
    import vitrail as vt
    from vitrail.models.catalogue import count_parameters
    from vitrail.run.stored import read_options

    epochs = read_rows(run / "results.csv")
    facts = {"parameters": count_parameters(vt.load(run)), "epochs": len(epochs), "seconds": epochs[-1]["seconds"]}
    return read_options(run / "config.yaml"), read_rows(run / "predictions.csv"), facts


def best_validation(run: Path) -> float:
    """The highest validation accuracy of a run's epochs, in percent."""
    return 100 * max(float(row["val_accuracy"]) for row in read_rows(run / "results.csv"))


def read_accuracies(folder: Path) -> dict[tuple[str, int], float]:
    """Test accuracy of what has been run, by model and seed."""
    return {(row["model"], int(row["seed"])): float(row["test_accuracy"]) for row in read_rows(folder / "results.csv")}


def by_model(done: Mapping[tuple[str, int], float]) -> dict[str, list[float]]:
    """The accuracies of each model, a seed after the other."""
    found: dict[str, list[float]] = {}
    for (model, _), accuracy in done.items():
        found.setdefault(model, []).append(accuracy)
    return found


def keep(
    folder: Path, model: str, seed: int, truth: Sequence[int | str], predicted: Sequence[int | str], **facts: Any
) -> float:
    """Predictions and a row of the table; the accuracy in percent."""
    accuracy = 100 * sum(t == p for t, p in zip(truth, predicted, strict=True)) / len(truth)
    name = f"predictions-{model.replace(' ', '-')}-seed{seed}.csv"
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([("truth", "predicted"), *zip(truth, predicted, strict=True)])
    text = table.getvalue()
    if len(truth) > MANY:
        name += ".gz"
        (folder / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        (folder / name).write_text(text)
    row = {"model": model, "seed": seed, "test_accuracy": f"{accuracy:.2f}", **facts}
    append(folder / "results.csv", {**row, "predictions": name})
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return accuracy


def keep_translations(folder: Path, model: str, seed: int, bleu: Any, hypotheses: Sequence[str], **facts: Any) -> None:
    """Translations with what each adds to BLEU, and a row of the table: the references, which may not be ours to give, are not needed."""
    name = f"predictions-{model}-seed{seed}.csv"
    counts = [dict(zip(COUNTS, row, strict=True)) for row in bleu.counts.tolist()]
    write_rows(folder / name, [{"hypothesis": text, **row} for text, row in zip(hypotheses, counts, strict=True)])
    row = {"model": model, "seed": seed, "test_bleu": f"{bleu.score:.2f}", "predictions": name}
    append(folder / "results.csv", {**row, **facts, "signature": bleu.signature})
