"""`vitrail explain`: a page that shows what a trained model makes of files or sentences, and why, whatever the task."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vitrail.errors import VitrailError
from vitrail.explain.files import check_out
from vitrail.explain.samples import Samples
from vitrail.files import write_whole
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.folder import load
from vitrail.tasks import registry
from vitrail.tasks.options import check

PAGE = "index.html"


@dataclass(frozen=True, kw_only=True)
class Done:
    """What was written."""

    page: Path
    explained: int
    found: int
    method: str
    errors: tuple[str, ...]  # samples that could not be read, a line each
    what: str


def explain(run: str, inputs: list[str], options: Any, *, task: str, bar: ProgressBar | None = None) -> Done:
    """index.html and its figures in a new folder, which is made when all that was asked for is known to be possible."""
    from vitrail.report.frame import Frame, write_page  # here: it imports matplotlib
    from vitrail.report.page import Section

    check(options)
    module = registry.part(task, "explain")
    if module is None:
        raise VitrailError(f"{run}: a model of --task {task} has no explanations")
    out, found = check_out(options.out), module.find_samples(inputs)
    model = load(run).eval()
    with (bar or ProgressBar()).counting(f"explaining {registry.find(task).unit}") as progress:
        samples = Samples(found, options.limit, unit=module.UNIT, progress=progress)
        made = module.explain(model, samples, options)
        out.mkdir(parents=True, exist_ok=True)
        sections: list[Section] = []
        for section in made.sections:
            write_files(out, section.files)
            sections += [replace(section, files={})] if section.title else []
        frame = Frame(title=f"{Path(run).name or run}: {made.title}", headline=made.headline(), details=made.details)
        write_page(out / PAGE, frame, sections)
    return Done(
        page=out / PAGE, explained=samples.explained, found=samples.found, method=made.method, errors=tuple(samples.errors),
        what=f"{samples.unit}s",
    )  # fmt: skip


def write_files(folder: Path, files: Any) -> None:
    """Files by their path below the folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content)
