"""The explain.py of every task on sentences: what each word attends to."""

from vitrail.explain.samples import Samples
from vitrail.models.word_model import WordModel
from vitrail.report.explanation import Explanation
from vitrail.report.sentences import explain_sentences
from vitrail.tasks.verb_options import SentenceExplainOptions

UNIT = "sentence"


def find_samples(inputs: list[str]) -> list[str]:
    return inputs


def explain(model: WordModel, samples: Samples[str], options: SentenceExplainOptions) -> Explanation:
    head = options.head if isinstance(options.head, int) else None
    return explain_sentences(model, samples, layer=options.layer, head=head, word=options.word)
