"""Sentences that are left out, counted by the reason why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Skipped:
    """How many, by reason; nothing is left out silently."""

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
        """For people: `5 left out: 3 with an empty line, 2 longer than 256 tokens`; nothing where nothing was."""
        if not self:
            return ""
        return f"{self.total:,} left out: " + ", ".join(f"{count:,} {reason}" for reason, count in self.counts.most_common())
