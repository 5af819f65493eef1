"""How fast do batches come, beside another checkout?    python benchmarks/input_path.py TREE [--rounds 7]

The training loader of each case is made as `vitrail train` makes it (`Task.loaders`), without workers, and passes over it are timed with
nothing else to do: what reading, augmenting and joining samples costs, in time of the processor, so that others on the machine disturb
less. One process for each tree, which take turns; the best round of each counts. A ratio above 1: this tree is faster.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
NANO = {"model": "vit_nano_patch4_32"}
SOME = {"image_size": 32, "batch_size": 16}
CASES: dict[str, dict[str, Any]] = {
    "digits, plain": {"data": "digits", "recipe": "plain", "model": "vit_nano_conv", "batch_size": 64},
    "digits, defaults": {"data": "digits", "model": "vit_nano_conv", "batch_size": 64},
    "arrays of 32x32x3, defaults": {"data": "arrays.npz", "batch_size": 128},
    "arrays, mixup, repeats": {"data": "arrays.npz", "batch_size": 128, "mixup": 0.2, "repeats": 2},
    "files in the cache": {"data": "files", "image_size": 32, "batch_size": 64, **NANO},
    "packed": {"data": "files", "image_size": 32, "batch_size": 16, "pack": True, **NANO},
    "dino": {"task": "dino", "data": "digits", "batch_size": 64, **NANO},
    "detect": {"task": "detect", "data": "boxes/boxes.json", "num_queries": 5, **SOME},
    "restore": {
        "task": "restore",
        "data": "files",
        "degrade": "sr2",
        "model": "unet_nano",
        "patch_size": 16,
        "patches": 4,
        "batch_size": 16,
    },
    "segment": {"task": "segment", "data": "marked", "head": "linear", **SOME, **NANO},
    "caption": {"task": "caption", "data": "captioned", **SOME},
    "segment3d": {"task": "segment3d", "data": "volumes", "model": "convfree_micro", "crop": [16, 16, 16], "batch_size": 2},
    "mri": {"task": "mri", "data": "scan.npz", "model": "mri_unet_small", "batch_size": 2},
    "translate": {"task": "translate", "data": "reverse", "batch_tokens": 1024},
    "translate, merge dropout": {"task": "translate", "data": "reverse", "batch_tokens": 1024, "merge_dropout": 0.1},
    "language": {"task": "language", "data": "lines.txt", "batch_tokens": 1024},
}


def write_data(folder: Path) -> None:
    """Noise, of which every task has what it needs."""
    import json

    import nibabel
    from PIL import Image

    rng = np.random.default_rng(0)
    arrays = rng.integers(0, 256, (2000, 32, 32, 3), dtype=np.uint8)
    np.savez(folder / "arrays.npz", x_train=arrays, y_train=np.arange(2000) % 10, x_test=arrays[:50], y_test=np.arange(50) % 10)
    for name in (
        "files/a",
        "files/b",
        "marked/images",
        "marked/masks",
        "captioned",
        "boxes",
        "volumes/images",
        "volumes/labels",
    ):
        (folder / name).mkdir(parents=True)
    captions, images, annotations = {}, [], []
    for number in range(200):
        height, width = (int(side) for side in rng.integers(40, 80, 2))
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        for place in (f"files/{'ab'[number % 2]}", "captioned", "boxes"):
            image.save(folder / place / f"{number:03}.png")
        captions[f"{number:03}.png"] = ["noise of many colors", "many colors"]
        images.append({"id": number, "file_name": f"{number:03}.png", "width": width, "height": height})
        annotations.append({"id": number, "image_id": number, "category_id": 1, "bbox": [5, 7, 20, 15]})
        if number < 60:
            image.save(folder / "marked" / "images" / f"{number:03}.png")
            Image.fromarray(rng.integers(0, 3, (height, width), dtype=np.uint8)).save(
                folder / "marked" / "masks" / f"{number:03}.png"
            )
    (folder / "captioned" / "captions.json").write_text(json.dumps(captions))
    record = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]}
    (folder / "boxes" / "boxes.json").write_text(json.dumps(record))
    (folder / "lines.txt").write_text("".join(f"{' '.join(map(str, rng.integers(0, 99, 12)))}\n" for _ in range(2000)))
    for number in range(4):
        for kind, values in (
            ("images", rng.normal(0, 50, (40, 40, 30)).astype(np.int16)),
            ("labels", rng.integers(0, 2, (40, 40, 30), dtype=np.uint8)),
        ):
            nibabel.save(nibabel.Nifti1Image(values, np.eye(4)), folder / "volumes" / kind / f"{number}.nii.gz")
    np.savez(folder / "scan.npz", kspace=rng.standard_normal((60, 2, 32, 32, 2)).astype(np.float32).view(np.complex64)[..., 0])


def make_loader(words: dict[str, Any]) -> Any:
    from dataclasses import fields

    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.learn.training.world import World
    from vitrail.run.arguments import read_arguments
    from vitrail.run.prepare import prepare
    from vitrail.tasks import registry

    kind = registry.options_of(words.get("task", "classify"))
    known = {field.name for field in fields(kind)}
    given = {"workers": 0, "device": "cpu", "epochs": 1, "task": "classify", **words}
    options = read_arguments(kind, {name: value for name, value in given.items() if name in known}, what="train")
    setup = prepare(options.normalize(), ProgressBar(quiet=True), resumed=None)
    return registry.find(options.task).loaders(setup, World())[0]


def answer() -> None:
    """Whoever writes the name of a case gets the milliseconds of the processor for each batch."""
    import torch

    torch.set_num_threads(1)
    loaders: dict[str, Any] = {}
    for line in sys.stdin:
        name = line.strip()
        loader = loaders.setdefault(name, None) or make_loader(CASES[name])
        if loaders[name] is None:
            loaders[name] = loader
            list(loader.batches(0))
        begin, count, epoch = time.process_time(), 0, 0
        while count < 20 or time.process_time() - begin < 0.5:
            epoch += 1
            count += sum(1 for _ in loader.batches(epoch))
        print(1000 * (time.process_time() - begin) / count, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path, nargs="?", help="the other checkout")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    chosen = parser.parse_args()
    if chosen.tree is None:
        answer()
        return
    import os

    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        both = [
            subprocess.Popen(
                [sys.executable, __file__], cwd=folder, env={**os.environ, "PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for tree in (chosen.tree, ROOT)
        ]  # fmt: skip
        print("| loader | CPU ms per batch, other tree | this tree | ratio |\n|---|---|---|---|")
        for name in CASES:
            if chosen.only not in name:
                continue
            times: list[list[float]] = [[], []]
            for number in range(2 * chosen.rounds):
                which = number % 2 if number % 4 < 2 else 1 - number % 2  # each first as often as second
                process = both[which]
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{name}\n")
                process.stdin.flush()
                times[which].append(float(process.stdout.readline()))
            before, after = (min(found) for found in times)
            print(f"| {name} | {before:.3f} | {after:.3f} | {before / after:.2f} |", flush=True)
        for process in both:
            process.communicate()


if __name__ == "__main__":
    main()
