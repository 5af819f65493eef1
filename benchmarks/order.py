"""Who learns the order of words without knowing where they stand?

    python benchmarks/order.py --text sentences.txt --out FOLDER

The claim: a causal language model learns it without positions, because each word sees another number of words; a masked language model and
an encoder-decoder do not, because an encoder without positions sees a bag of words. Each is trained by `vitrail train` with positions and
without (--position none). The language models are then asked for every token of other sentences, as they are and with their words
shuffled (a masked one is asked for every seventh token at a time): whoever knows no order is surprised by both alike. The encoder-decoder has to
write the words of the built-in `reverse` backwards.

--out gets means.csv (nats a token, of the files beside it) and results.csv (sentences written backwards without a mistake), as
benchmarks/recompute.py reads them. A run that was interrupted goes on.
"""

import argparse
import csv
import gzip
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from records import keep, write_rows

import vitrail as vt
from vitrail.data.text.plain import open_lines
from vitrail.special_tokens import BEGIN, END, MASK

POSITION = "learned_1d"
# A masked model is asked for every seventh word only, and for long says how frequent words are and nothing else. What ends that sooner:
# fewer words to tell apart, short sequences, AdamW, no dropout (docs/log.md).
SETTINGS: dict[str, dict[str, object]] = {
    "causal": {"model": "gpt_tiny", "vocabulary": 2000, "optimizer": "muon", "lr": 4e-3, "dropout": 0.1},
    "masked": {
        "model": "bert_tiny", "vocabulary": 500, "optimizer": "adamw", "lr": 2e-3, "dropout": 0.0, "longest": 32, "batch_tokens": 2048,
    },
}  # fmt: skip
EVERY = 7  # of the tokens, one is hidden


def vitrail(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "vitrail", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def train_language(
    kind: str, position: str, texts: dict[str, list[str]], options: argparse.Namespace
) -> list[dict[str, object]]:
    """How surprising the test sentences are, and the same with their words shuffled."""
    folder = options.out / "runs" / f"{kind}-{position}"
    epochs = options.masked_epochs if kind == "masked" else options.epochs
    words: list[object] = ["--data", options.text, "--position", position, "--epochs", epochs, "--lower", "--ema", 0.99]
    for name, value in SETTINGS[kind].items():
        words += [f"--{name.replace('_', '-')}", value]
    words += ["--masked"] if kind == "masked" else []
    vitrail("train", "--task", "language", *words, "--out", folder, "--resume")
    model, rows = vt.load(folder), []
    for name, sentences in texts.items():
        encoded = [model.tokenizer.encode(text) for text in sentences]
        losses = [loss for words in encoded if len(words) < model.config.longest for loss in surprise(model, words)]
        file = f"{kind}-{position}-{name}.csv.gz"
        text = "\n".join(["nats", *(f"{loss:.3f}" for loss in losses)]) + "\n"
        (options.out / file).write_bytes(gzip.compress(text.encode(), mtime=0))
        mean = sum(round(loss, 3) for loss in losses) / len(losses)
        rows.append({"table": name, "row": f"{kind}, {position}", "column": "nats", "files": file, "mean": f"{mean:.3f}"})
    return rows


@torch.inference_mode()
def surprise(model: Any, words: list[int]) -> list[float]:
    """-log p of each token of a sentence, in nats: given those before it, or all others but those that are hidden with it."""
    if model.config.causal:
        ids = torch.tensor([[BEGIN, *words, END]])
        return F.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:], reduction="none").tolist()
    truth = torch.tensor([*words, END])
    hidden = torch.arange(len(truth))[None] % EVERY == torch.arange(min(EVERY, len(truth)))[:, None]  # sets of places
    logits = model(torch.where(hidden, MASK, truth[None]))
    return F.cross_entropy(logits[hidden], truth.expand_as(hidden)[hidden], reduction="none").tolist()


def train_translator(position: str, options: argparse.Namespace) -> None:
    """Share of sentences that are written backwards without a mistake."""
    folder = options.out / "runs" / f"encoder-decoder-{position}"
    words = ["--data", "reverse", "--model", "transformer_tiny", "--position", position, "--epochs", options.toy_epochs]
    words += ["--optimizer", "muon", "--lr", 4e-3, "--dropout", 0.0, "--ema", 0.99, "--num-beams", 1]
    vitrail("train", "--task", "translate", *words, "--out", folder, "--resume")
    with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    references = sorted({row["reference"] for row in rows})
    number = {text: place for place, text in enumerate(references)}
    truth, predicted = ([number.get(row[side], -1) for row in rows] for side in ("reference", "hypothesis"))
    keep(options.out, f"encoder-decoder {position}", 0, truth, predicted, position=position)


def read_sentences(options: argparse.Namespace) -> dict[str, list[str]]:
    """Some test sentences, and the same with their words in any order."""
    draw, lines = random.Random(0), open_lines(str(options.text))["test"][: options.sentences]
    shuffled = [" ".join(draw.sample(words, len(words))) for line in lines for words in [line.split()]]
    return {"ordered": lines, "shuffled": shuffled}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=3, help="of the causal language models")
    parser.add_argument(
        "--masked-epochs", type=int, default=5, help="of the masked ones, which are asked for every seventh word only"
    )
    parser.add_argument("--toy-epochs", type=int, default=8, help="of the encoder-decoder")
    parser.add_argument("--sentences", type=int, default=500, help="of the test")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    texts = read_sentences(options)
    pairs = [(kind, position) for kind in SETTINGS for position in (POSITION, "none")]
    rows = [row for kind, position in pairs for row in train_language(kind, position, texts, options)]
    write_rows(options.out / "means.csv", rows)
    (options.out / "results.csv").unlink(missing_ok=True)
    for position in ("sinusoidal_1d", "none"):
        train_translator(position, options)
    for row in rows:
        print(f"{row['row']:<24} {row['table']:<10} {row['mean']} nats a token")
    print((options.out / "results.csv").read_text())


if __name__ == "__main__":
    main()
