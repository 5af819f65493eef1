"""Dividing images at random with every class in each part, and copies of an image in one part.

n images, k classes, w columns: the classes and one for none of them, u units: groups of copies, and single images
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

KINDS = 256  # of images with other labels, at most, of which pairs are tried
ALONE = -1  # the group of an image that has no copy


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Which part of `count` equal ones validates, from 1; None: none does, and all of them are learned from."""

    count: int
    number: int | None = None


def stratified_split(
    labels: np.ndarray, share: float, *, seed: int, groups: Int[np.ndarray, "n"] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(rest, part) as sorted numbers: `share` of each class goes to the part, at least one where a class has two or more.

    Images of one of the `groups` stay together; the others are divided as if there were none, but for those that make up for them.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    if labels.ndim == 2:
        taken = _take_from_each_label(labels, share, generator)
    else:
        taken = np.zeros(len(labels), dtype=bool)
        for label in np.unique(labels):
            members = generator.permutation(np.flatnonzero(labels == label))
            count = min(max(round(share * len(members)), 1), len(members) - 1)
            taken[members[:count]] = True
    if groups is not None and (groups != ALONE).any():
        taken = keep_together(labels, taken, groups, generator)
    return np.flatnonzero(~taken), np.flatnonzero(taken)


def _take_from_each_label(
    labels: Bool[np.ndarray, "n k"], share: float, generator: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Who goes to the part, where an image may have several labels  [Sechidis+ 2011, algorithm 1].

    The label with the fewest images left is dealt out first: each of its images goes to the side that still wants more of
    that label, on a tie to the one that wants more images. Images without labels come last, as one more label.
    """
    wide = _with_none(labels)
    shares = np.array([1 - share, share])
    wanted = shares[:, None] * wide.sum(axis=0)  # rest and part, k+1
    room = shares * len(labels)
    left, taken = np.ones(len(labels), dtype=bool), np.zeros(len(labels), dtype=bool)
    counts = wide.sum(axis=0)
    while left.any():
        label = int(np.argmin(np.where(counts > 0, counts, np.iinfo(np.int64).max)))
        for image in generator.permutation(np.flatnonzero(left & wide[:, label])):
            desire = wanted[:, label]
            side = int(room[1] > room[0]) if desire[0] == desire[1] else int(desire[1] > desire[0])
            taken[image], left[image] = bool(side), False
            wanted[side] -= wide[image]
            room[side] -= 1
            counts -= wide[image]
    return taken


def _with_none(labels: Bool[np.ndarray, "n k"]) -> Bool[np.ndarray, "n k+1"]:
    """Having no label is one more label."""
    return np.concatenate([labels, ~labels.any(axis=1, keepdims=True)], axis=1)


def keep_together(
    labels: np.ndarray, taken: Bool[np.ndarray, "n"], groups: Int[np.ndarray, "n"], generator: np.random.Generator
) -> Bool[np.ndarray, "n"]:
    """Who goes to the part, where no group is divided and the part has as many of each class as before, or nearly.

    A group goes where its first image was drawn, to the rest where that would give the part too many of a class; single images of the
    same class then change sides to make up for it, and where there are none, whole groups do.
    """
    wide = _with_none(labels) if labels.ndim == 2 else labels[:, None] == np.unique(labels)
    total, wanted = wide.sum(axis=0), wide[taken].sum(axis=0)
    result, room = taken.copy(), wanted.copy()
    units = sorted((np.flatnonzero(groups == one) for one in np.unique(groups[groups != ALONE])), key=lambda m: (-len(m), m[0]))
    needs = [wide[unit].sum(axis=0) for unit in units]
    inside = np.zeros(len(units), dtype=bool)
    for number, (unit, need) in enumerate(zip(units, needs, strict=True)):
        inside[number] = taken[unit[0]] and (need <= room).all()
        result[unit] = inside[number]
        room -= need * inside[number]
    excess = wide[result].sum(axis=0) - wanted
    for image in generator.permutation(np.flatnonzero(groups == ALONE)):
        if not excess.any():
            break
        change = -wide[image].astype(np.int64) if result[image] else wide[image].astype(np.int64)
        if np.abs(excess + change).sum() < np.abs(excess).sum():
            result[image] = not result[image]
            excess += change
    for number in range(len(units) - 1, -1, -1):  # small ones first
        moved = excess + needs[number]
        left = total - wanted - moved  # in the rest
        useful = (excess < 0) & (needs[number] > 0)
        nothing = useful & (wanted + excess == 0)  # a class that the part has none of: it may have one too many instead
        better = np.abs(moved).sum() - np.abs(excess).sum()
        if not inside[number] and (left[needs[number] > 0] > 0).all() and (better < 0 or (nothing.any() and better <= 0)):
            result[units[number]], excess = True, moved
    if labels.ndim == 2:  # one image changes several labels, so that what is done for one of them may undo another
        result = _balance(wide, result, wanted, groups, int(taken.sum()))
    return result


def _balance(
    wide: Bool[np.ndarray, "n w"],
    taken: Bool[np.ndarray, "n"],
    wanted: Int[np.ndarray, "w"],
    groups: Int[np.ndarray, "n"],
    size: int,
) -> Bool[np.ndarray, "n"]:
    """Who goes to the part, after single images have changed sides, two at a time or one, as long as that brings the labels of the part nearer
    to what is wanted, and its size: the sum of squared differences falls with each step, the step that lowers it most is taken."""
    counted, single = np.column_stack([wide, np.ones(len(wide), dtype=bool)]).astype(np.int64), np.flatnonzero(groups == ALONE)
    result, excess = taken.copy(), counted[taken].sum(axis=0) - np.append(wanted, size)
    kinds, kind_of = np.unique(counted[single], axis=0, return_inverse=True)
    moves = np.concatenate([-kinds, kinds])  # out of the part, and into it
    kind_of, squares = kind_of.reshape(-1), (kinds**2).sum(axis=1)
    while len(single) and excess.any():
        there = np.bincount(kind_of[result[single]], minlength=len(kinds))
        there = np.concatenate([there, np.bincount(kind_of, minlength=len(kinds)) - there])
        alone = np.where(
            there > 0, np.tile(squares, 2) + 2 * moves @ excess, np.iinfo(np.int32).max
        )  # what each changes in the sum
        few = np.argsort(alone, kind="stable")[:KINDS]
        both = alone[few, None] + alone[few] + 2 * moves[few] @ moves[few].T
        np.fill_diagonal(both, alone[few])  # one by itself
        if both.min() >= 0:
            break
        for move in {int(few[place]) for place in np.unravel_index(both.argmin(), both.shape)}:
            side, kind = move < len(kinds), move % len(kinds)
            result[single[np.flatnonzero((kind_of == kind) & (result[single] == side))[0]]] = not side
            excess += moves[move]
    return result


def stratified_folds(
    labels: np.ndarray, count: int, *, seed: int, groups: Int[np.ndarray, "n"] | None = None
) -> Int[np.ndarray, "n"]:
    """The fold of each image, from 0: every class is spread evenly over them, and a group of copies is in one  [Sechidis+ 2011, algorithm 1].

    The rarest class is dealt out first, its groups before its single images: each to the fold that still wants most of the class, on a tie
    to the one with most room.
    """
    generator = np.random.Generator(np.random.PCG64([seed, count]))
    wide = _with_none(labels) if labels.ndim == 2 else labels[:, None] == np.unique(labels)
    units = list_units(len(labels), groups)
    needs = np.stack([wide[unit].sum(axis=0) for unit in units])  # u k
    sizes = np.array([len(unit) for unit in units])
    wanted = np.tile(wide.sum(axis=0) / count, (count, 1))
    room = np.full(count, len(labels) / count)
    folds, left, counts = np.zeros(len(labels), dtype=np.int64), np.ones(len(units), dtype=bool), wide.sum(axis=0)
    while left.any():
        label = int(np.argmin(np.where(counts > 0, counts, np.iinfo(np.int64).max)))
        drawn = generator.permutation(np.flatnonzero(left & (needs[:, label] > 0)))
        for unit in drawn[np.argsort(-sizes[drawn], kind="stable")]:
            desire = wanted[:, label].round(9)
            fold = int(np.lexsort((-room.round(9), -desire))[0])
            folds[units[unit]], left[unit] = fold, False
            wanted[fold] -= needs[unit]
            room[fold] -= sizes[unit]
            counts = counts - needs[unit]
    return folds


def list_units(count: int, groups: Int[np.ndarray, "n"] | None) -> list[Int[np.ndarray, "m"]]:
    """The numbers of what stays together: each group, then each image by itself."""
    if groups is None:
        return list(np.arange(count)[:, None])
    together = [np.flatnonzero(groups == one) for one in np.unique(groups[groups != ALONE])]
    return together + list(np.flatnonzero(groups == ALONE)[:, None])
