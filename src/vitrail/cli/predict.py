"""vitrail predict"""

import json as json_format
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.tasks import registry
from vitrail.tasks.options import whole

EXAMPLES = """Examples:

  vitrail predict runs/classify/digits picture.png
  vitrail predict runs/classify/digits folder/ "more/*.jpg" --top-k 1
  vitrail predict runs/classify/digits picture.png --json
  vitrail predict runs/classify/pets photos/ --engine auto
  vitrail predict runs/segment/streets photos/ --out masks/
  vitrail predict runs/detect/blood photos/ --threshold 0.4 --out boxes/
  vitrail predict runs/segment3d/heart scan.nii.gz --out labels/
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
        str | None,
        Parameter(
            help="A folder: of a segmenter for NAME_mask.png and NAME_overlay.png, of a detector for NAME_boxes.png, of volumes for "
            "their labels, which otherwise lie beside them."
        ),
    ] = None,
    json: Annotated[
        bool, Parameter(help="Print Hugging Face's shapes: a list of label and score a picture.", negative="")
    ] = False,
) -> int:
    """Say what is in pictures, or label the voxels of volumes.

    One picture with --json gives a list of {"label", "score"}; several give a list of such lists, null for an unreadable one. Of a
    segmenter each also has "share", of the picture's pixels, and "value", its number in masks, of a detector "box", in pixels; and
    with --out the files.
    Volumes become NAME_labels.nii.gz with the affine of the scan; --json adds "mask", the file, and "ml" to each label.
    """
    from vitrail.deploy.pipeline import Answer
    from vitrail.errors import VitrailError
    from vitrail.jobs.predict_boxes import count_labels, predict_boxes
    from vitrail.jobs.predict_masks import predict_masks
    from vitrail.models.folder import architecture_of
    from vitrail.tasks.classify.predict import expand, predict

    if registry.task_by_architecture(architecture_of(run) or "") == "segment3d":
        return predict_volumes(run, files, out=out, json=json)
    if top_k < 1:
        raise VitrailError(f"--top-k must be at least 1, got {top_k}")
    kind = architecture_of(run)
    if threshold is not None and kind != "detr":
        raise VitrailError(f"--threshold {threshold} is for detectors, and {run} is none")
    if out is not None and kind not in ("segmenter", "detr"):
        raise VitrailError(
            f"--out {out}: masks, boxes and labels of volumes are written to files; --json prints what a classifier says"
        )
    paths = expand(files)
    width = min(60, max(len(str(path)) for path in paths))
    answers: list[Answer | None] = []
    if kind == "segmenter":
        found = predict_masks(run, paths, top_k=top_k, out=out, engine=engine, merge=merge)
    elif kind == "detr":
        found = predict_boxes(run, paths, threshold=threshold, out=out, engine=engine, merge=merge)
    else:
        found = predict(run, paths, top_k=top_k, engine=engine, merge=merge)
    for path, answer in found:
        if isinstance(answer, VitrailError):
            print(f"vitrail: {answer}", file=sys.stderr)
            answers.append(None)
            continue
        answers.append(answer)
        if not json:
            told = ((row["label"], row["share" if "share" in row else "score"]) for row in answer)
            words = "   ".join(f"{label} {100 * share:5.1f} %" for label, share in told)
            print(f"{path!s:<{width}}  " + (count_labels(answer) if kind == "detr" else words))
    if json:
        print(json_format.dumps(answers[0] if len(answers) == 1 else answers))
    return 2 if None in answers else 0


def predict_volumes(run: str, files: list[str], *, out: str | None, json: bool) -> int:
    from vitrail.tasks.segment3d.options import PredictOptions
    from vitrail.tasks.segment3d.predict import predict

    results = []
    for found in predict(run, files, PredictOptions(out=out, json=json)):
        results.append(found.result)
        if found.failed:
            print(f"vitrail: {found.line}", file=sys.stderr)
        elif not json:
            print(found.line)
    if json:
        print(json_format.dumps(results[0] if len(results) == 1 else results))
    return 2 if None in results else 0
