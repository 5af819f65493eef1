"""Options of language models. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.tasks import verb_options as shared
from vitrail.tasks.options import COUNT, SEED, TASK, TEXT, Auto, CommonOptions, Range, integer, switch
from vitrail.tasks.text_options import TextModelOptions
from vitrail.tasks.verb_options import SentenceExplainOptions


@dataclass(frozen=True, kw_only=True)
class Options(TextModelOptions, CommonOptions):
    """What `vitrail train --task language` takes."""

    retired: ClassVar[Mapping[str, Any]] = {"shard": False}

    task: Annotated[Literal["language"], Parameter(help="What to learn.")] = "language"
    data: Annotated[str, Parameter(help="A text file, or a folder of them.")]
    max_length: Annotated[
        int | Auto, Range(ge=2), integer("Tokens that the model reads at once, a block of the running text.", group=TEXT)
    ] = "auto"
    masked: Annotated[bool, switch("Fill in what is masked instead of continuing the text.", group=TASK)] = False


@dataclass(frozen=True, kw_only=True)
class PredictOptions(shared.PredictOptions):
    """What `vitrail predict` takes beside a language model and the beginnings of texts, or texts with <mask> in them."""

    renamed: ClassVar[Mapping[str, str]] = {"longest": "max_length"}

    samples: Annotated[int, COUNT, integer("Continuations of each text.")] = 4
    max_length: Annotated[int | None, COUNT, integer("New tokens, at most; by default as many as the model reads.")] = None
    temperature: Annotated[
        float, Range(ge=0), Parameter(help="Below 1 likelier tokens, above 1 less likely ones; 0: the likeliest each time.")
    ] = 1.0
    top_k: Annotated[
        int | None, COUNT, integer("Draw among so many of the likeliest tokens; of a masked model, how many to list.")
    ] = None
    top_p: Annotated[
        float | None, Range(gt=0, le=1), Parameter(help="Draw among the likeliest tokens that make up this share.")
    ] = None
    seed: Annotated[int, SEED, integer("Decides every draw.")] = 0
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"


ExplainOptions = SentenceExplainOptions


# `vitrail complete`: its help.
PREDICT_ABOUT = """Complete texts of which the beginning is given, several times each.

Texts are printed, one line per sample. RUN decides the options: `vitrail complete RUN --help` shows those of its task.
"""
PREDICT_EXAMPLES = """\
  vitrail complete runs/language/book "It was a dark" --samples 3 --top-p 0.9
"""
