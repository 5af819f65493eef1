"""Before the transformer: recurrent encoder-decoders without attention and with it, beside a transformer of as many parameters.

    python benchmarks/predecessors.py --data multi30k --source de --target en --lower --out FOLDER               # the same steps for all
    python benchmarks/predecessors.py --data multi30k --source de --target en --lower --out FOLDER --minutes 20  # the same time for all

Every model reads the same batches of the same byte pairs with the same optimizer and recipe, then translates the test sentences by beam
search; its last weights are tested, once. What it tells: BLEU, BLEU of the short and of the long sentences (through one vector of fixed size a long one
does not fit), and how the time of a training step and of a decoding step grows with length: a recurrent net takes one step after
the other, a transformer all at once in training.

--out gets results.csv (one row per model: BLEU, by length too), the test translations of every model (predictions-MODEL.csv), times.csv
(milliseconds by model and length) and predecessors.png. What is there already is not run again.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from records import keep_translations, read_rows, write_rows

MODELS = (
    "transformer_tiny", "cmlm_tiny",
    "lstm_seq2seq_tiny", "gru_seq2seq_tiny", "bilstm_seq2seq_tiny",
    "lstm_seq2seq_tiny_global", "gru_seq2seq_tiny_global", "bilstm_seq2seq_tiny_global",
    "lstm_seq2seq_tiny_local", "gru_seq2seq_tiny_local", "bilstm_seq2seq_tiny_local",
)  # fmt: skip
LENGTHS = (16, 32, 64, 128)  # at which time is measured
KINDS = {"transformer": "#333333", "cmlm": "#8a5fa8", "lstm": "#cc671d", "gru": "#3a7ca5", "bilstm": "#5b8e4d"}  # colors
STYLES = {"global": "-", "local": "--", "none": ":"}  # of lines, by attention


def batches_forever(loader: Any) -> Iterator[Any]:
    epoch = 0
    while True:
        yield from loader.batches(epoch)
        epoch += 1


def train(task: Any, loader: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Steps of the recipe until the budget is spent; what they took."""
    from vitrail.learn.optim.schedule import warmup_cosine
    from vitrail.learn.training.plan import Plan
    from vitrail.learn.training.step import Stepper
    from vitrail.learn.training.world import World

    plan = Plan(
        epochs=options.epochs,
        lr=options.lr,
        weight_decay=options.weight_decay,
        warmup=0.05,
        clip=1.0,
        optimizer=options.optimizer,
    )
    stepper, total = Stepper(task, plan, World()), options.epochs * len(loader)
    task.model.train()
    start, losses = time.perf_counter(), list[float]()
    for batch in batches_forever(loader):
        seconds = time.perf_counter() - start
        done = seconds / (60 * options.minutes) if options.minutes else len(losses) / total
        if done >= 1.0:
            break
        losses.append(stepper.take(batch, options.lr * warmup_cosine(done, warmup=plan.warmup)).loss)
        if len(losses) % 100 == 0:
            print(f"  step {len(losses)}  loss {statistics.mean(losses[-100:]):.3f}  {done:4.0%}", flush=True)
    seconds = time.perf_counter() - start
    return {
        "steps": len(losses),
        "seconds": round(seconds, 1),
        "train_ms": round(1e3 * seconds / max(1, len(losses)), 1),
        "train_loss": round(statistics.mean(losses[-100:]), 4),
    }


def length_groups(sources: Sequence[str], edges: Sequence[int]) -> dict[str, np.ndarray]:
    """The numbers of the sentences of so many words: {"1-8": [...], "9-12": [...], ..., "over 20": [...]}."""
    counts = np.array([len(source.split()) for source in sources])
    names = [f"{start + 1}-{end}" for start, end in itertools.pairwise([0, *edges])] + [f"over {edges[-1]}"]
    group = np.searchsorted(edges, counts)
    return {name: np.flatnonzero(group == number) for number, name in enumerate(names)}


