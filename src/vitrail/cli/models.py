"""vitrail models"""

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

NUMBERS = ("parameters", "width", "depth", "heads", "patch")
COLUMNS = ("name", *NUMBERS, "reads")
EXAMPLES = """Examples:

  vitrail models
  vitrail models "vit_base*" --json
"""


def models(
    pattern: Annotated[str, Parameter(help='A shell pattern, such as "vit_*_patch16_*".')] = "*",
    /,
    *,
    json: Annotated[bool, Parameter(help="Print the table as JSON.", negative="")] = False,
) -> None:
    """List the models that can be built by name: by family on a terminal, one line per model in a pipe or a file."""
    from vitrail.errors import VitrailError, suggestion
    from vitrail.models.catalogue import MODELS, list_models, table_row

    names = list_models(pattern)
    if not names:
        raise VitrailError(f'no model matches "{pattern}"{suggestion(pattern, MODELS)}')
    rows = [table_row(name) for name in names]
    if json:
        print(json_format.dumps(rows))
        return
    print("\n".join(group_rows(rows) if sys.stdout.isatty() else table_lines(rows, (*COLUMNS, "family"))))


def group_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For a person: the models of each family under its name. All columns are as wide as the widest of all families."""
    head, *lines = table_lines(rows, COLUMNS)
    families: dict[str, list[str]] = {}
    for row, line in zip(rows, lines, strict=True):
        families.setdefault(row["family"], []).append(line)
    parts = [part for family in sorted(families) for part in ("", family, *(f"  {line}" for line in families[family]))]
    return [f"  {head}", *parts]


def table_lines(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """A line of names and one per model, without spaces inside a column: numbers to the right, words to the left."""
    cells = [columns, *([show(row, name) for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for cell, width, name in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in cells
    ]


def show(row: Mapping[str, Any], name: str) -> str:
    if name == "reads":
        size = row["image_size"]
        return str(row["takes"]) if size is None else "x".join(map(str, size))
    value = row[name]
    return "-" if value is None else f"{value:,}" if name == "parameters" else str(value)  # a convolutional net has no patches
