"""Sentences that are left out or cut, counted by the reason why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

CUT = "cut at "


@dataclass(slots=True)
class Skipped:
    """How many, by reason; nothing is left out, or cut, silently. A reason that begins with `CUT` is no reason to leave out."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str, count: int = 1) -> None:
        if count:
            self.counts[reason] += count

    def update(self, other: "Skipped | Mapping[str, int]") -> None:
        self.counts.update(other.counts if isinstance(other, Skipped) else other)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __bool__(self) -> bool:
        return self.total > 0

    def __str__(self) -> str:
        """For people: `5 left out: 3 with an empty line, 2 longer than 256 tokens; 4 cut at 256 tokens`; nothing where nothing was."""
        cut = [(reason, count) for reason, count in self.counts.most_common() if reason.startswith(CUT)]
        out = [(reason, count) for reason, count in self.counts.most_common() if not reason.startswith(CUT)]
        listed = (", ".join(f"{count:,} {reason}" for reason, count in some) for some in (out, cut))
        head = f"{sum(count for _, count in out):,} left out: "
        return "; ".join(before + part for before, part in zip((head, ""), listed, strict=True) if part)
