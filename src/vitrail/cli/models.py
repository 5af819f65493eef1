"""vitrail models"""

import json as json_format
from typing import Annotated

from cyclopts import Parameter

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
    """List the models that can be built by name."""
    from vitrail.errors import VitrailError, suggestion
    from vitrail.models.catalogue import MODELS, list_models, table_row

    names = list_models(pattern)
    if not names:
        raise VitrailError(f'no model matches "{pattern}"{suggestion(pattern, MODELS)}')
    rows = [table_row(name) for name in names]
    if json:
        print(json_format.dumps(rows))
        return
    print(f"{'name':<24} {'parameters':>12}  {'width':>5} {'depth':>5} {'heads':>5} {'patch':>5}  reads")
    for row in rows:
        shown = {name: "-" if value is None else value for name, value in row.items()}  # a convolutional net has no patches
        size = row["image_size"]
        reads = row["takes"] if size is None else f"{size[0]}x{size[1]}"
        print("{name:<24} {parameters:>12,}  {width:>5} {depth:>5} {heads:>5} {patch:>5}  {reads}".format(**shown, reads=reads))
