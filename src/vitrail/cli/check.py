"""vitrail check"""

import json as json_format
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks import registry
from vitrail.tasks.options import several, whole

EXAMPLES = """Examples:

  vitrail check images/
  vitrail check images/ --out check/
  vitrail check images/ --fix clean.csv
  vitrail check hf:owner/name --json
  vitrail check streets/ --task segment
  vitrail check blood/ --task detect

--out writes a contact sheet to look at; the list of --fix is data by itself: vitrail train --data clean.csv

Exit code: 0 if nothing serious was found, 1 if something was (a leak between splits, unreadable files, one file with two
labels, corrupt labels, an empty class, a folder that is no dataset), 2 if the data cannot be opened.
"""


def check(
    data: Annotated[str, Parameter(help="A folder of images, a list or other file, or a built-in set: digits, shapes.")],
    /,
    *,
    task: Annotated[
        str, Parameter(help="What it is for, as with `vitrail train`: masks or boxes are looked at too, where it needs them.")
    ] = registry.DEFAULT,
    ignore_index: Annotated[
        tuple[int, ...] | None,
        several(
            "segment: numbers in masks that belong to no class; by default those that classes.txt calls void, ignore or unlabelled."
        ),
    ] = None,
    fix: Annotated[
        str | None, Parameter(help="Write a cleaned list to this .csv file: no unreadable files, no leaks, every file once.")
    ] = None,
    out: Annotated[
        str | None, Parameter(help="Write contact_sheet.png, check.json and bad_files.csv into this folder.")
    ] = None,
    json: Annotated[bool, Parameter(help="Print one JSON object and nothing else.", negative="")] = False,
    workers: Annotated[int | Literal["auto"], Parameter(converter=whole, help="Processes that read images.")] = "auto",
    seed: Annotated[int, Parameter(converter=whole, help="Which images are shown, and how what lacks a split is divided.")] = 0,
) -> int:
    """Look at data before training on it.

    Every image is read once: broken files, duplicates and leaks between splits (also cropped, rescaled or mirrored), classes,
    sizes and labels are reported, then how to train on it and how long that takes here. Of a folder of NIfTI files: pairs, sizes,
    spacings, labels, and what cannot be used.
    """
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.run.check import check, find_other
    from vitrail.run.check_text import describe

    other = find_other(data)
    if other is not None:
        return print_other(other, data, fix=fix, out=out, json=json, seed=seed)
    bar = ProgressBar(quiet=json)
    with bar.counting("reading images") as progress:
        processes = None if workers == "auto" else workers
        found = check(
            data, fix=fix, out=out, workers=processes, seed=seed, progress=progress, task=task, ignore_index=ignore_index
        )
    if json:
        json_format.dump(found.to_json(), sys.stdout)
        print()
    else:
        for style, line in describe(found):
            bar.console.print(line, style=style, markup=False)
    return 1 if found.serious else 0


def print_other(task: str, data: str, *, fix: str | None, out: str | None, json: bool, seed: int) -> int:
    """Data of a task that is looked at in its own way."""
    from vitrail.errors import VitrailError
    from vitrail.run.check import check_other
    from vitrail.run.check_text import describe_other
    from vitrail.tasks import registry

    if fix is not None or out is not None:
        raise VitrailError(f"--fix and --out are for images: of {registry.find(task).unit} what cannot be used is named here")
    found = check_other(task, data, seed=seed)
    if json:
        print(json_format.dumps(found.to_json()))
    else:
        print(*describe_other(task, found), sep="\n")
    return 1 if found.bad else 0
