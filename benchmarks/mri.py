"""Accelerated MRI: a ViT, SwinMR and a U-Net of equal size, from scratch and pretrained on natural images, by number of slices.

    python benchmarks/mri.py --volume t1.nii.gz --images PHOTOGRAPHS --real scan.npz --minutes 3 --out FOLDER

The question of [Lin and Heckel 2022, tables 1 and 2]. Every run is `vitrail train --task mri`, as a user types it: k-space of several coils,
simulated from the slices of --volume, accelerated by --acceleration; each run has --minutes, pretraining --pretraining, whatever the model.
Tested on slices of the volume that are held out, with their neighbors, and on --real, a scan of which nothing was learned from: the
distribution shift. Beside them the zero-filled images, SENSE by conjugate gradients and an untrained model, which learn nothing, and
equivariant imaging, which learns from accelerated scans alone.

--out gets results.csv (one row per run and test set) and the PSNR of every slice, as benchmarks/recompute.py reads them, cost.csv, mri.png and
slices.png. What is there already is not run again; a run that was interrupted goes on.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from records import append, read_rows, write_rows

MODELS = {"mri_vit_small": "ViT", "mri_swin_small": "SwinMR", "mri_unet_small": "U-Net"}
STARTS = {"scratch": "from scratch", "pictures": "pretrained on images"}
SENSE_STEPS = 5


class Row(NamedTuple):
    """One training of the table."""

    model: str
    start: str  # of STARTS, or "equivariant": from scratch, without truth
    slices: str  # a number, or all

    @property
    def name(self) -> str:
        return f"{self.model}-{self.start}-{self.slices}"


def vitrail(*words: Any) -> None:
    subprocess.run([sys.executable, "-m", "vitrail", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def shared(options: argparse.Namespace, minutes: float) -> list[Any]:
    return [
        "--task", "mri", "--acceleration", options.acceleration, "--mask", options.mask, "--image-size", options.size,
        "--minutes", minutes, "--seed", options.seed, "--resume",
        "--consistency", options.consistency,
    ]  # fmt: skip


def bands(options: argparse.Namespace) -> list[Any]:
    return [] if options.rows is None else ["--rows", options.rows]


def pretrain(model: str, options: argparse.Namespace) -> Path:
    folder = options.out / "runs" / f"{model}-pictures"
    if not (folder / "metrics.json").is_file():
        vitrail(
            "train",
            "--data",
            options.images,
            "--model",
            model,
            "--out",
            folder,
            *bands(options),
            *shared(options, options.pretraining),
        )
    return folder


def learn(row: Row, options: argparse.Namespace) -> Path:
    """One training as a user types it, and its scores on both test sets."""
    folder = options.out / "runs" / row.name
    start = ["--weights", pretrain(row.model, options)] if row.start == "pictures" else ["--model", row.model]
    words = [*start, *([] if row.slices == "all" else ["--slices", row.slices])]
    words += ["--objective", "equivariant"] if row.start == "equivariant" else bands(options)
    words += ["--scalp"] if options.scalp else []
    if not (folder / "metrics.json").is_file():
        vitrail("train", "--data", options.volume, "--out", folder, *words, *shared(options, options.minutes))
    if not (folder / "real" / "predictions.csv").is_file():
        vitrail("eval", folder, "--data", options.real, "--out", folder / "real")
    return folder


def keep(options: argparse.Namespace, name: str, data: str, scores: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """The scores of every slice and a row of the table, unless it is there."""
    if f"{name} {data}" in {row["model"] for row in read_rows(options.out / "results.csv")}:
        return
    target = f"predictions-{name}-{data}.csv"
    write_rows(options.out / target, scores)
    mean = {column: statistics.fmean(float(row[column]) for row in scores) for column in scores[0] if column != "slice"}
    row = {
        "model": f"{name} {data}",
        "test_psnr": f"{mean['psnr']:.2f}",
        "ssim": f"{mean['ssim']:.4f}",
        "psnr_zero_filled": f"{mean['psnr_zero_filled']:.2f}",
        "ssim_zero_filled": f"{mean['ssim_zero_filled']:.4f}",
        "parameters": "",
        "epochs": "",
        "seconds": "",
        **facts,
        "predictions": target,
    }
    append(options.out / "results.csv", row)
    print("  ".join(f"{key} {value}" for key, value in row.items() if value != ""), flush=True)


def keep_run(row: Row, folder: Path, options: argparse.Namespace) -> None:
    import vitrail as vt
    from vitrail.models.catalogue import count_parameters

    epochs = read_rows(folder / "results.csv")
    facts = {"parameters": count_parameters(vt.load(folder)), "epochs": len(epochs), "seconds": epochs[-1]["seconds"]}
    for data, path in (("simulated", folder), ("real", folder / "real")):
        scores = [{k: v for k, v in one.items() if k != "loss"} for one in read_rows(path / "predictions.csv")]
        keep(options, row.name, data, scores, **facts)


def test_sets(options: argparse.Namespace) -> dict[str, Any]:
    from vitrail.data.mri.opening import open_scans

    size = (options.size, options.size)
    return {
        "simulated": open_scans(str(options.volume), seed=options.seed, image_size=size, scalp=options.scalp).splits["test"],
        "real": open_scans(str(options.real), divide=False).splits["train"],
    }


def batches_of(slices: Any, options: argparse.Namespace) -> Any:
    """As `vitrail eval` has them: the same masks."""
    from vitrail.data.mri.masks import Sampling
    from vitrail.tasks.mri.data import scored_loader

    return scored_loader(slices, Sampling(kind=options.mask, acceleration=options.acceleration)).batches()


def score_untaught(options: argparse.Namespace) -> None:
    """What learns nothing, by the same masks and maps: SENSE, and a model as it is before it learns, which is what --consistency does alone."""
    import vitrail as vt
    from vitrail.nn.functional.fourier import solve_sense

    new = vt.create_model("mri_vit_small", consistency=options.consistency).eval()
    keep_untaught(options, "sense", lambda batch: solve_sense(batch.kspace, batch.mask, batch.maps, steps=SENSE_STEPS))
    keep_untaught(options, "untrained", lambda batch: new(batch.kspace, batch.mask, batch.maps))


def keep_untaught(options: argparse.Namespace, name: str, reconstruct: Callable[[Any], Any]) -> None:
    import torch

    from vitrail.nn.functional.fourier import sense_adjoint
    from vitrail.tasks.mri.objective import score

    for data, slices in test_sets(options).items():
        scores = []
        for batch in batches_of(slices, options):
            with torch.inference_mode():
                found, zero = reconstruct(batch), sense_adjoint(batch.kspace, batch.maps, batch.mask)
            for n, index in enumerate(batch.indices.tolist()):
                after, before, truth = (x[n].abs().numpy() for x in (found, zero, batch.target))
                psnr, ssim = score(after, truth)
                psnr_zero, ssim_zero = score(before, truth)
                scores.append({
                    "slice": slices[index].name, "psnr": f"{psnr:.6f}", "ssim": f"{ssim:.6f}",
                    "psnr_zero_filled": f"{psnr_zero:.6f}", "ssim_zero_filled": f"{ssim_zero:.6f}",
                })  # fmt: skip
        keep(options, name, data, scores)


def measure(model: str, size: int, *, seconds: float, coils: int = 8, batch: int = 4) -> dict[str, Any]:
    """Slices a second, reconstructed one by one and learned from in batches, and the memory that learning takes at its peak."""
    import torch

    import vitrail as vt
    from vitrail.models.catalogue import count_parameters

    net = vt.create_model(model)
    kspace, maps = (torch.randn(batch, coils, size, size, dtype=torch.complex64) for _ in range(2))
    mask = (torch.arange(size) % 4 == 0).expand(batch, 1, -1)
    net.eval()
    with torch.inference_mode():
        reading = rate(lambda: net(kspace[:1], mask[:1], maps[:1]), seconds)
    before = peak_memory()
    net.train()
    learning = batch * rate(lambda: net(kspace, mask, maps).abs().mean().backward(), seconds)
    peak = peak_memory()
    return {
        "model": model,
        "parameters": count_parameters(net),
        "slices_a_second": f"{reading:.2f}",
        "learned_a_second": f"{learning:.2f}",
        "peak_mb": peak,
        "learning_mb": peak - before,
        "threads": torch.get_num_threads(),
    }


def peak_memory() -> int:
    """Of this process since it began, in MB. Not getrusage's, which begins at its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def rate(call: Any, seconds: float) -> float:
    """Calls a second, after one that warms up."""
    call()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        call()
        count += 1
    return count / (time.perf_counter() - begin)


