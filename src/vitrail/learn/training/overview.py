"""The block of lines before the first epoch, and the one behind the last: labels in a column, texts beside them. How long training will take."""

import textwrap
import time
from collections.abc import Iterable

from vitrail.learn.training.plan import Plan
from vitrail.learn.training.resolution import GROWING

LABELS = ("data", "note", "left out", "warning", "weights", "teacher", "model", "method", "recipe", "folder", "time",
          "verdict", "continue", "labels", "report", "predict", "explain", "export", "studio")  # fmt: skip
COPIED = ("weights", *LABELS[LABELS.index("continue") :])  # names, commands and paths, which stay in one line
COLUMN, WIDTH = 9, 80  # where texts begin, and where lines end
MOST = 11  # lines of a block; the time that training will take is one more
STEPS, SECONDS = 12, 4.0  # training steps to time, and when to stop short of them
VALIDATION = 1 / 3  # of a training step's time: forward only


def lay_out(lines: Iterable[str]) -> list[str]:
    """Lines such as "model: vit_nano_conv" in two columns, in the order of LABELS. A label that repeats is printed once; a line without one
    continues what is above.

    A line is wrapped, unless it ends with a path, which is to be copied. Where there are too many, notes give way: the report has them all.
    """
    shown = list[tuple[str, list[str]]]()
    for line in lines:
        label, text = split_label(line)
        shown.append((label or (shown[-1][0] if shown else LABELS[0]), [text] if label in COPIED else wrap(text)))
    shown.sort(key=lambda entry: LABELS.index(entry[0]))
    excess = sum(len(parts) for _, parts in shown) - MOST
    notes = [number for number, (label, _) in enumerate(shown) if label == "note"]
    dropped = list[int]()
    while excess > 0 and len(notes) > 1:
        excess += not dropped  # the line that says so
        dropped.append(notes.pop())
        excess -= len(shown[dropped[-1]][1])
    if dropped:
        shown[dropped[-1]] = ("note", [f"and {len(dropped)} more in the report"])
        shown = [entry for number, entry in enumerate(shown) if number not in dropped[:-1]]
    found, last = list[str](), ""
    for label, parts in shown:
        for number, part in enumerate(parts):
            found.append(f"{label if number == 0 and label != last else '':<{COLUMN}}{part}")
        last = label
    return found


def split_label(line: str) -> tuple[str, str]:
    label, colon, text = line.partition(": ")
    return (label, text) if colon and label in LABELS else ("", line.strip())


def wrap(text: str) -> list[str]:
    if ": see " in text:
        return [text]
    joined = text.replace(" %", "\u00a0%")  # a number and its percent sign stay together
    parts = textwrap.wrap(joined, WIDTH - COLUMN, break_long_words=False, break_on_hyphens=False) or [""]
    return [part.replace("\u00a0%", " %") for part in parts]


class Forecast:
    """How long training will take, from its own first steps. The very first pays for imports and buffers: it is not counted."""

    def __init__(self, plan: Plan, *, steps: int, validated: int, done: int) -> None:
        """`steps`: training batches of an epoch, `validated`: validation batches, `done`: steps that a resumed run has taken."""
        self.plan, self.steps, self.validated = plan, steps, validated
        self.left = plan.epochs - done / max(1, steps)  # epochs
        self.begin: float | None = None
        self.count, self.ended = 0, False

    def take(self, done: float, *, last: bool) -> str:
        """After each step, at a share `done` of the run; the line, once. `last`: it was the last step of an epoch."""
        if self.ended:
            return ""
        now = time.perf_counter()
        if self.begin is None:
            self.begin = now
        else:
            self.count += 1
        self.ended = last or self.count >= STEPS or now - self.begin >= SECONDS
        if not self.ended or not self.count:
            return ""
        step = (now - self.begin) / self.count * growth(self.plan.progressive, done)
        return lay_out([f"time: {self.describe(step)} ({self.count} {'step' if self.count == 1 else 'steps'} measured)"])[0]

    def describe(self, step: float) -> str:
        """`step`: seconds of an average step."""
        epoch = step * (self.steps + VALIDATION * self.validated)
        whole = f"about {spell_time(self.left * epoch)}" if self.plan.minutes is None else spell_time(60 * self.plan.minutes)
        return f"{whole}, {spell_time(epoch)} per epoch"


def growth(start: float, done: float, *, points: int = 50) -> float:
    """Pixels of an average step of a run whose images grow from a share `start` of their side, against those of a step at `done`."""
    if start >= 1.0:
        return 1.0
    sides = [start + (1.0 - start) * min(1.0, (place + 0.5) / points / GROWING) for place in range(points)]
    now = start + (1.0 - start) * min(1.0, done / GROWING)
    return sum(side * side for side in sides) / points / (now * now)


def spell_time(seconds: float | int) -> str:
    """0.4 s, 12 s, 3 min 20 s, 1 h 5 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min" + (f" {rest} s" if rest and minutes < 10 else "")
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
