"""`vitrail explain` with options that all tasks share: until the verb asks a task for its own (tasks/<name>/explain.py)."""

from vitrail.errors import VitrailError
from vitrail.explain.files import Done, Progress
from vitrail.jobs.options import ExplainOptions
from vitrail.models.catalogue import ARCHITECTURES
from vitrail.models.folder import CONFIG, find, read_config
from vitrail.tasks import registry
from vitrail.tasks.options import SentenceExplainOptions, check

ABOUT_PICTURES = ("method", "query", "target", "box")


def reads_text(run: str) -> bool:
    """Whether a run's model takes sentences, by its config.json."""
    return ARCHITECTURES[read_config(find(run) / CONFIG)["architecture"]].takes == "text"


def explain_sentences(
    run: str, sentences: list[str], options: ExplainOptions, *, progress: Progress = lambda done, total: None
) -> Done:
    defaults = ExplainOptions(out="")
    for name in ABOUT_PICTURES:
        if getattr(options, name) != getattr(defaults, name):
            raise VitrailError(f"--{name} is about pictures, and this run reads text: it has --layer, --head and --word")
    if options.head in ("max", "min"):
        raise VitrailError(f"--head {options.head} is about pictures: of words it is a number or mean, whose rows sum to 1")
    own = SentenceExplainOptions(
        out=options.out, limit=options.limit, layer=options.layer, head=options.head, word=options.word
    )
    check(own)
    found: Done = registry.need_part(registry.task_of(find(run)), "explain").explain(run, sentences, own, progress=progress)
    return found
