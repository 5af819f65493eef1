"""vitrail predict"""

import json as json_format
import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import whole

EXAMPLES = """Examples:

  vitrail predict runs/classify/digits picture.png
  vitrail predict runs/classify/digits folder/ "more/*.jpg" --top-k 1
  vitrail predict runs/classify/digits picture.png --json
"""


def predict(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    files: Annotated[list[str], Parameter(help="Pictures, folders of pictures, or globs.")],
    /,
    *,
    top_k: Annotated[int, Parameter(converter=whole, help="How many classes to tell of each picture.")] = 3,
    merge: Annotated[
        int | None,
        Parameter(converter=whole, help="Of a vit: tokens that each block merges into others; by default the run's."),
    ] = None,
    json: Annotated[
        bool, Parameter(help="Print Hugging Face's shapes: a list of label and score a picture.", negative="")
    ] = False,
) -> int:
    """Say what is in pictures.

    One picture with --json gives a list of {"label", "score"}; several give a list of such lists, null for an unreadable one.
    """
    from vitrail.deploy.pipeline import Answer
    from vitrail.errors import VitrailError
    from vitrail.jobs.predict import expand, predict

    if top_k < 1:
        raise VitrailError(f"--top-k must be at least 1, got {top_k}")
    paths = expand(files)
    width = min(60, max(len(str(path)) for path in paths))
    answers: list[Answer | None] = []
    for path, answer in predict(run, paths, top_k=top_k, merge=merge):
        if isinstance(answer, VitrailError):
            print(f"vitrail: {answer}", file=sys.stderr)
            answers.append(None)
            continue
        answers.append(answer)
        if not json:
            print(f"{path!s:<{width}}  " + "   ".join(f"{row['label']} {100 * row['score']:5.1f} %" for row in answer))
    if json:
        print(json_format.dumps(answers[0] if len(answers) == 1 else answers))
    return 2 if None in answers else 0
