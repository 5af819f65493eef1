"""vitrail predict"""

import json as json_format
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.jobs.options import whole

EXAMPLES = """Examples:

  vitrail predict runs/classify/digits picture.png
  vitrail predict runs/classify/digits folder/ "more/*.jpg" --top-k 1
  vitrail predict runs/classify/digits picture.png --json
  vitrail predict runs/classify/pets photos/ --engine auto
  vitrail predict runs/detect/blood photos/ --threshold 0.4 --out boxes/
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
    engine: Annotated[
        Literal["auto", "torch", "compile", "onnxruntime", "openvino"],
        Parameter(help="What computes the answers; auto: the fastest of those installed, measured once and remembered."),
    ] = "torch",
    threshold: Annotated[
        float | None, Parameter(help="Of a detector: tell boxes from this score on; by default 0.5, or 0.3 of sigmoids.")
    ] = None,
    out: Annotated[
        str | None, Parameter(help="Of a detector: a folder for NAME_boxes.png, the boxes drawn on pictures.")
    ] = None,
    json: Annotated[
        bool, Parameter(help="Print Hugging Face's shapes: a list of label and score a picture.", negative="")
    ] = False,
) -> int:
    """Say what is in pictures.

    One picture with --json gives a list of {"label", "score"}; several give a list of such lists, null for an unreadable one. Of a
    detector each also has "box", in pixels, and with --out the file.
    """
    from vitrail.deploy.pipeline import Answer
    from vitrail.errors import VitrailError
    from vitrail.jobs.predict import expand, predict
    from vitrail.jobs.predict_boxes import count_labels, is_detector, predict_boxes

    if top_k < 1:
        raise VitrailError(f"--top-k must be at least 1, got {top_k}")
    paths = expand(files)
    width = min(60, max(len(str(path)) for path in paths))
    answers: list[Answer | None] = []
    boxes = is_detector(run)
    if boxes:
        found = predict_boxes(run, paths, threshold=threshold, out=out, engine=engine, merge=merge)
    elif out is not None or threshold is not None:
        raise VitrailError(
            f"{'--threshold' if out is None else '--out'} is for detectors, and {run} is none; --json prints its answers"
        )
    else:
        found = predict(run, paths, top_k=top_k, engine=engine, merge=merge)
    for path, answer in found:
        if isinstance(answer, VitrailError):
            print(f"vitrail: {answer}", file=sys.stderr)
            answers.append(None)
            continue
        answers.append(answer)
        if not json:
            told = [f"{row['label']} {100 * row['score']:5.1f} %" for row in answer]
            print(f"{path!s:<{width}}  " + (count_labels(answer) if boxes else "   ".join(told)))
    if json:
        print(json_format.dumps(answers[0] if len(answers) == 1 else answers))
    return 2 if None in answers else 0
