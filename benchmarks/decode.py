"""How fast large JPEGs come to a model's size: our reader beside a plain open, convert and resize, interleaved, best of several.

    python benchmarks/decode.py                       # scenes drawn at 1024 pixels, enlarged to 2000x1500, with a fine texture
    python benchmarks/decode.py --folder photos       # JPEGs of your own
    python benchmarks/decode.py --gaps 1 1.5 2 3      # what data/images.py could set GAP to

The last line is what the reader adds to Pillow's own time on a small file. A ratio above 1 says that ours is faster. The error is
the mean absolute difference between the two results, in levels of 255. libjpeg decodes at 1/2, 1/4 or 1/8 of the resolution only,
so that several gaps come to the same. GAP is 1.5 because of this table: at both usual sizes more than 2.5 times as fast as plain,
with an error below half a level (up to about 1 where a side does not divide by 4 or 8). Measured on 2000x1500 drawn JPEGs of
736 KB, Pillow 13.0, on a machine with other work to do.
Much of the time goes to Huffman codes, which nobody can skip: grainier files of 1.2 MB came to 2.3 at size 160.

    size   gap   ratio   error
     160   1.0    3.63    1.00
     160   1.5    2.74    0.23
     160   2.0    2.79    0.23
     160   3.0    2.10    0.27
     224   1.0    2.94    0.34
     224   1.5    2.82    0.34
     224   2.0    1.91    0.17
     224   3.0    2.24    0.17
     250   1.5    3.12    0.40    the size at which 1.5 is least: 1/4 of 1500 is 1.5 times 250
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from speed import race  # noqa: E402

from vitrail.data import images  # noqa: E402
from vitrail.data.dataset import FileSplit  # noqa: E402
from vitrail.data.shapes import draw_scene  # noqa: E402
from vitrail.data.transforms import read_fitted  # noqa: E402
from vitrail.preprocessing import Preprocessing  # noqa: E402

SIZE = (2000, 1500)  # width, height


def make_photos(folder: Path, count: int) -> list[Path]:
    """JPEGs with the large areas, edges and fine texture of photographs."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        scene = Image.fromarray(draw_scene(number, size=(768, 1024)).image).resize(SIZE, Image.Resampling.BICUBIC)
        pixels = np.array(scene, dtype=np.float32)
        for cell in (1, 2, 5, 20):  # pixels across, of each layer of the texture
            grain = rng.normal(0, 4, (SIZE[1] // cell, SIZE[0] // cell)).astype(np.float32)
            pixels += np.asarray(Image.fromarray(grain).resize(SIZE))[:, :, None]
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


def read_plainly(path: Path, side: int) -> np.ndarray:
    """What one would write without a reader."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))


def compare(paths: list[Path], side: int, rounds: int) -> tuple[float, float, float]:
    """Milliseconds an image, plain and ours, and the mean absolute difference of the results."""
    split = FileSplit(paths, np.zeros(len(paths), dtype=np.int64))
    preprocessing = Preprocessing(size=(side, side), fit="squash")
    times, differences = {"plain": 0.0, "ours": 0.0}, []
    for index, path in enumerate(paths):
        plain, ours = read_plainly(path, side), read_fitted(split, index, preprocessing)
        differences.append(np.abs(plain.astype(int) - ours).mean())
        best = race(
            {
                "plain": lambda path=path: read_plainly(path, side),
                "ours": lambda index=index: read_fitted(split, index, preprocessing),
            },
            rounds,
        )
        times = {name: times[name] + 1e3 * best[name] / len(paths) for name in times}
    return times["plain"], times["ours"], float(np.mean(differences))


def compare_small(folder: Path, rounds: int) -> tuple[float, float]:
    """Microseconds to read a JPEG of 160x160, plain and ours."""
    path = folder / "small.jpg"
    Image.fromarray(draw_scene(0, size=160).image).save(path, quality=90)

    def plain() -> Image.Image:
        with Image.open(path) as image:
            return image.convert("RGB")

    best = race({"plain": plain, "ours": lambda: images.read_image(path)}, 100 * rounds)
    return 1e6 * best["plain"], 1e6 * best["ours"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="JPEGs to read instead of drawn ones")
    parser.add_argument("--count", type=int, default=4, help="how many images")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", nargs="+", type=int, default=[160, 224])
    parser.add_argument("--gaps", nargs="+", type=float, default=[images.GAP])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.folder is None:
            paths = make_photos(Path(folder), options.count)
        else:
            paths = sorted(path for path in options.folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
            paths = paths[: options.count]
        if not paths:
            sys.exit(f"{options.folder}: no JPEGs")
        print(
            f"{len(paths)} JPEGs, {sum(path.stat().st_size for path in paths) / len(paths) / 1000:.0f} KB each, best of {options.rounds}"
        )
        print("size   gap   plain ms   ours ms   ratio   error")
        for side in options.sizes:
            for images.GAP in options.gaps:
                plain, ours, error = compare(paths, side, options.rounds)
                print(f"{side:4}  {images.GAP:4.1f}  {plain:9.1f} {ours:9.1f} {plain / ours:7.2f} {error:7.2f}")
        plain, ours = compare_small(Path(folder), options.rounds)
        print(f"160x160 without shrinking: plain {plain:.0f} us, ours {ours:.0f} us, {100 * (ours / plain - 1):+.0f} %")


if __name__ == "__main__":
    main()