def run(name: str, data: Any, tokenizer: Any, options: argparse.Namespace) -> None:
    """One model trained and tested, and what is kept of it."""
    import torch

    import vitrail as vt
    from vitrail.models.catalogue import count_parameters
    from vitrail.tasks.translate.data import pair_loader
    from vitrail.tasks.translate.objective import Translate

    torch.manual_seed(options.seed)
    model = vt.create_model(name, vocabulary=len(tokenizer))
    print(f"{name}: {count_parameters(model):,} parameters", flush=True)
    limits = {"tokens": options.tokens, "longest": model.config.longest - 1, "seed": options.seed}
    task = Translate(model, tokenizer, smoothing=options.smoothing)
    facts = train(task, pair_loader(data["train"], tokenizer, shuffle=True, **limits), options)
    found = task.test(pair_loader(data["test"], tokenizer, **limits), beams=options.beams)
    row: dict[str, Any] = {"parameters": count_parameters(model)}
    for group, rows in length_groups(found.sources, options.edges).items():
        row[f"bleu_{group}"] = f"{found.bleu.of(rows):.2f}" if len(rows) else ""
    row |= {"test_loss": f"{found.loss:.4f}", **facts, "beams": options.beams}
    keep_translations(options.out, name, options.seed, found.bleu, found.hypotheses, **row)
    print(f"  BLEU {found.bleu.score:.2f} after {facts['steps']} steps, {facts['seconds']:.0f} s", flush=True)


# Time by length


