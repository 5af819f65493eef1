"""`vt.pipeline`, and `vitrail predict` with its other names: what a trained model says of files or sentences, whatever the task."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from vitrail.deploy.engines import ENGINES
from vitrail.deploy.predicted_files import Predicted
from vitrail.errors import VitrailError, check_choice
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.models.model import Model
from vitrail.tasks import registry
from vitrail.tasks.options import check

WIDEST = 60  # columns for the name of a file


def pipeline(task: str, model: Model, *, engine: str = "torch") -> Any:
    """`task`: Hugging Face's name. `model`: one from `vt.load` or `vt.create_model`, or whatever `vt.load` takes.

    `engine`: what computes the predictions of a classifier, a segmenter or a detector: "torch", "compile", "onnxruntime", "openvino", or
    "auto": the fastest of those that are installed, measured once per machine and model.
    """
    tasks = registry.list_pipelines()
    check_choice("pipeline", task, tuple(tasks))
    check_choice("engine", engine, ("auto", *ENGINES))
    with_engines = [name for name, owner in tasks.items() if has_engines(owner)]
    if engine != "torch" and task not in with_engines:
        raise VitrailError(f'engine="{engine}" is for {", ".join(with_engines)}; {task} is computed by torch')
    return registry.need_part(tasks[task], "predict").Pipeline.open(model, name=task, engine=engine)


def has_engines(task: str) -> bool:
    """Whether other engines than torch compute its predictions."""
    return any(field.name == "engine" for field in fields(registry.options_of(task, "predict")))


def pipeline_class(task: str) -> Any:
    """The task's `Pipeline`; one line where it predicts nothing."""
    module = registry.part(task, "predict")
    if module is None:
        able = ", ".join(name for name in registry.TASKS if registry.has_part(name, "predict"))
        raise VitrailError(
            f"--task {task} ({registry.TASKS[task].summary}) predicts nothing; vitrail predict is for --task {able}"
        )
    return module.Pipeline


def predict(run: str, inputs: list[str] | None, options: Any, *, task: str) -> Iterator[Predicted]:
    """One by one, while they come. Without inputs the lines of standard input are read."""
    check(options)
    pipeline, batch = pipeline_class(task).from_options(run, options), None
    if inputs:
        sources = inputs if registry.TASKS[task].reads_text else pipeline.expand(inputs)
        width = min(WIDEST, max(len(str(source)) for source in sources))
    else:
        sources, width = read_standard_input(sys.stdin.buffer), 0
        batch = 1 if sys.stdin.isatty() else None  # a person waits for each answer
    folder, call = pipeline.open_folder(options), pipeline.choose(**pipeline.keywords(options))
    bar = ProgressBar(quiet=options.json)
    found = pipeline.predict(sources, call, batch=batch, counting=bar.counting)
    yield from pipeline.summarize(found, folder, width=width)


def join_json(results: list[Any], *, task: str, verb: str) -> Any:
    """The JSON value of a whole command; `verb`: `predict`, or another name for it."""
    return pipeline_class(task).join_json(results, verb=verb)


def read_standard_input(stream: Iterable[bytes]) -> Iterator[str]:
    """Its lines. One that is not UTF-8 ends the reading, and is named."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r").removeprefix("\ufeff" if number == 1 else "")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise VitrailError(f"standard input: line {number:,} is not UTF-8 text (byte 0x{byte:02x})") from None
