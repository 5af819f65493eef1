"""Who learns the order of words without being told where they stand?

    python benchmarks/order.py --text sentences.txt --out FOLDER

The claim: a causal language model learns it without positions, because each word sees another number of words; a masked language model and
an encoder-decoder do not, because an encoder without positions sees a bag of words. Each is trained by `vitrail train` with positions and
without (--position none). The language models are then asked about other sentences as they are and with their words shuffled: whoever
knows no order is surprised by both alike. The encoder-decoder has to write the words of the built-in `reverse` backwards.

--out gets order.csv (a row a model). What is there already is not run again; a run that was interrupted goes on.
"""

import argparse
import csv
import json
import random
import subprocess
import sys
from pathlib import Path

from vitrail.data.text.plain import open_lines

LANGUAGE = {"causal": ("gpt_tiny", "learned_1d"), "masked": ("bert_tiny", "learned_1d")}
COLUMNS = ("model", "position", "perplexity", "shuffled", "exact")


def vitrail(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "vitrail", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def train_language(kind: str, position: str, options: argparse.Namespace) -> dict[str, object]:
    """Perplexity on the test sentences, and on the same with their words shuffled."""
    folder = options.out / "runs" / f"{kind}-{position}"
    words = ["--data", options.text, "--model", LANGUAGE[kind][0], "--position", position, "--epochs", options.epochs]
    words += [
        "--vocabulary",
        options.vocabulary,
        "--lower",
        "--optimizer",
        "muon",
        "--lr",
        options.lr,
        "--dropout",
        0.1,
        "--ema",
        0.99,
    ]
    words += ["--masked"] if kind == "masked" else []
    vitrail("train", "--task", "language", *words, "--out", folder, "--resume")
    found = {}
    for name in ("ordered", "shuffled"):
        vitrail("eval", folder, "--data", options.out / f"{name}.txt", "--out", folder / name)
        found[name] = json.loads((folder / name / "metrics.json").read_text())["perplexity"]
    return {
        "model": kind,
        "position": position,
        "perplexity": f"{found['ordered']:.2f}",
        "shuffled": f"{found['shuffled']:.2f}",
    }


def train_translator(position: str, options: argparse.Namespace) -> dict[str, object]:
    """Share of sentences that are written backwards without a mistake."""
    folder = options.out / "runs" / f"encoder-decoder-{position}"
    words = ["--data", "reverse", "--model", "transformer_tiny", "--position", position, "--epochs", options.toy_epochs]
    words += ["--optimizer", "muon", "--lr", options.lr, "--dropout", 0.0, "--ema", 0.99, "--beams", 1]
    vitrail("train", "--task", "translate", *words, "--out", folder, "--resume")
    with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    exact = sum(row["reference"] == row["hypothesis"] for row in rows) / len(rows)
    return {"model": "encoder-decoder", "position": position, "exact": f"{100 * exact:.2f}"}


def write_sentences(options: argparse.Namespace) -> None:
    """The test sentences, and the same with their words in any order."""
    draw, lines = random.Random(0), open_lines(str(options.text))["test"]
    shuffled = [" ".join(draw.sample(words, len(words))) for line in lines for words in [line.split()]]
    for name, texts in (("ordered", lines), ("shuffled", shuffled)):
        (options.out / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=3, help="of the language models")
    parser.add_argument("--toy-epochs", type=int, default=8, help="of the encoder-decoder")
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--lr", type=float, default=4e-3)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    write_sentences(options)
    rows = [train_language(kind, where, options) for kind, (_, with_) in LANGUAGE.items() for where in (with_, "none")]
    rows += [train_translator(position, options) for position in ("sinusoidal_1d", "none")]
    with (options.out / "order.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{row.get(column, ''):<16}" for column in COLUMNS))


if __name__ == "__main__":
    main()
