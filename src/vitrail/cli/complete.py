"""vitrail complete"""

import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import CompleteOptions

EXAMPLES = """Examples:

  vitrail complete runs/igpt/digits picture.png --out finished/
  vitrail complete runs/igpt/digits folder/ "more/*.png" --out finished/ --samples 8 --keep 0.25
  vitrail complete runs/igpt/digits picture.png --out finished/ --temperature 0.8 --top-k 20
"""


def complete(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    images: Annotated[list[str], Parameter(help="Pictures, folders of pictures, or globs.")],
    /,
    options: CompleteOptions,
) -> int:
    """Finish pictures of which the upper part is given, several times each.

    Writes every sample as a PNG in the model's size, and one sheet: the original, what was given of it, the samples.
    """
    from vitrail.jobs.completing import complete_files

    done = complete_files(run, images, options)
    for error in done.errors:
        print(f"vitrail: {error}", file=sys.stderr)
    if done.sheet is not None:
        print(f"{done.pictures} pictures, {options.samples} samples each")
        print(f"sheet: {done.sheet}")
    return 2 if done.errors else 0
