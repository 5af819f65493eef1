"""What `vitrail eval` scores: the run's own data, divided as it was in training, or other data; and what a report tells of the run."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BAD_FILES, BadFiles, read_bad_files
from vitrail.data.dataset import SplitName
from vitrail.errors import VitrailError
from vitrail.jobs.evaluate import same_source
from vitrail.jobs.options import EvalOptions, TrainOptions
from vitrail.jobs.stored import to_store
from vitrail.learn.training.run_folder import read_results
from vitrail.models.folder import find


def choose_source(run: str, trained: TrainOptions | None, options: EvalOptions) -> tuple[str, bool]:
    """What to open, and whether it is what the run was trained on: that is divided again as it was then, so that nothing that was
    learned from is scored as test."""
    if trained is not None and (options.data is None or same_source(options.data, trained.data)):
        return trained.data, True
    if options.data is None:
        raise VitrailError(f"{run}: a model folder does not say what it was trained on; give --data")
    return options.data, False


def open_scored(
    opened: Callable[..., tuple[Any, BadFiles]], run: str, trained: TrainOptions | None, options: EvalOptions
) -> tuple[Any, BadFiles, SplitName]:
    """Pictures, which of them are bad, and which split to score. `opened` opens a source without its bad files."""
    source, own = choose_source(run, trained, options)
    if trained is not None and own:
        known = read_bad_files(find(run).resolve().parent / BAD_FILES)
        shared = {} if trained.val_share is None else {"val_share": trained.val_share}  # which not every task has
        data, bad = opened(source, seed=trained.seed, known=known, **shared)
    else:
        data, bad = opened(source, seed=0, divide=False)
    return data, bad, "train" if set(data.splits) == {"train"} else options.split  # undivided: all of it


def make_folder(options: EvalOptions, bad: BadFiles | None = None) -> Path | None:
    """The folder of --out; of pictures, with the list of bad files in it."""
    if options.out is None:
        return None
    folder = Path(options.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    if bad is not None:
        bad.path = folder / BAD_FILES
        bad.write()
    return folder


def past_of(run: str, trained: TrainOptions | None, commands: Callable[[Path], Mapping[str, str]]) -> dict[str, Any]:
    """How the model was trained, for a report: nothing of a model folder. `commands` of the folder of its run are what to do next."""
    if trained is None:
        return {"rows": [], "configuration": {}, "commands": {"Score it again": f"vitrail eval {shlex.quote(run)}"}}
    folder = find(run).resolve().parent
    return {"rows": read_results(folder), "configuration": to_store(trained), "commands": commands(folder)}
