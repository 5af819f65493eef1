"""How many planted copies `find_duplicates` finds, by kind of change, how much else it names, and how long it takes.

    python benchmarks/duplicates.py [--data FOLDER]... [--images 7000] [--planted 800]

Of each `--data` (by default the built-in shapes) as many images as there is room for are read; `--planted` of them are copied
with one change each. What is found beside the planted pairs is listed: real data has real copies, so look at them.
"""

import argparse
import io
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.duplicates import find_duplicates
from vitrail.data.opening import open_data
from vitrail.data.scanning import Look, concatenate, gather, scan

SIDE = 64
Change = Callable[[Image.Image, np.random.Generator], Image.Image]


def encode(image: Image.Image, kind: str, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=quality)
    return Image.open(buffer).convert(image.mode)


def crop(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    """60 to 95 % of each side, anywhere, saved as a JPEG."""
    width, height = (int(np.ceil(side * generator.uniform(0.6, 0.95))) for side in image.size)
    x, y = generator.integers(0, image.width - width + 1), generator.integers(0, image.height - height + 1)
    return encode(image.crop((x, y, x + width, y + height)), "JPEG", 90)


def rescale(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    scale = np.exp(generator.uniform(np.log(0.3), np.log(2)))
    return image.resize((max(2, round(image.width * scale)), max(2, round(image.height * scale))), Image.Resampling.BICUBIC)


def tone(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    brighter = ImageEnhance.Brightness(image).enhance(generator.uniform(0.8, 1.2))
    return ImageEnhance.Contrast(brighter).enhance(generator.uniform(0.8, 1.2))


CHANGES: dict[str, Change] = {
    "crop, 60-95 % of each side": crop,
    "rescale, 0.3-2 x": rescale,
    "JPEG, quality 20-95": lambda image, generator: encode(image, "JPEG", int(generator.integers(20, 96))),
    "WEBP, quality 20-95": lambda image, generator: encode(image, "WEBP", int(generator.integers(20, 96))),
    "brightness, contrast 0.8-1.2": tone,
    "mirror": lambda image, generator: encode(ImageOps.mirror(image), "JPEG", 90),
}


def sample(data: DataSet, count: int, generator: np.random.Generator) -> list[Split]:
    """`count` images of a dataset, from all its splits."""
    total = sum(map(len, data.splits.values()))
    share = min(1.0, count / total)
    parts = []
    for split in data.splits.values():
        parts.append(Part(split, np.sort(generator.permutation(len(split))[: round(share * len(split))])))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", help="a folder of images; may be given several times")
    parser.add_argument("--images", "--pictures", type=int, default=7000)
    parser.add_argument("--planted", type=int, default=800)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    generator, sources = np.random.default_rng(0), options.data or ["shapes"]
    splits, room = [], options.images - options.planted
    for place, source in enumerate(sources):
        found = sample(open_data(source, divide=False), room // (len(sources) - place), generator)
        splits += found
        room -= sum(map(len, found))

    begin = time.perf_counter()
    whole = concatenate([scan(split, workers=options.workers, thumbnails=SIDE) for split in splits])
    scan_seconds = time.perf_counter() - begin
    where = [(split, index) for split in splits for index in range(len(split))]
    planted: dict[tuple[int, int], str] = {}
    looks = []
    for number, index in enumerate(generator.permutation(len(where))[: options.planted].tolist()):
        kind = list(CHANGES)[number % len(CHANGES)]
        split, place = where[index]
        image = CHANGES[kind](split.read(place), generator)
        small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=3.0)
        red, green, blue = np.asarray(small.convert("RGB")).mean((0, 1)).round().astype(int).tolist()
        digest = len(planted).to_bytes(32, "big")
        looks.append(Look(digest=digest, size=small.size, thumbnail=np.asarray(small.convert("L")), color=(red, green, blue)))
        planted[index, len(where) + number] = kind
    begin = time.perf_counter()
    pairs = find_duplicates(concatenate([whole, gather(looks, side=SIDE)]))
    seconds = time.perf_counter() - begin

    hits = Counter(planted[pair.first, pair.second] for pair in pairs if (pair.first, pair.second) in planted)
    totals = Counter(planted.values())
    print(f"{len(where) + len(looks):,} images: scan {scan_seconds:.1f} s, duplicates {seconds:.1f} s")
    print(f"{'change':<30} {'planted':>8} {'found':>6} {'recall':>8}")
    for kind, total in totals.items():
        print(f"{kind:<30} {total:>8} {hits[kind]:>6} {100 * hits[kind] / total:>7.1f} %")
    others = [pair for pair in pairs if (pair.first, pair.second) not in planted]
    print(f"{'all':<30} {totals.total():>8} {hits.total():>6} {100 * hits.total() / max(1, totals.total()):>7.1f} %")
    inside = [pair for pair in others if pair.second < len(where)]
    print(f"precision, if every other pair were wrong: {100 * hits.total() / max(1, len(pairs)):.1f} %")
    print(f"{len(inside)} other pairs in the data itself, {len(others) - len(inside)} with a planted copy")
    for pair in inside[:40]:
        (one, first), (other, second) = where[pair.first], where[pair.second]
        print(f"  {pair.kind:<6} {pair.similarity:.4f}  {one.name(first)}  {other.name(second)}")


if __name__ == "__main__":
    main()
