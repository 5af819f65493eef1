"""vitrail caption"""

import json as json_format
import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.tasks.options import whole

EXAMPLES = """Examples:

  vitrail caption runs/caption/shapes picture.png
  vitrail caption runs/caption/shapes folder/ "more/*.jpg" --beams 1
  vitrail caption runs/caption/shapes picture.png --out look/
"""


def caption(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    files: Annotated[list[str], Parameter(help="Pictures, folders of pictures, or globs.")],
    /,
    *,
    beams: Annotated[int, Parameter(converter=whole, help="Beams of the search; 1: the likeliest word each time.")] = 5,
    json: Annotated[
        bool, Parameter(help="Print Hugging Face's shapes: a list of generated_text a picture.", negative="")
    ] = False,
    out: Annotated[
        str | None, Parameter(help="A new folder for figures: where the model looked for each word of each caption.")
    ] = None,
) -> int:
    """Say in words what is in pictures.

    One picture with --json gives [{"generated_text"}]; several give a list of such lists, null for an unreadable one.
    """
    from vitrail.data.inputs import expand
    from vitrail.errors import VitrailError
    from vitrail.explain.files import check_out
    from vitrail.tasks.caption.predict import caption_files

    paths = expand(files)
    folder = None if out is None else check_out(out)
    width = min(60, max(len(str(path)) for path in paths))
    answers: list[list[dict[str, str]] | None] = []
    for path, answer in caption_files(run, paths, beams=beams, out=folder):
        if isinstance(answer, VitrailError):
            print(f"vitrail: {answer}", file=sys.stderr)
            answers.append(None)
            continue
        answers.append([{"generated_text": answer}])
        if not json:
            print(f"{path!s:<{width}}  {answer}")
    if json:
        print(json_format.dumps(answers[0] if len(answers) == 1 else answers, ensure_ascii=False))
    return 2 if None in answers else 0
