"""vitrail cascade"""

import json
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.words import CASCADE_OPTIONS

EXAMPLES = """Examples:

  vitrail cascade runs/classify/small runs/classify/large --agreement 0.99 --out fast/
  vitrail cascade runs/classify/small runs/classify/large --data images/ --agreement 0.98 --sure 0.95 --out fast/
  vitrail cascade runs/classify/flexible --sizes 16 32 --out fast/
"""


def cascade(
    models: Annotated[list[str], Parameter(help="Run folders, model folders or hub ids, from cheap to dear.")],
    /,
    options: Any,
) -> int:
    """Let easy images leave early: a cheap model answers where it is confident, a more expensive one the rest.

    How confident it must be is chosen on validation images, so that the cascade answers at least a share --agreement of them as the last model
    does; test is read once, at the end. `vitrail predict` takes the folder of --out as it takes a run.
    """
    from vitrail.run.cascade import run_cascade

    result, lines = run_cascade(models, options, quiet=options.json)
    if options.json:
        print(json.dumps(result))
    else:
        for line in lines:
            print(line)
    return 0


cascade.__annotations__["options"] = CASCADE_OPTIONS
