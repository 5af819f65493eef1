"""vitrail check"""

import json as json_format
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks.options import several, whole

EXAMPLES = """Examples:

  vitrail check pictures/
  vitrail check pictures/ --out check/
  vitrail check pictures/ --fix clean.csv
  vitrail check hf:owner/name --json
  vitrail check streets/ --task segment
  vitrail check blood/ --task detect

--out writes a contact sheet to look at; the list of --fix is data by itself: vitrail train --data clean.csv

Exit code: 0 if nothing serious was found, 1 if something was (a leak between splits, unreadable files, one file with two
labels, corrupt labels, an empty class, a folder that is no data set), 2 if the data cannot be opened.
"""


def check(
    data: Annotated[str, Parameter(help="A folder of pictures, a list or other file, or a built-in set: digits, shapes.")],
    /,
    *,
    task: Annotated[
        Literal["classify", "segment", "detect"],
        Parameter(help="What it is for; segment, detect: masks or boxes are looked at too."),
    ] = "classify",
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
    workers: Annotated[int | Literal["auto"], Parameter(converter=whole, help="Processes that read pictures.")] = "auto",
    seed: Annotated[
        int, Parameter(converter=whole, help="Which pictures are shown, and how what lacks a split is divided.")
    ] = 0,
) -> int:
    """Look at data before training on it.

    Every picture is read once: broken files, duplicates and leaks between splits (also cropped, rescaled or mirrored), classes,
    sizes and labels are reported, then how to train on it and how long that takes here. Of a folder of NIfTI files: pairs, sizes,
    spacings, labels, and what cannot be used.
    """
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.run.check import check
    from vitrail.run.check_text import describe
    from vitrail.tasks.segment3d.check import has_volumes

    if has_volumes(data):
        return print_volumes(data, fix=fix, out=out, json=json, seed=seed)
    bar = ProgressBar(quiet=json)
    with bar.counting("reading pictures") as progress:
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


def print_volumes(data: str, *, fix: str | None, out: str | None, json: bool, seed: int) -> int:
    from vitrail.errors import VitrailError
    from vitrail.run.check_text import describe_suggestion
    from vitrail.run.forecast import suggest_for_volumes
    from vitrail.tasks.segment3d.check import check_volumes, describe_check

    if fix is not None or out is not None:
        raise VitrailError("--fix and --out are for images: of volumes what cannot be used is printed")
    found = check_volumes(data, suggest=lambda split: suggest_for_volumes(split, data, seed=seed), seed=seed)
    if json:
        print(json_format.dumps(found.to_json()))
    else:
        print(*describe_check(found), *(line for _, line in describe_suggestion(found.suggestion, sample="crop")), sep="\n")
    return 1 if found.bad else 0
