"""The main job: data in, a trained, evaluated, saved model out, whatever the task (jobs/trades.py)."""

from collections.abc import Set
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.jobs.evaluate import read_metrics
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.settling import check_numbers, spell_out
from vitrail.jobs.stored import NOT_STORED, read_options, to_store
from vitrail.jobs.trades import Trade, check_foreign, find_trade
from vitrail.learn.training.event_log import EventLog
from vitrail.learn.training.loop import fit
from vitrail.learn.training.progress_bar import ProgressBar, clock
from vitrail.learn.training.run_folder import CONFIG, RunFolder, new_run_folder
from vitrail.learn.training.sharding import shard
from vitrail.learn.training.state import latest_state, read_progress
from vitrail.learn.training.world import World
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.records import from_record


@dataclass(frozen=True)
class Run:
    """What training leaves behind."""

    path: Path
    model: Any
    metrics: dict[str, float]
    first: bool = True  # of the processes that trained together: the one that speaks


def train(*, quiet: bool = False, **options: Any) -> Run:
    """`vitrail train` in Python: the same options by the same names, such as train(data="digits", epochs=5)."""
    if isinstance(options.get("image_size"), int):
        options["image_size"] = (options["image_size"],)
    if isinstance(options.get("ignore_index"), int):
        options["ignore_index"] = (options["ignore_index"],)
    for name in ("data", "out", "weights", "teacher", "tokenizer"):
        if isinstance(options.get(name), Path):
            options[name] = str(options[name])
    return run_training(from_record(TrainOptions, options, what="train"), given=options.keys(), quiet=quiet)


def run_training(options: TrainOptions, *, given: Set[str], quiet: bool = False) -> Run:
    """`given` names the options that the user wrote, which a resumed run checks against the stored ones.

    Under torchrun the first process settles and writes everything; the others then do as a resumed run does.
    """
    check_numbers(options)
    options = spell_out(options)
    if options.resume and options.out is None:
        raise VitrailError("--resume needs --out: the folder of the run to go on with")
    if options.tensorboard:
        need("tensorboardX", "logs")  # now, not when the first numbers are to be written
    world = World.join(choose_device(options.device))
    bar = ProgressBar(quiet=quiet or not world.first)
    try:
        return _train(options, given, world, bar)
    finally:
        world.leave()


def _train(options: TrainOptions, given: Set[str], world: World, bar: ProgressBar) -> Run:
    folder = None if options.out is None else Path(options.out).expanduser()
    if world.first:
        options = options if folder is None else check_folder(folder, options, given=given)
        check_foreign(options)
    finished = world.share(world.first and folder is not None and is_finished(folder))
    if folder is not None and finished and (metrics := read_metrics(folder)):
        bar.say(f"{folder} is finished")
        return Run(path=folder, model=load(folder), metrics=metrics, first=world.first)

    trade: Trade
    if world.first:
        begun = folder is not None and (folder / CONFIG).is_file()
        if options.shard and world.size == 1 and not begun:  # one process may go on with what several began
            raise VitrailError(
                "--shard divides the model among several processes: start them with torchrun (see docs/scale.md)"
            )
        trade = find_trade(options.task).prepare(options, bar, begun=folder if begun else None)
        if folder is None:
            folder = new_run_folder(Path("runs") / options.task, trade.name)
        folder.mkdir(parents=True, exist_ok=True)
        if trade.options.lr == "auto":
            trade.options = replace(trade.options, lr=trade.find_rate(folder, bar))
        trade.describe(folder, bar)
        trade.keep(folder, bar)
        run = RunFolder(folder, events=open_events(folder, trade.options))
        run.write_config(to_store(trade.options))
        run.write_machine()
    told = world.share(str(folder))
    if not world.first:
        folder = Path(told)
        options = replace(read_options(folder / CONFIG), out=options.out, resume=options.resume)
        trade = find_trade(options.task).prepare(options, bar, begun=folder)
        run = RunFolder(folder, writes=False)
    assert folder is not None
    plan = trade.make_plan(device=world.device if world.size > 1 else trade.options.device)
    if trade.options.shard and world.size > 1:
        shard(trade.model, world)
    else:
        trade.model.to(plan.device)
    task = trade.make_task(device=plan.device, world=world)
    training, validation = trade.make_loaders(world)
    progress = fit(task, training, validation, plan, run, bar, world)
    bar.say(f"trained in {clock(progress.elapsed)}; the best epoch was {progress.best['epoch']:.0f}" if progress.best else "")
    world.wait()  # best/ is whole
    metrics, model = trade.finish(folder, progress, bar, world)
    return Run(path=folder, model=model, metrics=metrics, first=world.first)


def open_events(folder: Path, options: TrainOptions) -> EventLog:
    """Event files beside the run's other files, if they are asked for; of a resumed run, from where it goes on."""
    checkpoint = latest_state(folder / "state")
    return EventLog(
        folder / "events" if options.tensorboard else None, step=read_progress(checkpoint).step if checkpoint else 0
    )


def check_folder(folder: Path, options: TrainOptions, *, given: Set[str]) -> TrainOptions:
    """The options of the run to go on with, or those given for a new one, whose folder must be empty."""
    if options.resume and (folder / CONFIG).is_file():
        return stored_options(folder, options, given=given)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())) and not (options.resume and folder.is_dir()):
        raise VitrailError(f"{folder}: exists and is not empty; a run is never overwritten (--resume goes on with it)")
    return options


def is_finished(folder: Path) -> bool:
    if not (folder / CONFIG).is_file():
        return False
    checkpoint = latest_state(folder / "state")
    return checkpoint is not None and read_progress(checkpoint).finished and read_metrics(folder) is not None


def stored_options(folder: Path, options: TrainOptions, *, given: Set[str]) -> TrainOptions:
    """The options of the run in `folder`; those given again must say the same."""
    stored = read_options(folder / CONFIG)
    for field in fields(options):
        name, asked = field.name, getattr(options, field.name)
        kept = getattr(stored, name)
        if name in given - set(NOT_STORED) and asked not in ("auto", kept):
            raise VitrailError(
                f"--{name.replace('_', '-')} {asked} differs from the run's own ({kept}); --weights starts a new run from its weights"
            )
    return replace(stored, out=options.out, resume=True)
