"""Images: quadrants, stripes, sizes, colors with captions, photos, digits, masks and boxes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

THIRDS = (0, 1, 2)
UNEQUAL = (0, 0, 0, 0, 0, 1, 2, 0)


def draw_quadrants(labels: np.ndarray, *, seed: int) -> np.ndarray:
    """8x8 images of three classes: which quadrant is bright."""
    images = np.random.default_rng(seed).integers(0, 100, (len(labels), 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 120
    return images


def write_quadrants(path: Path, counts: Mapping[str, int], *, labels: Sequence[int] = THIRDS) -> None:
    """An .npz file; the labels repeat."""
    parts = {}
    for number, (split, count) in enumerate(counts.items()):
        parts[f"y_{split}"] = np.array(labels)[np.arange(count) % len(labels)]
        parts[f"x_{split}"] = draw_quadrants(parts[f"y_{split}"], seed=number)
    np.savez(path, **parts)


def write_quadrant_files(folder: Path, counts: Mapping[str, int]) -> None:
    """The same as a folder of images, one subfolder for each class."""
    for number, (split, count) in enumerate(counts.items()):
        labels = np.arange(count) % 3
        for index, (image, label) in enumerate(zip(draw_quadrants(labels, seed=number), labels, strict=True)):
            (folder / split / f"class{label}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / split / f"class{label}" / f"{index:02}.png")


def write_stripes(path: Path, *, side: int, grays: tuple[int, ...], seed: int) -> None:
    """Images of two classes: rows that are alike, or columns."""
    generator, parts = np.random.default_rng(seed), {}
    for split, count in (("train", 48), ("val", 12), ("test", 11)):
        lines = np.array(grays, dtype=np.uint8)[generator.integers(0, len(grays), (count, side))]
        labels, rows = np.arange(count) % 2, np.repeat(lines[:, :, None], side, axis=2)
        parts[f"x_{split}"] = np.where(labels[:, None, None] == 1, rows, rows.transpose(0, 2, 1))
        parts[f"y_{split}"] = labels
    np.savez(path, **parts)


def write_sizes(folder: Path) -> None:
    """Images of many sizes in two classes, and a file that is none."""
    generator = np.random.default_rng(2)
    for number in range(60):
        kind, (height, width) = number % 2, generator.integers(8, 30, 2)
        (folder / f"class{kind}").mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 128, (height, width, 3)) + 127 * kind
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"class{kind}" / f"{number:02}.png")
    (folder / "class0" / "broken.png").write_bytes(b"no image")


def write_colors(folder: Path, *, count: int = 60, extra: Mapping[str, object] | None = None, seed: int = 6) -> None:
    """Images of one color, with one or two captions each; `extra`: more rows of captions.json."""
    generator = np.random.default_rng(seed)
    colors = {"red": (230, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 230)}
    captions: dict[str, object] = dict(extra or {})
    folder.mkdir(parents=True)
    for number in range(count):
        name, color = list(colors.items())[number % 3]
        noisy = np.clip(np.array(color) + generator.integers(-15, 15, (16, 16, 3)), 0, 255)
        Image.fromarray(noisy.astype(np.uint8)).save(folder / f"{number:02}.png")
        captions[f"{number:02}.png"] = [f"a {name} image", f"all {name}"] if number % 2 else f"a {name} image"
    (folder / "captions.json").write_text(json.dumps(captions))


def write_photos(folder: Path, *, count: int = 20, seed: int = 7) -> None:
    """Smooth images of several sizes."""
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for number in range(count):
        small = Image.fromarray(generator.integers(0, 256, (5, 6, 3), dtype=np.uint8))
        small.resize((30 - number // 2, 24 + number), Image.Resampling.BICUBIC).save(folder / f"{number:02}.png")


def write_numbers(folder: Path) -> None:
    """8x8 noise in folders with the names of the digits."""
    generator = np.random.default_rng(8)
    for number in range(20):
        (folder / str(number % 10)).mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / str(number % 10) / f"{number:02}.png")


def write_masks(folder: Path, *, count: int = 20, seed: int = 3) -> None:
    """A disk and a bar on a ground, with pixels that nobody decided on."""
    generator, colors = np.random.default_rng(seed), [20, 20, 60, 220, 60, 40, 40, 200, 90]
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        height, width = 24, 28 if number % 3 else 24
        rows, columns = np.mgrid[:height, :width]
        mask = np.zeros((height, width), dtype=np.uint8)
        mask[(rows - generator.integers(6, height - 6)) ** 2 + (columns - generator.integers(6, width - 6)) ** 2 < 30] = 1
        left = int(generator.integers(0, width - 5))
        mask[:, left : left + 4] = 2
        pixels = np.array(colors).reshape(3, 3)[mask] + generator.integers(0, 30, (height, width, 3))
        mask[:2] = 255
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / f"{number:02}.png")
        file = Image.fromarray(mask).convert("P")
        file.putpalette([*colors, *([0] * 700)])
        file.save(folder / "masks" / f"{number:02}.png")
    (folder / "classes.txt").write_text("ground\ndisk\nbar\n")


def write_boxes(folder: Path, *, count: int = 24, held_out: int = 4, seed: int = 4) -> None:
    """Pascal VOC: bright rectangles in gray images of 37x29; the last `held_out` are test, those before them val."""
    generator, names = np.random.default_rng(seed), ("cell", "dust")
    for part in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        array, objects = generator.integers(0, 60, (29, 37), dtype=np.uint8), ""
        for thing in range(number % 3):
            x, y = (int(value) for value in generator.integers(0, 18, 2))
            array[y : y + 9, x : x + 13] = 200 + 50 * thing
            box = f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + 13}</xmax><ymax>{y + 9}</ymax>"
            name = f"<name>{names[(number + thing) % 2]}</name>"
            objects += f"<object>{name}<difficult>0</difficult><bndbox>{box}</bndbox></object>"
        Image.fromarray(array).save(folder / "JPEGImages" / f"{number:02}.png")
        size = "<size><width>37</width><height>29</height></size>"
        (folder / "Annotations" / f"{number:02}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    stems = [f"{number:02}" for number in range(count)]
    parts = {"train": stems[: -2 * held_out], "val": stems[-2 * held_out : -held_out], "test": stems[-held_out:]}
    for split, part in parts.items():
        (folder / "ImageSets" / "Main" / f"{split}.txt").write_text("\n".join(part))


def write_colored_masks(folder: Path) -> Path:
    """Nine images whose color says the class of each pixel, red times its number, and their masks."""
    generator = np.random.default_rng(0)
    for part in ("images", "masks"):
        (folder / part).mkdir()
    for number in range(9):
        mask = generator.integers(0, 3, (3, 4)).repeat(7, 0).repeat(7, 1)[:21, :27].astype(np.uint8)
        image = np.stack([mask * 100, mask * 0 + 40, mask * 0 + 80], axis=2)
        Image.fromarray(image.astype(np.uint8)).save(folder / "images" / f"{number}.png")
        file = Image.fromarray(mask).convert("P")
        file.putpalette([10, 20, 30, 200, 0, 0, 0, 200, 0, *([0] * 300)])
        file.save(folder / "masks" / f"{number}.png")
    return folder
