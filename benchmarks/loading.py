"""Is loading the bottleneck? The time of a training step with the loader against the same step on a batch that lies ready.

    python benchmarks/loading.py                     2000x1500 photographs, made from the built-in shapes
    python benchmarks/loading.py --data FOLDER       your own images

ViT-S/16 at 160 px, batch 32, two workers. The two are interleaved round by round and the best of each is compared: 1.00 means that
loading costs nothing. `first epoch` decodes every image; `later epochs` find them in the cache (`--cache auto`, the default of
`vitrail train`). What reading costs is also given by itself: milliseconds per image and core.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from vitrail import create_model, open_data
from vitrail.data.augmentation import Augmentation
from vitrail.data.cache import Cache
from vitrail.data.dataset import FileSplit, Split
from vitrail.data.image_source import Batch, image_loader
from vitrail.data.shapes import draw_scene
from vitrail.data.transforms import read_fitted
from vitrail.run.plan import forever
from vitrail.tasks.classify.objective import Classify

SIZE, BATCH, WORKERS = 160, 32, 2


def make_photographs(folder: Path, count: int) -> Split:
    """2000x1500 JPEGs at quality 90: scenes of shapes, enlarged, with the fine grain that makes photographs slow to decode."""
    rng = np.random.default_rng(0)
    paths = []
    for index in range(count):
        scene = draw_scene(index, size=(750, 1000), shapes=3)
        large = np.asarray(Image.fromarray(scene.image).resize((2000, 1500), Image.Resampling.BICUBIC), dtype=np.int16)
        grain = rng.normal(0, 6, large.shape[:2])[..., None].astype(np.int16)
        paths.append(folder / f"{index:04}.jpg")
        Image.fromarray((large + grain).clip(0, 255).astype(np.uint8)).save(paths[-1], quality=90)
    return FileSplit(paths, np.arange(count) % 10)


def compare(split: Split, *, steps: int, rounds: int, cached: bool) -> float:
    """Best time a step on a ready batch / best time a step with the loader."""
    torch.manual_seed(0)
    model = create_model("vit_small_patch16_224", num_classes=int(split.labels.max()) + 1, image_size=SIZE)
    task = Classify(model, smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    shape = (SIZE, SIZE, 3)
    cache = Cache(len(split), shape, kind="memory", budget=2**33) if cached else None
    how = Augmentation(flip=True, shift=0.1, rotate=5.0, zoom=0.1)
    loader = image_loader(split, model.preprocessing, batch=BATCH, shuffle=True, how=how, workers=WORKERS, cache=cache)
    if cached:
        for _ in loader.batches(0):
            pass

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        task.loss(batch).backward()
        optimizer.step()

    def timed(batches: Iterator[Batch]) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step(next(batches))
        return (time.perf_counter() - start) / steps

    batches = forever(loader)
    ready = next(batches)
    step(ready)
    alone, loaded = [], []
    for _ in range(rounds):
        alone.append(timed(iter([ready] * steps)))
        step(next(batches))  # the queue is full by now: from here on, each batch taken is one that the workers must make
        loaded.append(timed(batches))
    print("   ", *(f"{1000 * a:.0f}/{1000 * b:.0f}" for a, b in zip(alone, loaded, strict=True)))
    print(f"    {1000 * min(alone):7.0f} ms a step on a ready batch, {1000 * min(loaded):7.0f} ms with the loader", flush=True)
    return min(alone) / min(loaded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder of images, or anything that --data of train takes")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        split = make_photographs(Path(folder), 256) if options.data is None else open_data(options.data)["train"]
        model = create_model("vit_small_patch16_224", num_classes=0, image_size=SIZE)
        some = range(0, len(split), max(1, len(split) // 64))
        start = time.process_time()
        for index in some:
            read_fitted(split, index, model.preprocessing)
        print(f"reading: {1000 * (time.process_time() - start) / len(some):.2f} ms per image and core")
        for name, cached in (("first epoch", False), ("later epochs", True)):
            ratio = compare(split, steps=options.steps, rounds=options.rounds, cached=cached)
            print(f"{name}: {ratio:.3f} of the speed on a ready batch")


if __name__ == "__main__":
    main()
