"""vitrail restore"""

import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import RestoreOptions

EXAMPLES = """Examples:

  vitrail restore runs/restore/photos picture.png
  vitrail restore runs/restore/photos folder/ "more/*.jpg" --out better/
  vitrail restore runs/restore/photos large.tif --tile 256 --overlap 32
"""


def restore(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    files: Annotated[list[str], Parameter(help="Pictures, folders of pictures, or globs.")],
    /,
    options: RestoreOptions | None = None,
) -> int:
    """Enlarge pictures, take away their noise, or mend them: whatever the model learned to undo.

    Each becomes NAME_restored.png, upright, in 8 bits; a gray one stays gray, transparency is kept, and no file is overwritten.
    """
    from vitrail.errors import VitrailError
    from vitrail.jobs.restore import restore_files

    failed = 0
    for path, found in restore_files(run, files, options or RestoreOptions()):
        if isinstance(found, VitrailError):
            print(f"vitrail: {found}", file=sys.stderr)
            failed += 1
        else:
            print(f"{path} -> {found}")
    return 2 if failed else 0
