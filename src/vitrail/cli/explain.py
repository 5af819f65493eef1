"""vitrail explain"""

import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import ExplainOptions

EXAMPLES = """Examples:

  vitrail explain runs/classify/digits picture.png --out look/
  vitrail explain runs/classify/digits folder/ "more/*.jpg" --out look/ --limit 50
  vitrail explain runs/classify/digits picture.png --out look/ --method occlusion --target 7
  vitrail explain runs/classify/digits picture.png --out look/ --layer -1 --query 2 3
  vitrail explain runs/detect/blood picture.png --out look/ --box 0
  vitrail explain runs/translate/multi30k "Ein Hund läuft, weil er will." --out look/ --word 4
"""


def explain(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    images: Annotated[list[str], Parameter(help="Pictures, folders of pictures, or globs; for a model of text, sentences.")],
    /,
    options: ExplainOptions,
) -> int:
    """Show what a model makes of pictures, or of sentences, and why.

    Writes one page, index.html, and its figures as files: what the answer rests on, laid over each picture, the attention of
    every layer, the answer layer by layer, and how the model's heads, positions and filters are made. Of sentences: which words each word attends to, and the alignment of
    a translation with its source.
    """
    from vitrail.jobs.explain import explain_files
    from vitrail.jobs.explain_boxes import explain_boxes
    from vitrail.jobs.explain_sentences import explain_sentences, reads_text
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.models.folder import architecture_of

    text, explained = reads_text(run), explain_boxes if architecture_of(run) == "detr" else explain_files
    with ProgressBar().counting(f"explaining {'sentences' if text else 'pictures'}") as progress:
        done = (explain_sentences if text else explained)(run, images, options, progress=progress)
    for error in done.errors:
        print(f"vitrail: {error}", file=sys.stderr)
    print(f"{done.pictures} of {done.found} {done.what}, explained by {done.method}")
    print(f"page: {done.page}")
    return 2 if done.errors else 0
