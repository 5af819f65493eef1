"""vitrail explain"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.jobs.options import ExplainOptions
from vitrail.tasks import registry

if TYPE_CHECKING:
    from vitrail.explain.files import Done, Progress

EXAMPLES = """Examples:

  vitrail explain runs/classify/digits picture.png --out look/
  vitrail explain runs/classify/digits folder/ "more/*.jpg" --out look/ --limit 50
  vitrail explain runs/classify/digits picture.png --out look/ --method occlusion --target 7
  vitrail explain runs/classify/digits picture.png --out look/ --layer -1 --query 2 3
  vitrail explain runs/segment/streets picture.png --out look/ --target road
  vitrail explain runs/detect/blood picture.png --out look/ --box 0
  vitrail explain runs/segment3d/heart scan.nii.gz --out look/
  vitrail explain runs/translate/multi30k "Ein Hund läuft, weil er will." --out look/ --word 4
"""


def explain(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    images: Annotated[
        list[str], Parameter(help="Pictures, folders of pictures, or globs; volumes; for a model of text, sentences.")
    ],
    /,
    options: ExplainOptions,
) -> int:
    """Show what a model makes of pictures, of volumes or of sentences, and why.

    Writes one page, index.html, and its figures as files: what the answer rests on, laid over each picture, the attention of
    every layer, the answer layer by layer, and how the model's heads, positions and filters are made. Of sentences: which words each word attends to, and the alignment of
    a translation with its source.
    """
    from vitrail.jobs.explain_boxes import explain_boxes
    from vitrail.jobs.explain_pixels import explain_pixels
    from vitrail.jobs.explain_sentences import explain_sentences, reads_text
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.models.folder import architecture_of
    from vitrail.tasks.classify.explain import explain_files

    explained: Callable[..., Done]
    what = "pictures"
    if reads_text(run):
        explained, what = explain_sentences, "sentences"
    elif registry.task_by_architecture(architecture_of(run) or "") == "segment3d":
        explained, what = explain_voxels, "volumes"
    else:
        explained = {"detr": explain_boxes, "segmenter": explain_pixels}.get(architecture_of(run) or "", explain_files)
    with ProgressBar().counting(f"explaining {what}") as progress:
        done = explained(run, images, options, progress=progress)
    for error in done.errors:
        print(f"vitrail: {error}", file=sys.stderr)
    print(f"{done.pictures} of {done.found} {done.what}, explained by {done.method}")
    print(f"page: {done.page}")
    return 2 if done.errors else 0


def explain_voxels(run: str, volumes: list[str], options: ExplainOptions, *, progress: "Progress") -> "Done":
    """With the options of volumes, until the parser knows those of each task."""
    from dataclasses import fields

    from vitrail.tasks import options as shared
    from vitrail.tasks.classify.explain import refuse_options
    from vitrail.tasks.segment3d import options as own
    from vitrail.tasks.segment3d.explain import explain

    nothing = {"method": "auto", "query": None, "word": None, "box": None}
    refuse_options(options, nothing, "volumes", "their labels are explained by attention; --voxel and --target choose a place")
    if isinstance(options.head, str):
        raise VitrailError(f"--head {options.head}: of a voxel each head is shown, and their mean; give a number")
    found = own.ExplainOptions(**{field.name: getattr(options, field.name) for field in fields(own.ExplainOptions)})
    shared.check(found)
    return explain(run, volumes, found, progress=progress)
