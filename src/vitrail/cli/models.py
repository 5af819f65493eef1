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
  vitrail models --pretrained
"""


def models(
    pattern: Annotated[str, Parameter(help='A shell pattern, such as "vit_*_patch16_*".')] = "*",
    /,
    *,
    json: Annotated[bool, Parameter(help="Print the table as JSON.", negative="")] = False,
    pretrained: Annotated[
        bool, Parameter(help="List weights instead: those of the package, then recommended ones of the hub.", negative="")
    ] = False,
) -> None:
    """List the models that can be built by name: by family on a terminal, one line per model in a pipe or a file."""
    from vitrail.errors import VitrailError, suggestion
    from vitrail.models.catalogue import MODELS, list_models, table_row

    if pretrained:
        found = weight_rows(pattern)
        print(json_format.dumps(found) if json else "\n".join(weight_lines(found)))
        return
    names = list_models(pattern)
    if not names:
        raise VitrailError(f'no model matches "{pattern}"{suggestion(pattern, MODELS)}')
    rows = [table_row(name) for name in names]
    if json:
        print(json_format.dumps(rows))
        return
    print("\n".join(group_rows(rows) if sys.stdout.isatty() else table_lines(rows, (*COLUMNS, "family"))))


def weight_rows(pattern: str) -> list[dict[str, Any]]:
    """Weights by the names of their models: those of the package first. What is not known is None."""
    from fnmatch import fnmatch

    from vitrail.errors import VitrailError
    from vitrail.models.pretrained import TABLE, front_matter_of, list_packaged, read_sums

    cards = {one: front_matter_of(one.folder / "README.md") for one in list_packaged()}
    rows: list[dict[str, Any]] = [
        {"name": one.name, "weights": one.title, "license": str(card.get("license", "see its card")), "data": ", ".join(map(str, card.get("datasets", ("see its card",)))),
         "accuracy": None, "accuracy_from": None, "revision": None, "sha256": read_sums(one.folder).get("model.safetensors"),
         "megabytes": round((one.folder / "model.safetensors").stat().st_size / 1e6, 1), "gated": False}
        for one, card in cards.items()
    ] + [
        {"name": row.name, "weights": row.source, "license": row.license, "data": row.data, "accuracy": row.accuracy,
         "accuracy_from": row.accuracy_from or None, "revision": row.revision or None, "sha256": row.sha256 or None,
         "megabytes": row.megabytes, "gated": row.gated}
        for row in TABLE
    ]  # fmt: skip
    found = [row for row in rows if fnmatch(row["name"], pattern)]
    if not found:
        raise VitrailError(f'no weights for a model that matches "{pattern}" (vitrail models --pretrained lists them all)')
    return found


def weight_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line of names and one for each row, two spaces between columns."""
    from vitrail.models.pretrained import PERMISSIVE

    cells = [("name", "weights", "ImageNet-1k", "MB", "license", "data")]
    for row in rows:
        accuracy = "-" if row["accuracy"] is None else f"{row['accuracy']:.1f} %"
        terms = "see its card" if row["license"] == "other" else row["license"]
        terms += "" if row["license"] in (*PERMISSIVE, "other") else " (restricted)"
        terms += ", gated" if row["gated"] else ""
        cells.append(
            (
                row["name"],
                row["weights"],
                accuracy,
                "-" if row["megabytes"] is None else f"{row['megabytes']:g}",
                terms,
                row["data"],
            )
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


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
