"""vitrail runs"""

import json as json_format
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vitrail.cli.tables import print_table
from vitrail.run.runs import Sort
from vitrail.tasks.options import whole

EXAMPLES = """Examples:

  vitrail runs
  vitrail runs runs/classify --best 3
  vitrail runs a/run another/run --json
"""


def runs(
    *folders: Annotated[str, Parameter(help="Folders to look in, or runs themselves; by default runs/.")],
    sort: Annotated[
        Sort, Parameter(help="score: validation score, within each dataset; time: newest first; name: by path.")
    ] = "score",
    best: Annotated[int | None, Parameter(converter=whole, help="Only the N best of each dataset.")] = None,
    json: Annotated[bool, Parameter(help="Print one JSON object and nothing else.", negative="")] = False,
) -> None:
    """List runs and compare them: how they went, and which options differ."""
    from vitrail.run.runs import differing_options, list_runs, options_table, plain, summary_table

    places = [Path(name).expanduser() for name in folders] or [path for path in [Path("runs")] if path.is_dir()]
    found = list_runs(places, sort=sort, best=best)
    if json:
        print(json_format.dumps({"runs": [run.to_json() for run in found], "differing": differing_options(found)}, default=str))
        return
    if not found:
        print(f"no runs below {', '.join(folders) or 'runs'}")
        return
    for title, part in (("", summary_table(found)), ("Options that differ", options_table(found))):
        if part is not None:
            print_table(*part, title=title)
    for run in found:
        if run.problem:
            print(plain(f"{run.path}: {run.problem}"))
