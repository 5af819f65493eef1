"""`vitrail eval`: a trained model on a split of its own data, or of other data. open -> match -> score, whatever the task."""

from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFiles, describe_bad, read_bad_files
from vitrail.data.copies import COPIES, read_copies
from vitrail.data.dataset import NO_COPIES
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import warning_of
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.learn.training.run_folder import read_results
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import find, load
from vitrail.models.model import Model
from vitrail.models.protocols import HasImageSize
from vitrail.run.arguments import join_words, read_arguments
from vitrail.run.report import write_report
from vitrail.run.stored import REPORT, same_source, training_options
from vitrail.tasks import registry
from vitrail.tasks.options import check, lay_over, to_store
from vitrail.tasks.stages import Opening, Setup
from vitrail.tasks.task import Task

JOINED = ("protocol", "labels")  # options that the command line takes as words with commas


def evaluate(run: str | Path, **options: Any) -> dict[str, float]:
    """`vitrail eval` in Python: the metrics of a run or model folder on a split of its own data, or of other data. The options are those
    of the run's task, such as evaluate("runs/classify/digits", split="val", batch_size=32).

    With `protocol` ("knn,linear", or a list) the test accuracy by "protocol share", such as "knn 0.1".
    """
    kind = registry.options_of(registry.task_of(find(str(run))), "eval")
    given = {name: join_words(value) if name in JOINED else value for name, value in options.items() if value is not None}
    return run_evaluation(str(run), read_arguments(kind, given, what="evaluate", use="eval"))[0]


def run_evaluation(run: str, options: Any, *, quiet: bool = False) -> tuple[dict[str, float], str]:
    """The metrics, and what the split is called that was scored."""
    check(options)
    if getattr(options, "protocol", None) is not None:
        from vitrail.run.protocols import run_protocols, summarize  # which train, and so evaluate

        return summarize(run_protocols(run, options, quiet=quiet)), "test"
    bar, model, trained = ProgressBar(quiet=quiet), load(run), training_options(run)
    task, setup, split = open_setup(run, model, trained, options, bar)
    shown = options.split if split == "train" else split  # of data that is not split, all is scored as what was asked for
    folder = make_folder(options, setup.bad)
    scored = task.score(setup, split, device=choose_device(options.device), world=World())
    summary, warning = task.summarize(setup, scored), warning_of(scored.evaluation)
    if folder is not None:
        task.write_predictions(scored, folder)
        details = {
            "Model": f"{run}, {count_parameters(model):,} parameters",
            "Data": options.data or setup.name,
            "Split": f"{shown}, {len(scored.data.splits[split]):,} {task.unit}",
            **summary.details,
        }
        where = None if trained is None else find(run).resolve().parent
        write_report(
            folder,
            run,
            setup,
            scored,
            title=f"{setup.name}: {shown}",
            split=shown,
            certainty=summary.certainty,
            details=details,
            rows=[] if where is None else read_results(where),
            configuration={} if trained is None else to_store(trained),
            trained_in=where,
        )
    bad = describe_bad(setup.bad, unit=task.unit)
    written = "" if folder is None else f"report: {folder / REPORT}"
    for line in (bad, warning and f"warning: {warning}", *summary.lines, written):
        if line:
            bar.say(line)
    return scored.metrics, shown


def open_setup(
    run: str, model: Model, trained: Any, options: Any, bar: ProgressBar
) -> tuple[Task[Any, Any, Any, Any], Setup[Any, Any, Any], str]:
    """The task that scores a model, the data it is scored on, and which split of it."""
    name = registry.task_of_model(model) if trained is None else trained.task
    task = registry.find(name)
    source, own = choose_source(run, trained, options)
    stored = task.stored(model) if trained is None else trained
    used = lay_over(stored, options)
    opened = task.open(
        used,
        Opening(
            source=source,
            seed=trained.seed if own else 0,
            progress=bar,
            known_bad=read_bad_files(find(run).resolve().parent / BAD_FILES) if own else None,
            known_copies=read_copies(find(run).resolve().parent / COPIES) if own else NO_COPIES,
            split=own,
            image_size=model.image_size if isinstance(model, HasImageSize) else None,
        ),
    )
    data = task.match(opened.data, model, used)
    setup = Setup(
        options=used, data=data, extras=None, bad=opened.bad, model=model, log=bar.say, evaluation=options, stored=stored
    )
    return task, setup, choose_split(data, options.split, own=own)


def choose_source(run: str, trained: Any, options: Any) -> tuple[str, bool]:
    """What to open, and whether it is what the run was trained on: that is split again as it was then, so that nothing that was
    learned from is scored as test."""
    if trained is not None and (options.data is None or same_source(options.data, trained.data)):
        return trained.data, True
    if options.data is None:
        raise VitrailError(f"{run}: a model folder does not say what it was trained on; give --data")
    return options.data, False


def choose_split(data: Any, wanted: str, *, own: bool) -> str:
    """Data that is not split is scored whole; of a run's own without test, validation stands for it, as in training."""
    if set(data.splits) == {"train"}:
        return "train"
    if wanted == "test" and own and "test" not in data.splits:
        return "val"
    if wanted not in data.splits:
        raise VitrailError(f'{data.name} has no split "{wanted}": it has {", ".join(data.splits)}')
    return wanted


def make_folder(options: Any, bad: BadFiles | None) -> Path | None:
    """The folder of --out; where there is a list of bad files, with it."""
    if options.out is None:
        return None
    folder = Path(options.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    if bad is not None:
        bad.path = folder / BAD_FILES
        bad.write()
    return folder
