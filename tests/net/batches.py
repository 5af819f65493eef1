"""Are the batches of every task, bit for bit, those of another tree?    python tests/net/batches.py TREE [--only a,b]

Each tree makes the loaders of each case below as training does (`Task.loaders`): two seeds, two epochs, from the beginning and from the
middle, with 0 and 2 workers, alone and as each of two processes, and again after files have become unreadable. The sha256 of all tensors
of a pass, and what was noted as bad, must be equal. Digests depend on the machine (resizing, interpolation), so none are stored.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "batches"
SEEDS = (3, 11)
NANO = {"model": "vit_nano_patch4_32"}
MOVED = {"shift": 0.1, "rotate": 10.0, "zoom": 0.1, "flip": True}
TEXT = {"batch_tokens": 96, "max_length": 16, "vocabulary": 40}
SIZES = {"data": "sizes", "image_size": 16, "batch_size": 6, **NANO}
PHOTOS = {"task": "restore", "data": "photos", "patch_size": 8, "model": "unet_nano", "batch_size": 4}
BLOOD = {"task": "detect", "data": "blood", "num_queries": 5, "image_size": [16, 24], "batch_size": 4}
MASKS = {"task": "segment", "data": "marked", "head": "linear", "batch_size": 4, **NANO}
CAPTIONS = {"task": "caption", "data": "colors", "batch_size": 12, "max_length": 9}
BALLS = {"task": "segment3d", "data": "balls", "model": "convfree_micro", "crop": [16, 16, 16]}
SCANS = {"task": "mri", "model": "mri_unet_small", "image_size": 24, "batch_size": 2}
PAIRS = {"task": "translate", "data": "pairs", "source": "lo", "target": "up", **TEXT}
ARRAYS = {"data": "quadrants.npz", "batch_size": 10, **NANO}

CASES: dict[str, dict[str, Any]] = {
    "arrays": ARRAYS,
    "arrays_augmented": {**ARRAYS, **MOVED, "cutout": 0.3, "operations": 2, "erase": 0.5},
    "arrays_mixed": {**ARRAYS, "mixup": 0.4, "cutmix": 1.0, "repeats": 2},
    "arrays_balanced": {**ARRAYS, "data": "unequal.npz", "balance": "sampling", "repeats": 2},
    "files": {**SIZES, **MOVED, "repeats": 2},
    "files_mixed": {**SIZES, "mixup": 0.4, "cache": "off", "balance": "sampling"},
    "packed": {**SIZES, "pack": True, "flip": True},
    "packed_repeated": {**SIZES, "pack": True, "repeats": 2, "balance": "sampling", "cache": "off", **MOVED},
    "mae": {"task": "mae", "data": "sizes", "batch_size": 6, "image_size": 16, **NANO},
    "dvae": {"task": "dvae", "data": "stripes.npz", "codes": 8, "batch_size": 8},
    "igpt": {"task": "igpt", "data": "lines.npz", "batch_size": 8, "repeats": 2},
    "dino": {"task": "dino", "data": "sizes", "batch_size": 6, "image_size": 16, "views": 3, "flip": True, **NANO},
    "dino_arrays": {"task": "dino", "data": "quadrants.npz", "batch_size": 10, **NANO},
    "moco": {"task": "moco", "data": "sizes", "batch_size": 6, "image_size": 16, "cache": "off", **NANO},
    "restore": {**PHOTOS, "degrade": "sr2", "patches": 3, "flip": True},
    "restore_noise": {**PHOTOS, "degrade": "noise25", "patches": 2, "flip": False, "cache": "off"},
    "restore_jpeg": {**PHOTOS, "degrade": "jpeg40", "patches": 1},
    "detect": {**BLOOD, **MOVED, "color_jitter": 0.3, "min_crop": 0.5, "dihedral": True},
    "detect_plain": {**BLOOD, "recipe": "plain", "cache": "off"},
    "segment": {**MASKS, "rotate": 10.0, "zoom": 0.5, "color_jitter": 0.3, "flip": True},
    "segment_plain": {**MASKS, "recipe": "plain"},
    "caption": {**CAPTIONS, **MOVED},
    "caption_plain": {**CAPTIONS, "cache": "off"},
    "segment3d": {**BALLS, "batch_size": 2, "rotate": 15.0, "zoom": 0.2, "flip": True},
    "segment3d_plain": {**BALLS, "batch_size": 2, "recipe": "plain", "foreground": 0.0},
    "mri": {**SCANS, "data": "ball.nii.gz"},
    "mri_bands": {**SCANS, "data": "ball.nii.gz", "rows": 8, "mask": "equispaced"},
    "mri_measured": {**SCANS, "data": "scans.npz", "image_size": None, "rows": 8, "mask": "density"},
    "translate": {**PAIRS, "merge_dropout": 0.0},
    "translate_dropout": {**PAIRS, "merge_dropout": 0.3},
    "language": {"task": "language", "data": "verses.txt", **TEXT},
    "language_masked": {"task": "language", "data": "verses.txt", "masked": True, **TEXT},
}  # fmt: skip
# Files that become unreadable: which of a case's data folder.
BROKEN = {
    "sizes": "*[37].png",
    "photos": "*[37].png",
    "blood": "*1.png",
    "marked": "images/*5.png",
    "colors": "*[37].png",
    "balls": "images/case1*",
}


def record(folder: Path, only: list[str]) -> dict[str, Any]:
    """{case: {which pass: digest}} of the tree that is imported."""
    from vitrail.run.arguments import read_arguments
    from vitrail.tasks import registry

    found: dict[str, Any] = {}
    os.chdir(folder)
    chosen = [name for name in CASES if not only or name in only]
    # Workers first: MKL may hang in a process that is forked after another thread, such as the one that reads ahead, has used it.
    for workers, name, seed in ((w, n, s) for w in (2, 0) for n in chosen for s in SEEDS):
        words = CASES[name]
        task = words.get("task", "classify")
        given = {"bad_files": 1.0, "workers": workers, "device": "cpu", "epochs": 1, "task": task, "seed": seed, **words}
        names = {field.name for field in dataclasses.fields(registry.options_of(task))}
        options = read_arguments(
            registry.options_of(task), {key: value for key, value in given.items() if key in names}, what="train"
        )
        missing = words.keys() - names - {"task"}
        assert not missing, f"{name}: --task {task} has no {missing}"
        if workers and "workers" not in names:
            continue
        found.setdefault(f"{name} seed {seed}", {}).update(passes(options))
        print(name, seed, workers, file=sys.stderr, flush=True)
    return found


def passes(options: Any) -> Iterator[tuple[str, Any]]:
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.learn.training.world import World
    from vitrail.run.prepare import prepare
    from vitrail.tasks import registry

    setup, task = prepare(options.normalize(), ProgressBar(quiet=True), resumed=None), registry.find(options.task)
    worlds = {"alone": World(), "first": World(rank=0, size=2), "second": World(rank=1, size=2)}
    workers = getattr(options, "workers", 0)

    def walk(label: str, chosen: Iterable[str], epochs: Iterable[int], starts: Iterable[int]) -> Iterator[tuple[str, Any]]:
        for which in chosen:
            pair = task.loaders(setup, worlds[which])
            for split, loader in zip(("train", "val"), pair, strict=True):
                for epoch, start in ((e, s) for e in epochs for s in (starts if split == "train" else (0,))):
                    key = f"{label} {split} {which} workers {workers} epoch {epoch} from {start}"
                    yield key, [len(loader) if split == "train" else None, *digests(loader, epoch, start)]

    yield from walk("whole", worlds, (0, 1), (0, 3))
    pattern = BROKEN.get(options.data.rsplit("/", 1)[-1])
    if pattern is not None:
        kept = {
            path: path.read_bytes() for path in sorted(Path(options.data).rglob("*.*")) if fnmatch(str(path), f"*{pattern}")
        }
        assert kept
        for path in kept:
            path.write_bytes(b"no image")
        try:
            yield from walk("broken", ("alone", "second"), (0,), (0,))
            yield f"bad, workers {workers}", sorted(map(str, setup.bad.files.values()))
        finally:
            for path, content in kept.items():
                path.write_bytes(content)


def digests(loader: Any, epoch: int, start: int) -> Iterator[str]:
    from vitrail.errors import VitrailError

    try:
        for batch in loader.batches(epoch, start):
            found = hashlib.sha256()
            update(found, batch[0] if isinstance(batch[0], list) else batch)  # segment's whole images were a list
            yield found.hexdigest()[:16]
    except VitrailError as error:
        yield f"{type(error).__name__}: {error}".replace("pictures", "images")  # which is what they are called now


def update(found: Any, value: Any) -> None:
    """Tensors by type, shape and bytes; what holds them by what it holds: its class may have another name in the other tree."""
    import torch

    if isinstance(value, torch.Tensor):
        found.update(f"{value.dtype} {tuple(value.shape)}".encode())
        found.update(
            torch.view_as_real(value).numpy().tobytes() if value.is_complex() else value.contiguous().numpy().tobytes()
        )
    elif isinstance(value, list | tuple):
        for part in value:
            update(found, part)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            update(found, getattr(value, field.name))
    elif isinstance(value, str | int | float | type(None)):
        found.update(repr(value).encode())
    elif type(value).__name__ == "Ragged":
        update(found, (value.numbers, [tuple(shape) for shape in value.shapes]))
    else:
        raise TypeError(type(value))


def run(tree: Path, only: str) -> dict[str, Any]:
    """A tree's record, over data that are written anew at the same place."""
    sys.path.insert(0, str(Path(__file__).parent))
    import numpy as np
    import regress

    shutil.rmtree(BUILD / "data", ignore_errors=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    regress.write_data(BUILD / "data")
    drawn = np.random.default_rng(0).standard_normal((60, 2, 26, 28, 2)).astype(np.float32).view(np.complex64)
    np.savez(BUILD / "data" / "scans.npz", kspace=drawn[..., 0] * 10)
    out = BUILD / "record.json"
    subprocess.run(
        [sys.executable, __file__, str(tree), "--write", str(out), "--only", only],
        check=True, env={**regress.environment(tree), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path, help="the other checkout")
    parser.add_argument("--only", default="", help="cases, with commas between them")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write:
        found = record(BUILD / "data", [name for name in chosen.only.split(",") if name])
        chosen.write.write_text(json.dumps(found))
        return 0
    stored = BUILD / "before.json"
    before = json.loads(stored.read_text()) if stored.is_file() else {}
    wanted = [name for name in CASES if not chosen.only or name in chosen.only.split(",")]
    missing = [name for name in wanted if f"{name} seed {SEEDS[0]}" not in before]
    if missing:
        before |= run(chosen.tree.resolve(), ",".join(missing))
        stored.write_text(json.dumps(before))
    after, faults, compared = run(ROOT, ",".join(wanted)), 0, 0
    for case, passed in after.items():
        for name in sorted(passed.keys() | before[case].keys()):
            compared += 1
            if passed.get(name) != before[case].get(name):
                faults += 1
                print(f"{case}: {name}: {before[case].get(name)} -> {passed.get(name)}"[:400])
    print(f"{len(after)} cases, {compared} passes compared, {faults} differ")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
