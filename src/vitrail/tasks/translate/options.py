"""Options of translation. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks import verb_options as shared
from vitrail.tasks.options import COUNT, SHARE, TASK, TEXT, Auto, CommonOptions, integer
from vitrail.tasks.text_options import BeamOptions, TextModelOptions
from vitrail.tasks.verb_options import BeamEvalOptions, SentenceExplainOptions


@dataclass(frozen=True, kw_only=True)
class Options(BeamOptions, TextModelOptions, CommonOptions):
    """What `vitrail train --task translate` takes."""

    retired: ClassVar[Mapping[str, Any]] = {"shard": False}

    data: Annotated[
        str,
        Parameter(
            help="A folder with a file for each split and language, such as train.de and train.en; or copy, reverse, sort."
        ),
    ]
    task: Annotated[Literal["translate"], Parameter(help="What to learn.")] = "translate"
    source: Annotated[
        str | None, Parameter(group=TASK, help="Language to translate from, as the files end: de for train.de.")
    ] = None
    target: Annotated[str | None, Parameter(group=TASK, help="Language to translate to.")] = None
    merge_dropout: Annotated[
        float | Auto,
        SHARE,
        Parameter(
            group=TEXT, help="Share of merges left out, so that a word is cut in several ways; the recipe's unless given."
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class EvalOptions(BeamEvalOptions, shared.EvalOptions):
    """What `vitrail eval` takes beside a run that translates."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions(shared.PredictOptions):
    """What `vitrail predict` takes beside a run that translates and sentences."""

    renamed: ClassVar[Mapping[str, str]] = {"beams": "num_beams", "batch": "batch_size"}

    num_beams: Annotated[int, COUNT, integer("Beams of the search; 1: the likeliest token each time.")] = 5
    batch_size: Annotated[int, COUNT, integer("Sentences at a time.")] = 32
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"


ExplainOptions = SentenceExplainOptions


# `vitrail translate`: its help.
PREDICT_ABOUT = """Translate sentences.

A line in gives a line out, in the same order; an empty line gives an empty one. What was cut, or holds letters that the model
has never seen, is named on standard error. With --json a list of translation_text is printed.
"""
PREDICT_EXAMPLES = """\
  vitrail translate runs/translate/multi30k "Zwei Hunde spielen im Schnee."
  vitrail translate runs/translate/multi30k < sentences.de > sentences.en
  vitrail translate runs/translate/multi30k "Ein Mann." "Eine Frau." --json
"""
