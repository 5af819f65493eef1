"""Continuing images, or text: `vitrail complete`."""

from dataclasses import fields
from typing import Any

from vitrail.errors import VitrailError
from vitrail.jobs.options import CompleteOptions
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of
from vitrail.tasks import registry
from vitrail.tasks.options import renamed_of


def complete_words(run: str, words: list[str], options: CompleteOptions) -> Any:
    """What a model of pixels makes of images, or a language model of the beginnings of texts: several endings of each. Of images, what was
    written of them; of texts, the samples of each."""
    check_options(options)
    model = load_completing(run, options.device)
    name = registry.task_by_architecture(model.architecture)
    part = registry.part(name, "predict")
    if not hasattr(part, "complete"):  # until language models are ported
        return write_on(model, words, options)
    kind = registry.options_of(name, "predict")
    known, renamed = {field.name for field in fields(kind)}, renamed_of(kind)
    given = {renamed.get(field.name, field.name): getattr(options, field.name) for field in fields(options)}
    if options.longest is not None and not known & {"longest", "max_length"}:
        raise VitrailError("--longest is about text: this is a model of pixels")
    return part.complete(model, words, kind(**{name: value for name, value in given.items() if name in known}))


def write_on(model: Any, texts: list[str], options: CompleteOptions) -> list[list[str]]:
    """The samples of each text, with what it begins with. Options about pictures are refused."""
    for name, nothing in (("out", None), ("keep", 0.5)):
        if getattr(options, name) != nothing:
            raise VitrailError(f"--{name} is about pictures: this is a model of text")
    if options.longest is not None and options.longest < 1:
        raise VitrailError(f"--longest must be at least 1, got {options.longest}")
    from vitrail.tasks.language.predict import continue_texts

    how = {name: getattr(options, name) for name in ("samples", "temperature", "top_k", "top_p", "seed")}
    return continue_texts(model, texts, longest=options.longest, **how)


def check_options(options: CompleteOptions) -> None:
    """Every number within its range, before any work is done."""
    if options.samples < 1:
        raise VitrailError(f"--samples must be at least 1, got {options.samples}")
    if not 0 <= options.keep < 1:
        raise VitrailError(f"--keep is a share of the rows, in [0, 1): got {options.keep}")
    if not 0 <= options.temperature < float("inf"):
        raise VitrailError(f"--temperature must be a number from 0 up, got {options.temperature}")
    if options.top_k is not None and options.top_k < 1:
        raise VitrailError(f"--top-k must be at least 1, got {options.top_k}")
    if options.top_p is not None and not 0 < options.top_p <= 1:
        raise VitrailError(f"--top-p must be in (0, 1], got {options.top_p}")
    if options.seed < 0:
        raise VitrailError(f"--seed must be at least 0, got {options.seed}")


def load_completing(run: str, device: str) -> Any:
    """A model of pixels, or of text, that goes on with what is given."""
    model = load(run)
    if purpose_of(model) not in ("igpt", "language"):
        raise VitrailError(
            f"{run}: a model of the kind {model.architecture} for {purpose_of(model)} completes neither pictures nor text; "
            "vitrail pretrain makes one that does, and vitrail train --task language"
        )
    return model.to(choose_device(device))
