"""Token merging: how much faster a Vision Transformer is, and with a trained one, what that costs.

    python benchmarks/merging.py                                              ViT-S/16 at 224 pixels, random weights
    python benchmarks/merging.py --run RUN --data fashion/arrays.npz --out FOLDER --merge 0 16 24 32 40 48

Models are `rebuild(model, merge=r)`: the same weights, r tokens fewer behind each block. Passes are interleaved, a pass of each in turn until every one
has run for --seconds, and the time is the median's; beside it stands the bound, how many times fewer multiply-adds the model has (run/cost.py).
What is in the images does not change the time.

With --run each r is scored on validation and test by `vitrail eval --merge r`. Validation chooses: the largest r that loses at most --lose points of it.
--out gets results.csv, a row for each r, the test predictions as benchmarks/recompute.py reads them, and config.yaml.
"""

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from records import keep, read_rows, write_rows

import vitrail as vt
from vitrail.models.catalogue import rebuild
from vitrail.run.cost import forward_macs
from vitrail.run.stored import read_options


class Speed(NamedTuple):
    """Of one model at one batch."""

    merge: int
    batch: int
    tokens: int  # that the head reads
    milliseconds: float  # an image
    images: float  # a second
    faster: float  # times as fast as merge 0
    bound: float  # times fewer multiply-adds


def measure(model: Any, merges: list[int], batch: int, *, seconds: float) -> list[Speed]:
    """Every merge in turn; the median of its passes."""
    models = {merge: rebuild(model, merge=merge).eval() for merge in sorted({0, *merges})}
    images = torch.randn(batch, model.config.in_channels, *model.image_size)
    times: dict[int, list[float]] = {merge: [] for merge in models}
    with torch.inference_mode():
        tokens = {merge: one.forward_features(images).x.shape[1] for merge, one in models.items()}
        while min(map(sum, times.values())) < seconds:
            for merge, one in models.items():
                start = time.perf_counter()
                one(images)
                times[merge].append(time.perf_counter() - start)
    median = {merge: statistics.median(found[1:] or found) for merge, found in times.items()}
    macs = {merge: forward_macs(one.config) for merge, one in models.items()}
    return [
        Speed(
            merge,
            batch,
            tokens[merge],
            1e3 * median[merge] / batch,
            batch / median[merge],
            median[0] / median[merge],
            macs[0] / macs[merge],
        )
        for merge in merges
    ]


def show(speeds: list[Speed]) -> None:
    for row in speeds:
        print(
            f"merge {row.merge:>3}  batch {row.batch:>3}  {row.tokens:>4} tokens left  {row.milliseconds:8.2f} ms per image  "
            f"{row.images:8.1f} images/s  {row.faster:5.2f}x  (operations {row.bound:.2f}x)",
            flush=True,
        )


def read_test(run: str, data: str | None, merge: int) -> list[dict[str, str]]:
    """What the run's model says of the test images."""
    with tempfile.TemporaryDirectory() as folder:
        vt.evaluate(run, data=data, split="test", merge=merge, out=Path(folder) / "scores")
        return read_rows(Path(folder) / "scores" / "predictions.csv")


def measure_tradeoff(options: argparse.Namespace, model: Any) -> None:
    """The curve of accuracy against speed, and what validation chooses of it."""
    options.out.mkdir(parents=True, exist_ok=True)
    merges = sorted({0, *options.merge})
    speeds = {row.merge: row for row in measure(model, merges, options.batch[-1], seconds=options.seconds)}
    show(list(speeds.values()))
    found = {merge: 100 * vt.evaluate(options.run, data=options.data, split="val", merge=merge)["accuracy"] for merge in merges}
    chosen = max(merge for merge in merges if found[merge] >= found[0] - options.lose)
    print(f"validation chooses merge {chosen}: " + ", ".join(f"{merge}: {found[merge]:.2f} %" for merge in merges), flush=True)
    (options.out / "results.csv").unlink(missing_ok=True)
    for merge in merges:
        rows, speed = read_test(options.run, options.data, merge), speeds[merge]
        keep(
            options.out,
            f"merge {merge}",
            options.seed,
            [row["truth"] for row in rows],
            [row["predicted"] for row in rows],
            val_accuracy=f"{found[merge]:.2f}",
            chosen="yes" if merge == chosen else "",
            batch=speed.batch,
            tokens_left=speed.tokens,
            milliseconds=f"{speed.milliseconds:.3f}",
            times_faster=f"{speed.faster:.2f}",
            times_fewer_operations=f"{speed.bound:.2f}",
        )
    command = shlex.join(Path(word).name if "/" in word else word for word in sys.argv)
    trained = Path(options.run) / "config.yaml"
    text = trained.read_text().replace(f"{options.data}", Path(options.data or "").name) if trained.is_file() else ""
    (options.out / "config.yaml").write_text(f"# python {command}; config.yaml of the run\n{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--run", help="a trained model instead")
    parser.add_argument("--data", help="other data than the run's own")
    parser.add_argument("--merge", type=int, nargs="+", default=[0, 8, 13, 16])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32], help="with --run the last is the one that is kept")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each model at each batch")
    parser.add_argument("--lose", type=float, default=0.5, help="points of validation accuracy that may be lost")
    parser.add_argument("--seed", type=int, default=0, help="that the run has; read from its options if it has any")
    parser.add_argument("--threads", type=int, help="of torch; by default all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.run is None:
        rows = []
        for batch in options.batch:
            speeds = measure(vt.create_model(options.model), options.merge, batch, seconds=options.seconds)
            show(speeds)
            rows += [row._asdict() for row in speeds]
        if options.out is not None:
            write_rows(options.out, [{"model": options.model, **row} for row in rows])
        return
    if options.out is None:
        parser.error("--run needs --out FOLDER")
    stored = Path(options.run) / "config.yaml"
    options.seed = read_options(stored).seed if stored.is_file() else options.seed
    measure_tradeoff(options, vt.load(options.run))


if __name__ == "__main__":
    main()