def measure_all(options: argparse.Namespace) -> None:
    """Each in a process of its own, so that its memory is its own."""
    done = {row["model"] for row in read_rows(options.out / "cost.csv")}
    for model in options.models:
        if model not in done:
            words = [
                sys.executable,
                __file__,
                "--measure",
                model,
                "--size",
                str(options.size),
                "--seconds",
                str(options.seconds),
            ]
            found = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
            append(options.out / "cost.csv", json.loads(found))


def print_table(options: argparse.Namespace) -> None:
    rows = {row["model"]: row for row in read_rows(options.out / "results.csv")}
    print(f"\n{'':<52}{'held-out simulated':>20}{'real slice':>20}")
    for name in dict.fromkeys(model.rsplit(" ", 1)[0] for model in rows):
        both = [rows.get(f"{name} {data}") for data in ("simulated", "real")]
        words = "".join(f"{one['test_psnr'] + ' dB ' + one['ssim']:>20}" if one else f"{'':>20}" for one in both)
        print(f"{name:<52}{words}")
    both = [rows[f"sense {data}"] for data in ("simulated", "real")]
    words = "".join(f"{one['psnr_zero_filled'] + ' dB ' + one['ssim_zero_filled']:>20}" for one in both)
    print(f"{'zero-filled':<52}{words}\n")
    for row in read_rows(options.out / "cost.csv"):
        print("  ".join(f"{key} {value}" for key, value in row.items()))


