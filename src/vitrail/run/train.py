"""The runner: data in; a trained, evaluated, saved model and its report out. One sequence for every task (tasks/task.py)."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFiles, describe_bad
from vitrail.data.copies import COPIES, write_copies
from vitrail.data.dataset import NO_COPIES
from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.learn.training.best_epoch import describe_choice
from vitrail.learn.training.event_log import EventLog
from vitrail.learn.training.loop import fit
from vitrail.learn.training.objective import warning_of
from vitrail.learn.training.overview import lay_out
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import RunFolder, new_run_folder
from vitrail.learn.training.sharding import shard
from vitrail.learn.training.state import Progress, latest_state, read_progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.folder import load, save
from vitrail.models.model import Model
from vitrail.models.pretrained import same_source
from vitrail.models.reading.hub import without_network
from vitrail.run.card import describe_measures, write_card
from vitrail.run.ends import (
    NAMES,
    began_with,
    describe_ends,
    is_finished,
    list_ends,
    move_end,
    name_reading,
    read_later,
    times_read,
    was_scored,
    write_metrics,
)
from vitrail.run.next_steps import list_commands
from vitrail.run.plan import find_rate, make_plan
from vitrail.run.prepare import prepare
from vitrail.run.report import describe_trained, describe_training, write_report
from vitrail.run.stored import CONFIG, REPORT, read_metrics, read_options, scored_split
from vitrail.run.verdict import weigh
from vitrail.tasks import registry
from vitrail.tasks.metric import headline
from vitrail.tasks.options import ENDS, NOT_STORED, check, has_option, renamed_of, spell, to_store
from vitrail.tasks.stages import Setup
from vitrail.tasks.weights import describe_weights, is_named


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    path: Path
    model: Model
    metrics: dict[str, float]
    first: bool = True  # of the processes that trained together: the one that prints
    later: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # "second reading of test" of a run that was continued -> metrics


def train(*, quiet: bool = False, **options: Any) -> Run:
    """`vitrail train` in Python: the same options by the same names, such as train(data="digits", epochs=5)."""
    from vitrail.run.arguments import read_arguments
    from vitrail.run.folds import run_all

    task = str(options.get("task", registry.DEFAULT))
    if "task" not in options and options.get("resume") and options.get("out"):
        task = registry.task_of(Path(str(options["out"])).expanduser())
    kind = registry.options_of(registry.check_task(task))
    found = read_arguments(kind, {**options, "task": task}, what="train")
    renamed = renamed_of(kind)
    return run_all(found, given={renamed.get(name, name) for name in options}, quiet=quiet)


def run_training(options: Any, *, given: Set[str], quiet: bool = False) -> Run:
    """`given` names the options that the user wrote, which a resumed run checks against the stored ones.

    Under torchrun the first process resolves and writes everything; the others then do as a resumed run does.
    """
    check(options)
    options = options.normalize()
    if options.resume and options.out is None:
        raise VitrailError("--resume needs --out: the folder of the run to continue")
    if options.finish and not (Path(options.out).expanduser() / CONFIG).is_file():
        raise VitrailError(f"--finish: {options.out} is no folder of a run")
    if options.tensorboard:
        need("tensorboardX", "logs")  # now, not when the first numbers are to be written
    world = World.join(choose_device(options.device))
    bar = ProgressBar(quiet=quiet or not world.first)
    try:
        return _train(options, given, world, bar)
    finally:
        world.leave()


def _train(options: Any, given: Set[str], world: World, bar: ProgressBar) -> Run:
    folder = None if options.out is None else Path(options.out).expanduser()
    if world.first and folder is not None:
        options = check_folder(folder, options, given=given)
    finished = world.share(world.first and folder is not None and is_finished(folder, options))
    if folder is not None and finished and (metrics := read_metrics(folder)):
        bar.say(f"{folder} is finished")
        return Run(path=folder, model=load(folder), metrics=metrics, first=world.first, later=read_later(folder))

    if world.first:
        resumed = folder if folder is not None and (folder / CONFIG).is_file() else None
        if (
            has_option(options, "shard") and options.shard and world.size == 1 and resumed is None
        ):  # one process may continue what several began
            raise VitrailError(
                "--shard divides the model among several processes: start them with torchrun (see docs/scale.md)"
            )
        setup = prepare(options, bar, resumed=resumed)
        if folder is None:
            folder = new_run_folder(Path("runs") / options.task, setup.name)
        folder.mkdir(parents=True, exist_ok=True)
        setup, run = start(setup, folder, bar)
    where = world.share(str(folder))
    if not world.first:
        folder = Path(where)
        options = replace(read_options(folder / CONFIG), out=options.out, resume=options.resume, finish=options.finish)
        setup = prepare(options, bar, resumed=folder)
        run = RunFolder(folder, writes=False)
    assert folder is not None
    task = registry.find(setup.options.task)
    plan = make_plan(task, setup, device=world.device if world.size > 1 else setup.options.device)
    plan = replace(plan, began_with=began_with(folder), scored=world.share(was_scored(folder)))
    if has_option(setup.options, "shard") and setup.options.shard and world.size > 1:
        shard(setup.model, world)
    else:
        setup.model.to(plan.device)
    bar.unit = task.unit
    with without_network():  # what it needs of the hub beside the model, `prepare` has brought
        objective = task.objective(setup, device=plan.device, world=world)
    training, validation = task.loaders(setup, world)
    metrics_known = registry.metrics_of(setup.options.task)
    progress = fit(objective, training, validation, plan, run, bar, world, metrics=metrics_known)
    bar.say(f"trained in {clock(progress.elapsed)}; {describe_choice(progress, unit=task.unit)}" if progress.best else "")
    write_config(run, setup.options)  # how it ended
    world.wait()  # best/ is whole
    return finish(setup, folder, progress, bar, world)


def start(setup: Setup[Any, Any, Any], folder: Path, bar: ProgressBar) -> tuple[Setup[Any, Any, Any], RunFolder]:
    """Say what will be done, and write what a resumed run must find again; config.yaml says that the rest is there."""
    task = registry.find(setup.options.task)
    if setup.options.lr == "auto":
        setup = replace(setup, options=replace(setup.options, lr=find_rate(task, setup, folder, bar)))
    left_out = list_bad(setup.bad, folder, unit=task.unit)
    lines = list(task.describe(setup))
    if setup.begins and setup.begins not in lines:  # of a task that says nothing of weights by itself
        lines.append(setup.begins)
    for line in lay_out((*lines, *left_out, f"folder: {folder}")):
        bar.say(line)
    task.store(setup, folder)
    write_copies(getattr(setup.data, "copies", NO_COPIES), folder / COPIES)
    run = RunFolder(folder, events=open_events(folder, setup.options))
    write_config(run, setup.options)
    run.write_machine()
    return setup, run


def write_config(run: RunFolder, options: Any) -> None:
    """All options, and where the run was to end before, if it was to end elsewhere."""
    ends = list_ends(run.path, options)
    run.write_config(to_store(options) | ({ENDS: ends} if ends else {}))


def finish(setup: Setup[Any, Any, Any], folder: Path, progress: Progress, bar: ProgressBar, world: World) -> Run:
    """Read test once, with the best model; write predictions, report, card and metrics, in this order: metrics.json ends a run."""
    task, options = registry.find(setup.options.task), setup.options
    device = world.device if world.size > 1 else options.device
    setup = replace(setup, model=load(folder / "best"))
    if task.calibrate(setup, device=device, world=world) and world.first:
        save(setup.model, folder / "best")
    split = "test" if "test" in setup.data.splits else "val"
    scored = task.score(setup, split, device=device, world=world)
    if not world.first:
        return Run(path=folder, model=setup.model, metrics=scored.metrics, first=False)
    scored = task.after_training(setup, scored, folder)
    metrics, summary, warning = scored.metrics, task.summarize(setup, scored), warning_of(scored.evaluation)
    task.write_predictions(scored, folder)
    number, earlier = times_read(progress), read_metrics(folder)
    reading = name_reading(number, split) + ":" if number and earlier else split
    validated = 0 if task.plan(setup).get("keep_last") else len(setup.data.splits["val"])
    verdict = weigh(options.task, options, scored, summary, progress, folder=folder, validated=validated)
    details = {
        "Model": describe_trained(options, setup.model), **summary.details, "Training": describe_training(options, progress),
        "Best epoch": describe_choice(progress, unit=task.unit), "Ends": describe_ends(progress), "Warning": warning,
        "First reading": headline(registry.metrics_of(options.task), scored_split(folder), earlier) if number and earlier else "",
    }  # fmt: skip
    write_report(
        folder,
        str(folder),
        setup,
        scored,
        title=setup.name,
        split=reading,
        certainty=summary.certainty,
        details={name: text for name, text in details.items() if text},
        rows=progress.rows,
        configuration=to_store(options),
        trained_in=folder,
        verdict="" if verdict is None else str(verdict),
    )
    interval: dict[str, Any] = {} if summary.interval is None else {"interval": summary.interval}
    counts = {} if "sentences" in summary.card else {"images": {name: len(part) for name, part in setup.data.splits.items()}}
    facts = {"data": setup.name, "split": split, "recipe": options.recipe, **counts, **summary.card}
    if is_named(options.weights):
        facts["weights"] = describe_weights(options.weights, options.weights_sha256)
    measures = describe_measures(options.task, metrics, summary.interval)
    if number and earlier:
        facts["limits"] = [
            *facts.get("limits", ()),
            f"The score is the {reading.rstrip(':')}: whoever trained it had seen an earlier one.",
        ]
    write_card(folder / "best", setup.model, facts | measures, task=options.task)
    write_metrics(folder, {"split": split, **interval, **metrics, **summary.record}, progress)
    bad = describe_bad(setup.bad, unit=task.unit)
    commands = list_commands(folder, options.task, setup.model, scored)
    said = [] if verdict is None else [f"verdict: {verdict.sentence}"]
    said += [line for line in summary.lines if line.startswith("labels: ")]
    said += [f"continue: {verdict.command}"] if verdict is not None and verdict.command else []
    said += [f"report: {folder / REPORT}", *(f"{verb}: {line}" for verb, line in commands.items())]
    for line in (warning and f"warning: {warning}", *(line for line in summary.lines if line not in said), bad, *lay_out(said)):
        if line:
            bar.say(line)
    return Run(
        path=folder, model=setup.model, metrics=earlier if number and earlier else metrics, first=True, later=read_later(folder)
    )


def list_bad(bad: BadFiles | None, folder: Path, *, unit: str) -> list[str]:
    """From now on they stand in a file; a line says how many there are."""
    if bad is None:
        return []
    bad.path = folder / BAD_FILES
    bad.write()
    return [f"left out: {line}"] if (line := describe_bad(bad, unit=unit)) else []


def open_events(folder: Path, options: Any) -> EventLog:
    """Event files beside the run's other files, if they are asked for; of a resumed run, from where it continues."""
    checkpoint = latest_state(folder / "state")
    return EventLog(
        folder / "events" if options.tensorboard else None, step=read_progress(checkpoint).step if checkpoint else 0
    )


def check_folder(folder: Path, options: Any, *, given: Set[str]) -> Any:
    """The options of the run to continue, or those given for a new one, whose folder must be empty."""
    if options.resume and (folder / CONFIG).is_file():
        return stored_options(folder, options, given=given)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())) and not (options.resume and folder.is_dir()):
        raise VitrailError(f"{folder}: exists and is not empty; a run is never overwritten (--resume continues it)")
    return options


def stored_options(folder: Path, options: Any, *, given: Set[str]) -> Any:
    """The options of the run in `folder`; those given again must say the same, but for another end."""
    stored = read_options(folder / CONFIG)
    given = given | ({"weights"} if options.weights is not None else set())  # by whatever option they were named
    for one in fields(options):
        name, asked = one.name, getattr(options, one.name)
        if name not in given or name in (*NOT_STORED, *NAMES):
            continue
        known = getattr(stored, name, None)
        if name == "weights" and asked is not None and same_source(asked, known):
            continue
        if asked not in ("auto", known):
            raise VitrailError(
                f"{spell(name)} {asked} differs from the run's own ({known}); --weights starts a new run from its weights"
            )
    return replace(move_end(folder, stored, options, given=given), out=options.out, resume=True, finish=options.finish)
