"""Images of different sizes through one ViT: packed into one sequence, padded to the longest, and one at a time.

    python benchmarks/packing.py --data FOLDER

The images of a folder of classes, resized with a fixed seed to sides of 64 to 160 pixels and aspects from 1:2 to 2:1 in whole patches,
in batches in random order. Counted are the multiplications of the blocks: those of single tokens (projections and MLP), and those of
pairs of tokens (q k^T and weights times v). Ways:

- packed: `forward_packed`; attention within each image, sum n_i^2 pairs
- packed, all pairs: the same tokens in rows of --row, filled by first fit decreasing, were a mask over all pairs of a row to do the rest
- padded: `forward_padded`, to the longest sequence of the batch
- padded canvas: to the batch's greatest height and width, as padding images before they are cut would have it
- one at a time: as packed, in as many passes as images

Times are of the first, third and last, interleaved: the median of --repeats passes over all images, forward alone and with the gradient.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import vitrail as vt
from vitrail.data.dataset import Split
from vitrail.data.opening import open_data
from vitrail.data.order import first_fit_decreasing
from vitrail.data.transforms import fit_image, normalize, to_unit
from vitrail.models.vit import VisionTransformer, ViTConfig

SHORTEST, LONGEST, NARROWEST = 64, 160, 0.5


def draw_sizes(count: int, *, patch: int, seed: int) -> list[tuple[int, int]]:
    """Heights and widths, uniform among those allowed."""
    generator, found = np.random.default_rng(seed), list[tuple[int, int]]()
    while len(found) < count:
        height, width = (int(side) // patch * patch for side in generator.integers(SHORTEST, LONGEST + 1, 2))
        if NARROWEST <= height / width <= 1 / NARROWEST:
            found.append((height, width))
    return found


def read_images(split: Split, sizes: list[tuple[int, int]], model: VisionTransformer, seed: int) -> list[Tensor]:
    chosen = np.random.default_rng(seed).permutation(len(split))[: len(sizes)]
    found = []
    for index, size in zip(chosen.tolist(), sizes, strict=False):
        how = replace(model.preprocessing, size=size, fit="squash")
        found.append(normalize(to_unit(np.stack([fit_image(split.read(index, target=size), how)])), how)[0])
    return found


def count(batches: list[list[tuple[int, int]]], config: ViTConfig, row: int) -> dict[str, tuple[int, int]]:
    """Tokens and pairs of each way, over all batches."""
    found: dict[str, list[tuple[int, int]]] = {}
    for sizes in batches:
        grids = [(height // config.patch, width // config.patch) for height, width in sizes]
        lengths = [rows * columns + config.prefix for rows, columns in grids]
        longest, canvas = max(lengths), max(g[0] for g in grids) * max(g[1] for g in grids) + config.prefix
        rows = first_fit_decreasing(lengths, max(row, longest))
        squares = sum(sum(lengths[i] for i in one) ** 2 for one in rows)
        ways = {
            "packed": (sum(lengths), sum(n * n for n in lengths)),
            "packed, all pairs": (sum(lengths), squares),
            "padded": (len(sizes) * longest, len(sizes) * longest**2),
            "padded canvas": (len(sizes) * canvas, len(sizes) * canvas**2),
        }
        for name, pair in ways.items():
            found.setdefault(name, []).append(pair)
    return {name: (sum(t for t, _ in pairs), sum(p for _, p in pairs)) for name, pairs in found.items()}


def one_at_a_time(model: VisionTransformer, images: list[Tensor]) -> Tensor:
    return torch.cat([model(image[None]) for image in images])


def seconds(way: Callable[[list[Tensor]], Tensor], batches: list[list[Tensor]], *, gradient: bool) -> float:
    begin = time.perf_counter()
    for images in batches:
        with torch.set_grad_enabled(gradient):
            logits = way(images)
            if gradient:
                cross_entropy(logits, torch.zeros(len(images), dtype=torch.long)).backward()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="a folder of classes")
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--position", default="learned_1d")
    parser.add_argument("--images", "--pictures", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--row", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5, help="0: count only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model = vt.create_model(options.model, position=options.position, num_classes=37).eval()
    split = open_data(options.data, divide=False)["train"]
    sizes = draw_sizes(min(options.images, len(split)), patch=model.config.patch, seed=options.seed)
    images = read_images(split, sizes, model, options.seed)
    cut = [slice(start, start + options.batch) for start in range(0, len(images), options.batch)]
    batches = [images[part] for part in cut]
    print(f"{len(images)} images in batches of {options.batch}, {options.model}, position {options.position}")

    config = model.config
    per_token = config.depth * (4 + 2 * config.mlp_ratio) * config.width**2
    per_pair = config.depth * 2 * config.width
    counted = count([sizes[part] for part in cut], config, options.row)
    base = counted["packed"][0] * per_token + counted["packed"][1] * per_pair
    print(f"{'way':<20}{'tokens':>10}{'pairs':>14}{'multiplications':>18}{'x packed':>10}{'tokens x':>10}{'pairs x':>10}")
    for name, (tokens, pairs) in counted.items():
        work = tokens * per_token + pairs * per_pair
        ratios = (work / base, tokens / counted["packed"][0], pairs / counted["packed"][1])
        print(f"{name:<20}{tokens:>10,}{pairs:>14,}{work / 1e9:>15.2f} G" + "".join(f"{ratio:>10.2f}" for ratio in ratios))

    ways = {
        "packed": model.forward_packed,
        "padded": model.forward_padded,
        "one at a time": lambda some: one_at_a_time(model, some),
    }
    with torch.inference_mode():
        answers = [torch.cat([way(some) for some in batches]) for way in ways.values()]
    for name, answer in zip(ways, answers, strict=True):
        print(f"{name:<20}largest difference to one at a time {(answer - answers[-1]).abs().max():.1e}")
    for gradient in (False, True) if options.repeats else ():
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.repeats):
            for name, way in ways.items():
                times[name].append(seconds(way, batches, gradient=gradient))
        median = {name: statistics.median(taken) for name, taken in times.items()}
        print("forward and gradient" if gradient else "forward", end=": ")
        print("; ".join(f"{name} {1000 * t:,.0f} ms ({t / median['packed']:.2f} x)" for name, t in median.items()))


if __name__ == "__main__":
    sys.exit(main())
