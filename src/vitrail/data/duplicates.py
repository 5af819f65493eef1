"""Images that occur twice: byte for byte, or re-encoded, rescaled, toned, mirrored or cropped.

1. Every image, as 8 x 8 gray cells, is compared with windows of every other, by blocked matrix products. The cells are taken to
   frequencies f and weighted by |f|, which undoes the 1 / f amplitude of natural images [Field 1987]: otherwise all that
   are bright in the middle look alike.
2. The nearest few are aligned (data/alignment.py) and compared at 32 x 32 cells.
3. A pair counts when what is left, 1 - correlation, is tiny, or small and far below that of the image's other neighbors
   [after Lowe 2004, section 7.1]. So in a set of very like images (clothes, digits) only true copies are named.

n images, t side of a thumbnail, w windows, d = CELLS^2, k neighbors
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from vitrail.data.alignment import Windows, align, axis_map
from vitrail.data.scanning import Scan

Kind = Literal["exact", "near", "crop", "mirror"]
Thoroughness = Literal["crops", "few crops", "large crops", "whole", "exact"]  # what is looked for: see AXES
Progress = Callable[[int, int], None]  # receives (images done, images in all)
CELLS, FINE = 8, 32
EXTENTS, PLACES = (1.0, 0.9, 0.81, 0.72, 0.64), (1, 2, 3, 4, 5)  # windows along an axis: extents, and how many of each
AXES: dict[Thoroughness, int] = {
    "crops": 15,
    "few crops": 6,
    "large crops": 3,
    "whole": 1,
}  # windows along an axis; exact: none
NEIGHBORS = 8
FLOOR = 0.6  # of the first comparison: below it a neighbor is not looked at again
NEARER = 0.5  # where only whole images are compared: how far a copy is, at most, of the distance of the image's other neighbors
COARSE = 0.35  # residual after a coarse alignment: above it a neighbor is not looked at a third time
TINY, SMALL, RATIO = 0.002, 0.02, 0.12  # benchmarks/duplicates.py has the trial
STRUCTURE, NOISE = 0.92, 2.0  # least structure in common, and the gray levels below which there is none
HUE = 0.12  # largest difference of the shares of red, green and blue; a crop of a photo stays below
FLAT = 4.0  # gray levels: a thumbnail with less deviation has nothing to be recognized by
CROPPED = 0.97  # a window of less extent is a crop
CROPS_UP_TO = 20_000  # images: beyond, 200 windows per image take too long, and only whole images are compared
WHOLE_UP_TO = 120_000  # images: beyond, only files with the same bytes are found
QUICK = 4e9  # products of windows and images that take some seconds: what a split is worth
BLOCK = 128  # images whose windows are made at a time
ROWS = 256  # windows compared at a time
TILE = 1024  # images compared at a time: what is computed is reduced while it is still in the cache


class Pair(NamedTuple):
    """Two images that are one; `similarity` is their correlation once aligned."""

    first: int
    second: int
    kind: Kind
    similarity: float


def thoroughness(count: int, *, products: float = QUICK) -> Thoroughness:
    """What can be looked for among so many images within so many products."""
    if count > WHOLE_UP_TO:
        return "exact"
    return next((how for how, axis in AXES.items() if count**2 * (axis**2 + 1) <= products), "whole")


def find_duplicates(scan: Scan, *, how: Thoroughness | None = None, progress: Progress | None = None) -> list[Pair]:
    """All duplicates, by first image. k exact copies give k - 1 pairs with the first of them, which alone is compared further.

    `how` is by default as thorough as `find_near`; `progress` counts the images that have been compared with all.
    """
    exact = find_exact(scan)
    if scan.thumbnails is None or how == "exact" or len(scan) > WHOLE_UP_TO:
        return exact
    copies = {pair.second for pair in exact}
    distinct = np.array([index for index in scan.good.tolist() if index not in copies], dtype=np.int64)
    near = [
        pair._replace(first=int(distinct[pair.first]), second=int(distinct[pair.second]))
        for pair in find_near(scan.thumbnails[distinct], how=how, progress=progress)
    ]
    return sorted(exact + [pair for pair in near if _same_hue(scan, pair)])


def _same_hue(scan: Scan, pair: Pair) -> bool:
    """Whether the mean colors, each divided by its sum, are near: thumbnails are gray, and a red disk is no purple one."""
    if scan.colors is None:
        return True
    one, other = (color / max(1.0, color.sum()) for color in scan.colors[[pair.first, pair.second]].astype(np.float64))
    return float(np.abs(one - other).sum()) < HUE


def find_exact(scan: Scan) -> list[Pair]:
    """Images whose stored bytes are the same, each with the first of its kind."""
    first: dict[bytes, int] = {}
    pairs = []
    for index in scan.good.tolist():
        known = first.setdefault(scan.digests[index].tobytes(), index)
        if known != index:
            pairs.append(Pair(known, index, "exact", 1.0))
    return pairs


def find_near(
    thumbnails: UInt8[np.ndarray, "n t t"], *, how: Thoroughness | None = None, progress: Progress | None = None
) -> list[Pair]:
    """Pairs that are not the same bytes but the same image. Crops keep 60 % of each side or more, where `how` looks for them; by default
    up to CROPS_UP_TO images."""
    textured = np.flatnonzero(thumbnails.reshape(len(thumbnails), -1).std(1) > FLAT) if len(thumbnails) else np.zeros(0, int)
    if len(textured) < 2:
        return []
    how = how or ("crops" if len(textured) <= CROPS_UP_TO else "whole")
    with torch.inference_mode(), _one_thread() if len(textured) <= CROPS_UP_TO else nullcontext():
        images = torch.from_numpy(thumbnails[textured])
        axis = axis_windows()[: AXES[how]]
        score, neighbor = nearest(images, axis, progress=progress)
        residual, window, mirrored = compare(images, axis, score, neighbor)
    same = (residual < TINY) | ((residual < SMALL) & (residual < RATIO * _rival(residual)))
    found: dict[tuple[int, int], Pair] = {}
    for one, place in same.nonzero().tolist():
        other = int(neighbor[one, place])
        source = images[other].flip(-1) if mirrored[one, place] else images[other]
        if structure(source.float(), images[one].float(), Windows(*(part[one, place, None] for part in window))) < STRUCTURE:
            continue
        ends = (int(textured[min(one, other)]), int(textured[max(one, other)]))
        extent = min(window.height[one, place].item(), window.width[one, place].item())
        kind: Kind = "mirror" if mirrored[one, place] else "crop" if extent < CROPPED else "near"
        pair = Pair(*ends, kind, round(1.0 - residual[one, place].item(), 4))
        if ends not in found or found[ends].similarity < pair.similarity:
            found[ends] = pair
    return sorted(found.values())


def axis_windows() -> Float[Tensor, "a 2"]:
    """Windows along one axis, (offset, extent), the whole axis first; an image's windows are all pairs of them."""
    spots = [
        (offset, extent)
        for extent, count in zip(EXTENTS, PLACES, strict=True)
        for offset in np.linspace(0.0, 1.0 - extent, count).tolist()
    ]
    return torch.tensor(spots)


