"""vitrail restore"""

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, shown_class
from vitrail.tasks.options import check
from vitrail.tasks.restore.options import PredictOptions

EXAMPLES = """Examples:

  vitrail restore runs/restore/photos a.png
  vitrail restore runs/restore/photos folder/ "more/*.jpg" --out better/
  vitrail restore runs/restore/photos large.tif --tile 256 --overlap 32
"""
SHOWN = shown_class(PredictOptions, ("json",))


def restore(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    files: Annotated[list[str], Parameter(help="Images, folders of images, or globs.")],
    /,
    options: Any = None,
) -> int:
    """Enlarge images, take away their noise, or mend them: whatever the model learned to undo.

    Each becomes NAME_restored.png, upright, in 8 bits; a gray one stays gray, transparency is kept, and no file is overwritten.
    """
    from vitrail.tasks.restore.predict import predict

    chosen, failed = from_shown(PredictOptions, options or SHOWN()), 0
    check(chosen)
    for found in predict(run, files, chosen):
        print(f"vitrail: {found.line}" if found.failed else found.line, file=sys.stderr if found.failed else sys.stdout)
        failed += found.failed
    return 2 if failed else 0


restore.__annotations__["options"] = SHOWN | None