def training_step(model: Any, optimizer: Any, source: Any, target: Any) -> float:
    """Seconds of a forward and backward pass and a step of Adam."""
    from vitrail.learn.losses.word_cross_entropy import word_cross_entropy

    model.train()
    start = time.perf_counter()
    loss = word_cross_entropy(model(source, target[:, :-1]), target[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.perf_counter() - start


def decoding_step(model: Any, source: Any, length: int) -> float:
    """Seconds a word, of `length` words written one by one with a cache; reading the source is in it."""
    from vitrail.models.decoding import greedy

    model.eval()
    start = time.perf_counter()
    greedy(model, source, longest=length, end=None)
    return (time.perf_counter() - start) / length


def measure(names: Sequence[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Milliseconds by model and length: medians over rounds in which the models take turns, so that a slow moment is everybody's."""
    import torch

    import vitrail as vt
    from vitrail.special_tokens import SPECIAL_TOKENS

    torch.manual_seed(0)
    models = {name: vt.create_model(name) for name in names}
    optimizers = {name: torch.optim.Adam(model.parameters(), lr=1e-4) for name, model in models.items()}
    rows = []
    for length in options.lengths:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in models}
        source = torch.randint(len(SPECIAL_TOKENS), 8000, (options.sentences, length))
        for _ in range(options.rounds + 1):
            for name, model in models.items():
                step = training_step(model, optimizers[name], source, torch.cat([source[:, :1], source], dim=1))
                taken[name].append((step, decoding_step(model, source, length)))
        for name, times in taken.items():
            train_ms, decode_ms = (1e3 * statistics.median(each) for each in zip(*times[1:], strict=True))  # the first warms up
            facts = {"model": name, "length": length, "sentences": options.sentences}
            rows.append({**facts, "train_ms": f"{train_ms:.2f}", "decode_ms": f"{decode_ms:.3f}"})
        print(f"time at {length} words measured", flush=True)
    return rows


# What is shown


def print_tables(rows: list[dict[str, str]], times: list[dict[str, str]]) -> None:
    groups = [name for name in rows[0] if name.startswith("bleu_")]
    print(
        f"{'BLEU':<28}{'all':>7}"
        + "".join(f"{name.removeprefix('bleu_'):>9}" for name in groups)
        + f"{'parameters':>12}{'steps':>8}{'ms a step':>11}"
    )
    for row in rows:
        cells = f"{row['model']:<28}{row['test_bleu']:>7}" + "".join(f"{row[name] or '-':>9}" for name in groups)
        print(f"{cells}{int(row['parameters']):>12,}{row['steps']:>8}{row['train_ms']:>11}")
    lengths = list(dict.fromkeys(row["length"] for row in times))
    for title, column in (("ms a training step", "train_ms"), ("ms a decoding step", "decode_ms")):
        print(f"\n{title + ', by words':<35}" + "".join(f"{length:>9}" for length in lengths))
        for name in dict.fromkeys(row["model"] for row in times):
            print(f"{name:<35}" + "".join(f"{row[column]:>9}" for row in times if row["model"] == name))


def draw(rows: list[dict[str, str]], times: list[dict[str, str]], target: Path) -> None:
    """BLEU by sentence length, and both times by length: one line per model, its color the kind, its stroke the attention."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (bleu, training, decoding) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    groups = [name for name in rows[0] if name.startswith("bleu_")]
    for row in rows:
        points = [(place, float(row[name])) for place, name in enumerate(groups) if row[name]]
        bleu.plot(*zip(*points, strict=True), marker="o", markersize=3, label=label(row["model"]), **style(row["model"]))
    bleu.set_xticks(range(len(groups)), [name.removeprefix("bleu_") for name in groups])
    bleu.set(xlabel="words of the source", ylabel="BLEU", title="Translations by sentence length")
    for axes, column, title in ((training, "train_ms", "A training step"), (decoding, "decode_ms", "A decoding step")):
        for name in dict.fromkeys(row["model"] for row in times):
            own = [(int(row["length"]), float(row[column])) for row in times if row["model"] == name]
            axes.plot(*zip(*own, strict=True), marker="o", markersize=3, label=label(name), **style(name))
        axes.set_xscale("log", base=2)
        lengths = list(dict.fromkeys(row["length"] for row in times))
        axes.set_xticks([int(length) for length in lengths], lengths)
        axes.set(xlabel="words", ylabel="ms", title=title, ylim=(0, None))
    handles, names = training.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=8)
    figure.savefig(target, dpi=150)
    plt.close(figure)


def label(name: str) -> str:
    return name.replace("_seq2seq_tiny", "").replace("_tiny", "").replace("_", ", ")


def style(name: str) -> dict[str, str]:
    attention = next((word for word in ("global", "local") if name.endswith(f"_{word}")), "none")
    kind = name.split("_")[0]
    return {"color": KINDS.get(kind, "#8a5fa8"), "linestyle": "-" if kind == "transformer" else STYLES[attention]}


def prepare(options: argparse.Namespace) -> tuple[Any, Any]:
    """The data and its byte pairs, which are learned once and kept; and that a folder holds one experiment."""
    import yaml

    from vitrail.byte_pairs import BytePairs
    from vitrail.data.text.parallel import open_parallel

    options.out.mkdir(parents=True, exist_ok=True)
    names = (
        "data",
        "source",
        "target",
        "lower",
        "vocabulary",
        "epochs",
        "minutes",
        "tokens",
        "lr",
        "optimizer",
        "weight_decay",
        "smoothing",
    )
    asked = {name: getattr(options, name) for name in (*names, "beams", "edges", "seed")}
    path, config = options.out / "tokenizer.json", options.out / "config.yaml"
    if config.is_file() and yaml.safe_load(config.read_text()) != asked:
        raise SystemExit(f"{options.out} holds results of other options ({config}): choose another --out")
    config.write_text(yaml.safe_dump(asked, sort_keys=False))
    data = open_parallel(options.data, options.source, options.target, seed=options.seed)
    if not path.is_file():
        lines = [*data["train"].sources, *data["train"].targets]
        path.write_text(BytePairs.train(lines, options.vocabulary, options.lower).to_json(), encoding="utf-8")
    tokenizer = BytePairs.from_json(path.read_text(encoding="utf-8"))
    return data, tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a folder of parallel text, or copy, reverse, sort")
    parser.add_argument("--source", help="language to translate from")
    parser.add_argument("--target", help="language to translate to")
    parser.add_argument("--lower", action="store_true", help="lower-case everything")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--epochs", type=int, default=20, help="the same steps for every model")
    parser.add_argument("--minutes", type=float, help="the same time for every model, instead of --epochs")
    parser.add_argument("--tokens", type=int, default=4096, help="of a batch, padding included")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument(
        "--optimizer", default="adamw", choices=("adamw", "muon"), help="muon: for matrices of blocks, else AdamW"
    )
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument(
        "--edges", type=int, nargs="+", default=[8, 12, 16, 20], help="words up to which a group of sentences goes"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="at which time is measured")
    parser.add_argument("--sentences", type=int, default=16, help="of a batch whose time is measured")
    parser.add_argument("--rounds", type=int, default=5, help="of measuring time")
    parser.add_argument("--out", type=Path, required=True, help="keep results here, and go on from what is there")
    options = parser.parse_args()
    data, tokenizer = prepare(options)
    done = {row["model"] for row in read_rows(options.out / "results.csv")}
    for name in options.models:
        if name not in done:
            run(name, data, tokenizer, options)
    rows = read_rows(options.out / "results.csv")
    names = [row["model"] for row in rows if not row["model"].startswith("cmlm")]  # which takes no step a word
    measured = {row["model"] for row in read_rows(options.out / "times.csv")}
    if set(names) != measured:  # all anew: only what was measured side by side compares
        write_rows(options.out / "times.csv", measure(names, options))
    times = read_rows(options.out / "times.csv")
    draw(rows, times, options.out / "predecessors.png")
    print_tables(rows, times)


if __name__ == "__main__":
    main()