def describe(images: Float[Tensor, "n t t"], axis: Float[Tensor, "a 2"]) -> Float[Tensor, "n w d"]:
    """A unit vector for each window of each image, all pairs of `axis`: |f| times the cosine transform of its 8 x 8 cells."""
    count, side, windows = len(images), images.shape[-1], len(axis)
    number, place = torch.arange(CELLS), (torch.arange(CELLS) + 0.5) / CELLS
    cosines = torch.cos(math.pi * number[:, None] * place) * math.sqrt(2 / CELLS)
    cosines[0] /= math.sqrt(2)
    rows = (cosines @ axis_map(axis[:, 0], axis[:, 1], cells=CELLS, side=side)).flatten(0, 1)  # a*CELLS t
    waves = (rows @ images @ rows.T).view(count, windows, CELLS, windows, CELLS).transpose(2, 3)  # n a a CELLS CELLS
    weighted = (waves * torch.hypot(number[:, None].float(), number.float())).reshape(count, windows * windows, -1)
    return weighted / weighted.norm(dim=-1, keepdim=True).clamp(min=FLAT * CELLS)  # a flat window resembles nothing


def nearest(
    images: UInt8[Tensor, "n t t"], axis: Float[Tensor, "a 2"], *, progress: Progress | None = None
) -> tuple[Float[Tensor, "n k"], Int[Tensor, "n k"]]:
    """For each image as a whole the k others with the most similar window or mirror image: similarities, numbers."""
    count = len(images)
    whole = _describe_whole(images, axis).T.contiguous()  # d n
    score = torch.full((count, min(NEIGHBORS, count - 1)), -1.0)
    who = torch.zeros(score.shape, dtype=torch.int64)
    for start in range(0, count, BLOCK):
        views = _views(images[start : start + BLOCK].float(), axis)
        sources = torch.arange(start, start + len(views))
        like = torch.empty(len(views), count)
        together = max(1, ROWS // views.shape[1])  # sources: of few windows, several make one product
        for first in range(0, len(views), together):
            some = views[first : first + together]
            for tile in range(0, count, TILE):
                products = some.flatten(0, 1) @ whole[:, tile : tile + TILE]
                like[first : first + together, tile : tile + TILE] = products.view(*some.shape[:2], -1).amax(1)
        like[torch.arange(len(views)), sources] = -1.0  # itself
        changed = (like > score[:, -1]).any(0).nonzero()[:, 0]
        merged = torch.cat([score[changed], like[:, changed].T], 1)
        numbers = torch.cat([who[changed], sources.expand(len(changed), -1)], 1)
        score[changed], order = merged.topk(score.shape[1], 1)
        who[changed] = numbers.gather(1, order)
        if progress is not None:
            progress(start + len(views), count)
    return score, who


def _describe_whole(images: UInt8[Tensor, "n t t"], axis: Float[Tensor, "a 2"]) -> Float[Tensor, "n d"]:
    """Of each image as a whole."""
    return torch.cat([describe(some.float(), axis[:1])[:, 0] for some in torch.split(images, TILE)])


def _views(images: Float[Tensor, "n t t"], axis: Float[Tensor, "a 2"]) -> Float[Tensor, "n w d"]:
    """All windows, and the mirror image last."""
    return torch.cat([describe(images, axis), describe(images.flip(-1), axis[:1])], 1)


def compare(
    images: UInt8[Tensor, "n t t"], axis: Float[Tensor, "a 2"], score: Float[Tensor, "n k"], neighbor: Int[Tensor, "n k"]
) -> tuple[Float[Tensor, "n k"], Windows, Tensor]:
    """1 - correlation after alignment, with which window of the neighbor, and whether mirrored."""
    shape = neighbor.shape
    one = torch.arange(shape[0]).repeat_interleave(shape[1])
    other = neighbor.flatten()
    residual = 1.0 - score.flatten().clamp(max=FLOOR)  # of those below the floor; the others' is computed
    number = torch.zeros(len(one), dtype=torch.int64)
    looked_at = (score.flatten() >= FLOOR).nonzero()[:, 0]
    if len(axis) == 1:  # a copy needs no alignment to stand out from the other neighbors
        looked_at = looked_at[(score[:, 0] >= 1.0 - NEARER * _rival(1.0 - score)[:, 0])[one[looked_at]]]
    whole = _describe_whole(images, axis)
    for start in range(0, shape[0], BLOCK):
        views = _views(images[start : start + BLOCK].float(), axis)
        for pairs in torch.split(looked_at[(other[looked_at] >= start) & (other[looked_at] < start + BLOCK)], BLOCK):
            alike = torch.einsum("pwd,pd->pw", views[other[pairs] - start], whole[one[pairs]])
            number[pairs] = alike.argmax(1)
    mirrored = number == len(axis) ** 2
    number[mirrored] = 0
    top, height = axis[number // len(axis)].unbind(1)
    left, width = axis[number % len(axis)].unbind(1)
    window = Windows(top.clone(), height.clone(), left.clone(), width.clone())
    halves = torch.cat([F.avg_pool2d(some.float()[:, None], 2)[:, 0] for some in torch.split(images, TILE)])
    for level, cells, steps in ((halves, FINE // 2, 4), (images, FINE, 3)):
        for pairs in torch.split(looked_at, 1024):
            source, target = level[other[pairs]].float(), level[one[pairs]].float()
            source = torch.where(mirrored[pairs, None, None], source.flip(-1), source)
            like, aligned = align(source, target, Windows(*(w[pairs] for w in window)), cells=cells, steps=steps)
            residual[pairs] = 1.0 - like
            for old, new in zip(window, aligned, strict=True):
                old[pairs] = new
        # The fine comparison is for images that may have a copy, judged as in the end but with room for what it may mend.
        least, rival = residual.view(shape).amin(1), _rival(residual.view(shape))
        promising = (least < 3 * SMALL) & ((least < 4 * RATIO * rival[:, 0]) | (least < 3 * TINY))
        looked_at = looked_at[promising[one[looked_at]] & (residual[looked_at] < COARSE)]
    return residual.view(shape), Windows(*(w.view(shape) for w in window)), mirrored.view(shape)


def structure(source: Float[Tensor, "t t"], target: Float[Tensor, "t t"], window: Windows) -> float:
    """The structure term of SSIM, (cov + c) / (σ σ' + c), averaged over 4 x 4 blocks [Wang+ 2004, eq. 10].

    A correlation is ruled by the strongest edges: a black star on one wall and on another agree to 99 %. Here every block
    has the same say, so the walls must agree too; blocks without structure agree.
    """
    side = source.shape[-1]
    whole = axis_map(torch.zeros(1), torch.ones(1), cells=FINE, side=side)[0]
    rows = axis_map(window.top, window.height, cells=FINE, side=side)[0]
    columns = axis_map(window.left, window.width, cells=FINE, side=side)[0]
    one, other = whole @ target @ whole.T, rows @ source @ columns.T
    other = other * (one.std() / other.std().clamp(min=1.0))
    blocks = torch.stack([view.unfold(0, 8, 8).unfold(1, 8, 8).flatten(2).flatten(0, 1) for view in (one, other)])  # 2 16 64
    blocks = blocks - blocks.mean(2, keepdim=True)
    covariance, deviations = (blocks[0] * blocks[1]).mean(1), blocks.square().mean(2).sqrt().prod(0)
    return float(((covariance + NOISE**2) / (deviations + NOISE**2)).mean())


def _rival(residual: Float[Tensor, "n k"]) -> Float[Tensor, "n 1"]:
    """The residual in the middle of an image's neighbors: up to four copies of it do not hide each other."""
    return residual.sort(1).values[:, residual.shape[1] // 2, None]


@contextmanager
def _one_thread() -> Iterator[None]:
    """These products are many and small: a second thread costs more in waiting than it computes, worst on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def group(pairs: Iterable[Pair]) -> list[list[int]]:
    """The images of `pairs` in groups that are one image, by union-find; groups and members in ascending order."""
    parent: dict[int, int] = {}

    def root(index: int) -> int:
        parent.setdefault(index, index)
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for pair in pairs:
        low, high = sorted((root(pair.first), root(pair.second)))
        parent[high] = low
    members: dict[int, list[int]] = {}
    for index in sorted(parent):
        members.setdefault(root(index), []).append(index)
    return list(members.values())
