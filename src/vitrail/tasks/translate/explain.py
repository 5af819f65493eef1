"""What each word of a sentence attends to, and the alignment of a translation with its source."""

from vitrail.explain.files import Done, Progress
from vitrail.report.explaining_sentences import explain_sentences
from vitrail.tasks.verb_options import SentenceExplainOptions


def explain(
    run: str, inputs: list[str], options: SentenceExplainOptions, *, progress: Progress = lambda done, total: None
) -> Done:
    """index.html and its figures in a new folder."""
    return explain_sentences(
        run, inputs, out=options.out, limit=options.limit, layer=options.layer,
        head=options.head if isinstance(options.head, int) else None, word=options.word, progress=progress,
    )  # fmt: skip
