"""What `vitrail check` prints: lines, each with its style (rich's), the findings first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vitrail.data.findings import Finding, plural
from vitrail.learn.training.progress_bar import clock
from vitrail.rendering import count_columns, shorten
from vitrail.run.check import Check
from vitrail.run.forecast import Suggestion
from vitrail.tasks import registry

Line = tuple[str, str]  # style, text
FIXABLE = ("leak", "unreadable", "label conflict")
EXAMPLES = 3  # images shown of a finding
LARGEST, SMALLEST = 12, 4  # classes shown of many: so many of the largest, so many of the smallest
BAR, NAME = 30, 28  # letters


def describe(check: Check) -> Iterator[Line]:
    """The whole summary."""
    counts = ", ".join(f"{count:,} {name}" for name, count in check.splits.items())
    several = ", several labels per image" if check.multi_label else ""
    yield "bold", f"{check.name}: {len(check.classes):,} {plural(len(check.classes), 'class', 'classes')}, {counts}{several}"
    for note in check.notes:
        yield "", f"  {note}"
    yield from describe_findings(check)
    yield "", ""
    yield from describe_classes(check)
    yield "", ""
    yield from describe_images(check)
    yield "", ""
    yield from describe_rest(check)


def describe_findings(check: Check) -> Iterator[Line]:
    if not check.findings:
        yield "green", "nothing wrong found"
    for finding in check.findings:
        shout = finding.level == "serious"
        kind = finding.kind.upper() if shout else finding.kind
        yield "bold red" if shout else "yellow", f"{'!!' if shout else ' !'} {kind}: {finding.text}"
        yield from (("", f"      {brief(line, check)}") for line in examples(finding))


def brief(line: str, check: Check) -> str:
    """A line with file names given from the data's folder on."""
    return shorten(line.replace(f"{Path(check.source).expanduser()}/", ""), 200)


def examples(finding: Finding) -> Iterator[str]:
    """Some of the images of a finding, and how many more there are; class names stand in its text already."""
    if finding.kind in ("empty class", "missing class", "layout"):
        return
    yield from finding.pictures[:EXAMPLES]
    if len(finding.pictures) > EXAMPLES:
        yield f"and {len(finding.pictures) - EXAMPLES:,} more (--json or --out DIR tells all)"


def describe_classes(check: Check) -> Iterator[Line]:
    """A bar a class, the largest first; of many classes the middle is left out."""
    first = next(iter(check.splits))
    rows = sorted(check.classes.items(), key=lambda item: -item[1][first])
    most = max(1, rows[0][1][first]) if rows else 1
    width = min(NAME, max((count_columns(name) for name, _ in rows), default=0))
    hidden = len(rows) - LARGEST - SMALLEST
    for place, (name, counts) in enumerate(rows):
        if hidden > 1 and place == LARGEST:
            yield (
                "",
                f"  … {hidden:,} more classes of {rows[place][1][first]:,} to {rows[-SMALLEST - 1][1][first]:,} images …",
            )
        if hidden > 1 and LARGEST <= place < len(rows) - SMALLEST:
            continue
        bar = "█" * max(1 if counts[first] else 0, round(BAR * counts[first] / most))
        shown = shorten(name, width)
        others = ", ".join(f"{count:,} {split}" for split, count in counts.items() if split != first)
        padding = " " * (width - count_columns(shown))
        yield "", f"  {shown}{padding}  {bar:<{BAR}} {counts[first]:>6,} {first}{f', {others}' if others else ''}"


def describe_images(check: Check) -> Iterator[Line]:
    """Sizes, modes, formats."""
    if check.sizes:
        small, middle, large = (f"{height}x{width}" for height, width in check.sizes.values())
        alike = small == large
        least, median, most = check.aspects.values()
        yield "", f"  size     {f'all {small}' if alike else f'{small} to {large}, median {middle}'} (height x width)"
        yield (
            "",
            f"  aspect   {f'{median:g}' if least == most else f'{least:g} to {most:g}, median {median:g}'} (width / height)",
        )
    if check.modes:
        yield "", "  mode     " + ", ".join(f"{count:,} {name}" for name, count in check.modes.items())
    if check.formats:
        yield "", "  format   " + ", ".join(f"{count:,} {name}" for name, count in check.formats.items())
    yield "", f"  volume   {check.megabytes:,.1f} MB"


def describe_rest(check: Check) -> Iterator[Line]:
    """Files written, the suggestion, and the command as the last line."""
    for path in check.written:
        yield "", f"written: {path}"
    if not check.written:
        yield "", "--out DIR writes a contact sheet of the images and this check as JSON"
    if check.cleaned is not None:
        out = check.cleaned.left_out
        yield "", f"written: {check.cleaned.path}, {check.cleaned.kept:,} images; {len(out):,} left out"
        yield from (("", f"      {brief(f'{name}: {reason}', check)}") for name, reason in out[:EXAMPLES])
        if len(out) > EXAMPLES:
            yield "", f"      and {len(out) - EXAMPLES:,} more"
    elif check.task == registry.DEFAULT and check.formats and any(finding.kind in FIXABLE for finding in check.findings):
        yield "", "--fix clean.csv writes a list without unreadable files, leaks and copies"
    if check.suggestion is None:
        yield "yellow", f"no suggestion: {check.no_suggestion}"
        return
    yield from describe_suggestion(check.suggestion, sample="image")


def describe_suggestion(plan: Suggestion, *, sample: str) -> Iterator[Line]:
    """What to train, how long that takes, and the command. `sample`: what is read one by one."""
    size = "x".join(map(str, plan.image_size))
    yield "", f"suggested: {plan.model} ({plan.parameters:,} parameters) at {size}, recipe {plan.recipe}, batch {plan.batch}"
    yield (
        "",
        f"  about {clock(plan.total_seconds)} on this machine's {plan.device}: {plan.epochs} epochs of {plan.epoch_seconds:.1f} s "
        f"(measured: {1000 * plan.step_seconds:.0f} ms a step, {1000 * plan.read_seconds:.1f} ms to read one {sample})",
    )
    yield "bold", plan.command


def describe_other(task: str, found: Any) -> Iterator[str]:
    """What a task's own check found, and how to train on it."""
    own = registry.need_part(task, "check").CHECK
    yield from own.describe(found)
    yield from (line for _, line in describe_suggestion(found.suggestion, sample=own.sample))
