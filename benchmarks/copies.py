"""Are copies of an image kept on one side of a split? Copies are planted, looked for once, and the set is divided by 100 seeds.

    python benchmarks/copies.py --data pets=FOLDER --data imagenette128=FOLDER --alone digits=digits --alone fashion=FILE

For each `--data`, in three rounds, 100 images of each kind of change get a changed copy; all splits are one set, which is divided as
`vitrail train` would do. For each `--data` and each `--alone`, what is grouped without planting; pairs-NAME.csv has the pairs, and
`--sheet FOLDER` gets an image of each. Rows that are there already are not measured again.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from duplicates import SIDE, encode
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from records import append, read_rows, write_rows

from vitrail.data.copies import SMALL
from vitrail.data.dataset import ArraySplit, Copies, DataSet, Joined, Place, Split
from vitrail.data.duplicates import Pair, Thoroughness, find_duplicates, group, thoroughness
from vitrail.data.opening import divide_data, find_data
from vitrail.data.scanning import Look, Scan, concatenate, gather, scan

ROUNDS, EACH, SEEDS = 3, 100, 100
Change = Callable[[Image.Image, np.random.Generator], Image.Image]


def resize(image: Image.Image, scale: float) -> Image.Image:
    size = (max(2, round(image.width * scale)), max(2, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


def crop(image: Image.Image, generator: np.random.Generator) -> Image.Image:
    """90 % of each side, anywhere."""
    width, height = round(0.9 * image.width), round(0.9 * image.height)
    x, y = generator.integers(0, image.width - width + 1), generator.integers(0, image.height - height + 1)
    return image.crop((x, y, x + width, y + height))


CHANGES: dict[str, Change] = {
    "exact": lambda image, generator: image,
    "JPEG, quality 50": lambda image, generator: encode(image, "JPEG", 50),
    "resized by 0.5": lambda image, generator: encode(resize(image, 0.5), "JPEG", 90),
    "resized by 2": lambda image, generator: encode(resize(image, 2.0), "JPEG", 90),
    "cropped by 10 %": lambda image, generator: encode(crop(image, generator), "JPEG", 90),
    "mirrored": lambda image, generator: encode(ImageOps.mirror(image), "JPEG", 90),
    "20 % brighter": lambda image, generator: encode(ImageEnhance.Brightness(image).enhance(1.2), "JPEG", 90),
    "20 % darker": lambda image, generator: encode(ImageEnhance.Brightness(image).enhance(0.8), "JPEG", 90),
}


def look_at(image: Image.Image, digest: bytes) -> Look:
    """As `vitrail.data.scanning.look` does with a file."""
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=3.0)
    red, green, blue = np.asarray(small.convert("RGB")).mean((0, 1)).round().astype(int).tolist()
    return Look(digest=digest, size=small.size, thumbnail=np.asarray(small.convert("L")), color=(red, green, blue))


def search(whole: Scan, how: Thoroughness) -> tuple[list[Pair], float]:
    """The pairs, and seconds of processor time."""
    begin = time.process_time()
    pairs = find_duplicates(whole, how=how)
    return pairs, time.process_time() - begin


def plant(split: Split, whole: Scan, number: int) -> tuple[Scan, dict[int, tuple[int, str]]]:
    """The set with changed copies behind it; of each copy, which image it is of and how it was changed."""
    generator = np.random.default_rng(number)
    looks, planted = list[Look](), dict[int, tuple[int, str]]()
    for place, index in enumerate(generator.permutation(whole.good)[: EACH * len(CHANGES)].tolist()):
        kind = list(CHANGES)[place % len(CHANGES)]
        changed = CHANGES[kind](split.read(index), generator)
        digest = whole.digests[index].tobytes() if kind == "exact" else (place + 1).to_bytes(32, "big")
        planted[len(whole) + place] = (index, kind)
        looks.append(look_at(changed, digest))
    return concatenate([whole, gather(looks, side=SIDE)]), planted


def divide(labels: np.ndarray, pairs: list[Pair], seed: int) -> np.ndarray:
    """The part of each image, 0 to 2, of a folder without splits."""
    groups = tuple(tuple(Place("train", str(index)) for index in members) for members in group(pairs))
    split = ArraySplit(np.zeros((len(labels), 1, 1), np.uint8), labels)
    names = tuple(map(str, range(int(labels.max()) + 1)))
    data = divide_data(DataSet(name="set", classes=names, splits={"train": split}, copies=Copies(groups=groups)), seed=seed)
    found = np.empty(len(labels), dtype=np.int64)
    for part, name in enumerate(data.splits):
        found[[int(data.splits[name].name(index)) for index in range(len(data.splits[name]))]] = part
    return found


def measure(name: str, split: Split, whole: Scan, folder: Path) -> None:
    """The rounds of one dataset: a file for each change, a line per copy."""
    files = {
        kind: folder / f"planted-{name}-{kind.replace(', ', '-').replace(' ', '-').replace('-%', '')}.csv" for kind in CHANGES
    }
    for number in range(ROUNDS):
        if str(number) in {row["round"] for row in read_rows(list(files.values())[-1])}:
            continue
        changed, planted = plant(split, whole, number)
        labels = np.concatenate([split.labels, split.labels[[index for index, _ in planted.values()]]])
        pairs, _ = search(changed, thoroughness(len(changed)))
        member = {index: place for place, members in enumerate(group(pairs)) for index in members}
        together, share, farthest = dict.fromkeys(planted, 0), np.bincount(labels) / len(labels), 0.0
        for seed in range(SEEDS):
            part = divide(labels, pairs, seed)
            for copy, (index, _) in planted.items():
                together[copy] += int(part[copy] == part[index])
            for side in range(3):
                of_part = np.bincount(labels[part == side], minlength=len(share)) / (part == side).sum()
                farthest = max(farthest, float(np.abs(of_part - share).max()))
        for copy, (index, kind) in planted.items():
            row = {
                "round": number, "copy_of": index, "found": int(member.get(copy, -1) == member.get(index, -2)),
                "together": together[copy], "class_shares_off_by": f"{100 * farthest:.2f}",
            }  # fmt: skip
            append(files[kind], row)
        print(f"{name}: round {number + 1} of {ROUNDS}, {len(pairs)} pairs", flush=True)
    if any(row["model"].startswith(f"{name}, ") for row in read_rows(folder / "results.csv")):
        return
    for kind, path in files.items():
        rows = read_rows(path)
        row = {
            "model": f"{name}, {kind}", "planted": len(rows), "found": sum(int(row["found"]) for row in rows),
            "kept_together": f"{100 * sum(int(row['together']) for row in rows) / (SEEDS * len(rows)):.2f}",
            "class_shares_off_by": max(row["class_shares_off_by"] for row in rows), "predictions": path.name,
        }  # fmt: skip
        append(folder / "results.csv", row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)


def measure_alone(name: str, split: Split, whole: Scan, folder: Path, sheet: Path | None) -> None:
    """What is grouped without planting: as in training, where only exact copies of small images are, and by what is looked for in large
    ones."""
    small = float(np.median(whole.sizes[whole.good].min(axis=1))) < SMALL
    for how in dict.fromkeys(("exact" if small else thoroughness(len(whole)), thoroughness(len(whole)))):
        if not any((row["data"], row["searched"]) == (name, how) for row in read_rows(folder / "alone.csv")):
            group_alone(name, split, whole, how, folder, sheet)


def group_alone(name: str, split: Split, whole: Scan, how: Thoroughness, folder: Path, sheet: Path | None) -> None:
    """One search."""
    pairs, seconds = search(whole, how)
    grouped = sum(map(len, group(pairs)))
    row = {
        "data": name, "images": len(whole), "searched": how, "pairs": len(pairs), "grouped": grouped,
        "percent": f"{100 * grouped / len(whole):.3f}", "search_cpu_seconds": f"{seconds:.1f}",
    }  # fmt: skip
    rows = [
        {
            "first": short(split.name(pair.first)), "second": short(split.name(pair.second)), "kind": pair.kind,
            "similarity": pair.similarity, "same_label": bool(np.array_equal(split.labels[pair.first], split.labels[pair.second])),
        }
        for pair in pairs
    ]  # fmt: skip
    if rows:
        write_rows(folder / f"pairs-{name}-{how}.csv", rows)
        if sheet is not None:
            draw(split, pairs, sheet / f"{name}-{how}.png")
    append(folder / "alone.csv", row)
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)


def short(name: str) -> str:
    """The last three parts of a path."""
    return "/".join(Path(name).parts[-3:])


def draw(split: Split, pairs: list[Pair], path: Path, *, across: int = 6, side: int = 120) -> None:
    """Each pair side by side, with its kind and similarity."""
    step = (2 * side + 10, side + 18)
    page = Image.new("RGB", (across * step[0], -(-len(pairs) // across) * step[1]), "white")
    pen = ImageDraw.Draw(page)
    for number, pair in enumerate(pairs):
        x, y = number % across * step[0], number // across * step[1]
        for place, index in enumerate((pair.first, pair.second)):
            page.paste(split.read(index).convert("RGB").resize((side, side)), (x + place * side, y))
        pen.text((x + 2, y + side + 2), f"{number} {pair.kind} {pair.similarity:.4f}", fill="black")
    page.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", action="append", default=[], help="NAME=SOURCE of images that get copies; may be given several times"
    )
    parser.add_argument("--alone", action="append", default=[], help="NAME=SOURCE that is only searched")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/copies"))
    parser.add_argument("--sheet", type=Path, help="a folder for images of the pairs that are found without planting")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.sheet is not None:
        options.sheet.mkdir(parents=True, exist_ok=True)
    for source in (*options.data, *options.alone):
        name, _, place = source.partition("=")
        data = find_data(place)
        split = Joined(list(data.splits.values()))
        whole = scan(split, workers=2 if split.encoded else 0, thumbnails=SIDE)
        measure_alone(name, split, whole, options.out, options.sheet)
        if source in options.data:
            measure(name, split, whole, options.out)


if __name__ == "__main__":
    main()
