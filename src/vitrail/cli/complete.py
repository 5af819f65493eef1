"""vitrail complete"""

import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import CompleteOptions

EXAMPLES = """Examples:

  vitrail complete runs/igpt/digits image.png --out finished/
  vitrail complete runs/igpt/digits folder/ "more/*.png" --out finished/ --samples 8 --keep 0.25
  vitrail complete runs/igpt/digits image.png --out finished/ --temperature 0.8 --top-k 20
  vitrail complete runs/language/book "It was a dark" --samples 3 --top-p 0.9
"""


def complete(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    words: Annotated[
        list[str], Parameter(help="Images, folders of images, or globs; of a language model the beginnings of texts.")
    ],
    /,
    options: CompleteOptions | None = None,
) -> int:
    """Complete images of which the upper part is given, or texts of which the beginning is, several times each.

    Of images every sample is written as a PNG in the model's size, and one sheet: the original, what was given of it, the samples.
    Texts are printed, one line per sample.
    """
    from vitrail.jobs.completing import complete_words

    options = options or CompleteOptions()
    done = complete_words(run, words, options)
    if isinstance(done, list):
        for text in (text for samples in done for text in samples):
            print(text)
        return 0
    for error in done.errors:
        print(f"vitrail: {error}", file=sys.stderr)
    if done.sheet is not None:
        print(f"{done.images} images, {options.samples} samples each")
        print(f"sheet: {done.sheet}")
    return 2 if done.errors else 0
