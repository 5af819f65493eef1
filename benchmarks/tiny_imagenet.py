"""Tiny-ImageNet as a folder that `vitrail train --data` reads: train, val and test, a folder for each class, under its English name.

The published validation images are halved in the order of their names: val and test. The class n02206856 is left out: its
images are in public test sets. Files are linked where the disk can, else copied.

    python benchmarks/tiny_imagenet.py tiny-imagenet-200 tiny
"""

import argparse
import os
import shutil
from collections import Counter
from pathlib import Path

LEFT_OUT = {"n02206856"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder with train, val, words.txt and wnids.txt")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    source, out = arguments.source, arguments.out
    names = name_classes(source)
    for wnid, name in names.items():
        for path in sorted((source / "train" / wnid / "images").iterdir()):
            place(path, out / "train" / name)
    met: Counter[str] = Counter()
    for line in sorted((source / "val" / "val_annotations.txt").read_text().splitlines()):
        file, wnid = line.split("\t")[:2]
        if wnid in names:
            place(source / "val" / "images" / file, out / ("val", "test")[met[wnid] % 2] / names[wnid])
            met[wnid] += 1
    print(f"{out}: {len(names)} classes")


def name_classes(source: Path) -> dict[str, str]:
    """The first word of each class that no class before it has."""
    words = dict(line.split("\t") for line in (source / "words.txt").read_text().splitlines())
    names: dict[str, str] = {}
    for wnid in (source / "wnids.txt").read_text().split():
        if wnid not in LEFT_OUT:
            names[wnid] = next(word for word in words[wnid].split(", ") if word not in names.values())
    return names


def place(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    if target.exists():
        return
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


if __name__ == "__main__":
    main()
