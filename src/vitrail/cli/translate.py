"""vitrail translate"""

import json as json_format
import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.tasks.options import whole

EXAMPLES = """Examples:

  vitrail translate runs/translate/multi30k "Zwei Hunde spielen im Schnee."
  vitrail translate runs/translate/multi30k < sentences.de > sentences.en
  vitrail translate runs/translate/multi30k "Ein Mann." "Eine Frau." --json
"""


def translate(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")],
    sentences: Annotated[
        list[str] | None, Parameter(help="What to translate; without any, standard input line by line.")
    ] = None,
    /,
    *,
    beams: Annotated[int, Parameter(converter=whole, help="Beams of the search; 1: the likeliest word each time.")] = 5,
    batch: Annotated[int, Parameter(converter=whole, help="Lines of standard input at a time.")] = 32,
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    json: Annotated[bool, Parameter(help="Print Hugging Face's shapes: a list of translation_text.", negative="")] = False,
) -> None:
    """Translate sentences.

    A line in gives a line out, in the same order; an empty line gives an empty one. What was cut, or holds letters that the model
    has never seen, is named on standard error.
    """
    from vitrail.tasks.translate.predict import read_standard_input, translate

    words = sentences or read_standard_input(sys.stdin.buffer)
    batch = 1 if not sentences and sys.stdin.isatty() else batch  # a person waits for each answer
    answers = []
    for number, answer in enumerate(translate(run, words, beams=beams, batch=batch, device=device), start=1):
        for note in answer.notes:
            print(f"vitrail: line {number:,}: {note}", file=sys.stderr)
        if json:
            answers.append({"translation_text": answer.text})
        else:
            print(answer.text, flush=not sentences)
    if json:
        print(json_format.dumps(answers, ensure_ascii=False))
