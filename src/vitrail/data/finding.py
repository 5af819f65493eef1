"""What `vitrail check` says is wrong with a dataset: one record, whatever the task."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["serious", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong: a line for people, and the images concerned."""

    level: Level
    kind: str
    text: str
    pictures: tuple[str, ...] = ()


def plural(count: int, one: str, many: str | None = None) -> str:
    return one if count == 1 else many or one + "s"