def draw(options: argparse.Namespace) -> None:
    """PSNR by the number of slices: a color a model, dashed if pretrained; what learns nothing as lines across."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = {row["model"]: row for row in read_rows(options.out / "results.csv")}
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for axes, data, title in zip(panels, ("simulated", "real"), ("Held-out simulated slices", "The real slice"), strict=True):
        for color, model in zip(("#cc671d", "#3a74bd", "#4d8a3d"), options.models, strict=False):
            for start, words in STARTS.items():
                found = [
                    (place, float(rows[name]["test_psnr"]))
                    for place, amount in enumerate(options.amounts)
                    if (name := f"{Row(model, start, amount).name} {data}") in rows
                ]
                if found:
                    label, style = f"{MODELS.get(model, model)}, {words}", "-" if start == "scratch" else "--"
                    axes.plot(*zip(*found, strict=True), style, marker="o", color=color, label=label)
            if (name := f"{model}-equivariant-all {data}") in rows:
                place, value = len(options.amounts) - 1, float(rows[name]["test_psnr"])
                axes.plot(place, value, "*", markersize=11, color=color, label=f"{MODELS.get(model, model)}, without truth")
        for words, column, style in (("SENSE", "test_psnr", "-."), ("zero-filled", "psnr_zero_filled", ":")):
            axes.axhline(float(rows[f"sense {data}"][column]), color="#66707d", linestyle=style, label=words)
        axes.set_xticks(range(len(options.amounts)), options.amounts)
        axes.set_xlabel("slices to learn from")
        axes.set_title(f"{title}, {options.acceleration:g}x", fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("PSNR, dB")
    panels[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    figure.savefig(options.out / "mri.png", dpi=130)


def draw_slices(options: argparse.Namespace) -> None:
    """One slice of each test set as every model that learned from all slices alone has it, and its errors below."""
    import matplotlib
    import torch

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    import vitrail as vt
    from vitrail.nn.functional.fourier import sense_adjoint, solve_sense
    from vitrail.tasks.mri.objective import score

    runs = {row.name: row for row in rows_of(options) if row.slices == options.amounts[-1] and row.start != "pictures"}
    for data, slices in test_sets(options).items():
        one = len(slices) // 2
        batch = next(batch for batch in batches_of([slices[one]], options))
        images = {
            "zero-filled": sense_adjoint(batch.kspace, batch.maps, batch.mask),
            "SENSE": solve_sense(batch.kspace, batch.mask, batch.maps, steps=SENSE_STEPS),
        }
        for name, row in runs.items():
            with torch.inference_mode():
                found = vt.load(options.out / "runs" / name)(*batch[:3])
            images[MODELS.get(row.model, row.model) + (", without truth" if row.start == "equivariant" else "")] = found
        truth = batch.target[0].abs().numpy()
        figure, axes = plt.subplots(2, len(images) + 1, figsize=(2.1 * (len(images) + 1), 4.6), layout="constrained")
        for place, (title, image) in enumerate({**images, "all lines": batch.target}.items()):
            shown = image[0].abs().numpy()
            words = "" if title == "all lines" else f"\n{score(shown, truth)[0]:.2f} dB"
            axes[0, place].set_title(title + words, fontsize=8)
            axes[0, place].imshow(shown, cmap="gray", vmin=0, vmax=0.9 * truth.max())
            axes[1, place].imshow(abs(shown - truth), cmap="inferno", vmin=0, vmax=0.2 * truth.max())
        for each in axes.flat:
            each.set_axis_off()
        figure.savefig(options.out / f"slices-{data}.png", dpi=110)


def rows_of(options: argparse.Namespace) -> list[Row]:
    """The whole table; amounts are the innermost, so that a model's first rows tell something early."""
    rows = [Row(model, start, amount) for start in options.starts for model in options.models for amount in options.amounts]
    return [*rows, *(Row(model, "equivariant", "all") for model in options.equivariant)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volume", type=Path, help="a NIfTI file, whose slices are learned from and held out")
    parser.add_argument("--images", "--pictures", type=Path, help="a folder of photographs to pretrain on")
    parser.add_argument("--real", type=Path, help="k-space that was measured, for testing only")
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--amounts", nargs="+", default=["8", "32", "all"], help="slices to learn from")
    parser.add_argument("--equivariant", nargs="*", default=["mri_vit_small"], help="models that also learn without truth")
    parser.add_argument("--acceleration", type=float, default=4.0)
    parser.add_argument("--mask", choices=("random", "equispaced", "density"), default="random")
    parser.add_argument("--consistency", choices=("none", "hard", "sense"), default="sense", help="about the measured lines")
    parser.add_argument("--rows", type=int, help="learn from bands of so many rows; by default from whole slices")
    parser.add_argument("--scalp", action="store_true", help="simulate skull and scalp around a brain that comes without")
    parser.add_argument("--size", type=int, default=224, help="pixels a side of simulated slices")
    parser.add_argument("--minutes", type=float, default=3.0, help="of each training")
    parser.add_argument("--pretraining", type=float, default=6.0, help="minutes on images, once for each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep results here, and go on from what is there")
    parser.add_argument("--seconds", type=float, default=8.0, help="to measure each model's speed for")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.size, seconds=options.seconds)))
        return
    for name in ("volume", "real", "out"):
        if getattr(options, name) is None:
            parser.error(f"--{name} is needed")
    if "pictures" in options.starts and options.images is None:
        parser.error("--images is needed, or --starts scratch")
    options.out.mkdir(parents=True, exist_ok=True)
    done = {row["model"] for row in read_rows(options.out / "results.csv")}
    if "untrained real" not in done:
        score_untaught(options)
    measure_all(options)
    for row in rows_of(options):
        if f"{row.name} real" not in done:
            keep_run(row, learn(row, options), options)
    draw(options)
    draw_slices(options)
    print_table(options)


if __name__ == "__main__":
    main()
