"""Built-in parallel text with a rule: the words again, backwards, or in order. What a model that translates must learn first."""

import numpy as np

from vitrail.data.dataset import SPLITS, SplitName

WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TOYS = ("copy", "reverse", "sort")
COUNTS: dict[SplitName, int] = {"train": 10_000, "val": 500, "test": 1000}
SHORTEST, LONGEST = 3, 10  # words


def make_toy(
    task: str,
    split: SplitName,
    *,
    count: int | None = None,
    shortest: int = SHORTEST,
    longest: int = LONGEST,
    words: int = len(WORDS),
    seed: int = 0,
) -> tuple[list[str], list[str]]:
    """(sources, targets): numbers below `words`, written out, drawn alike; the target is their copy, reverse or sorted order.

    A function of the seed and the split. No sentence of one split stands in another: the sum of its numbers says where it
    belongs, to val if it ends in 9, to test if it ends in 8.
    """
    generator = np.random.Generator(np.random.PCG64([seed, SPLITS.index(split)]))
    sources, targets = list[str](), list[str]()
    wanted = COUNTS[split] if count is None else count
    while len(sources) < wanted:  # some hundred at a time, most of which belong elsewhere
        sizes = generator.integers(shortest, longest + 1, size=500).tolist()
        for row, size in zip(generator.integers(words, size=(500, longest)).tolist(), sizes, strict=True):
            numbers = row[:size]
            if {9: "val", 8: "test"}.get(sum(numbers) % 10, "train") == split:
                ruled = {"copy": numbers, "reverse": numbers[::-1], "sort": sorted(numbers)}[task]
                sources.append(" ".join(WORDS[number] for number in numbers))
                targets.append(" ".join(WORDS[number] for number in ruled))
    return sources[:wanted], targets[:wanted]
