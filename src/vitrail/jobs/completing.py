"""Going on with pictures, or with text: `vitrail complete`, and the completions of a run's report.

b pictures, h w picture, ch channels
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.images import read_picture
from vitrail.data.palette import Palette
from vitrail.data.transforms import fit_picture
from vitrail.errors import VitrailError
from vitrail.jobs.options import CompleteOptions
from vitrail.machine import choose_device
from vitrail.models.completion import complete
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of
from vitrail.tasks.classify.explain import check_out
from vitrail.tasks.classify.predict import expand

if TYPE_CHECKING:
    from vitrail.report.completions import Completion

SHEET = "completions.png"
AT_ONCE = 64  # pictures that are drawn side by side, samples counted


@dataclass(frozen=True)
class Completed:
    """What `vitrail complete` has written."""

    sheet: Path | None  # None where no picture could be read
    pictures: int
    errors: tuple[VitrailError, ...]


def complete_words(run: str, words: list[str], options: CompleteOptions) -> Completed | list[list[str]]:
    """What a model of pixels makes of pictures, or a language model of the beginnings of texts: several endings of each."""
    check_options(options)
    model = load_completing(run, options.device)
    if purpose_of(model) == "language":
        return write_on(model, words, options)
    if options.longest is not None:
        raise VitrailError("--longest is about text: this is a model of pixels")
    return complete_files(model, words, options)


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


def complete_files(model: Any, words: list[str], options: CompleteOptions) -> Completed:
    """A PNG for each sample, in the model's size, and a sheet of all. A picture that cannot be read is named, and the rest goes on."""
    if not options.out:
        raise VitrailError("--out is missing: a new or empty folder for the pictures and their sheet")
    folder, paths = check_out(options.out), expand(words)
    pictures, errors = list[tuple[Path, np.ndarray]](), list[VitrailError]()
    for path in paths:
        try:
            pictures.append((path, fit_picture(read_picture(path, target=model.image_size), model.preprocessing)))
        except VitrailError as error:
            errors.append(error)
    if not pictures:
        return Completed(None, 0, tuple(errors))
    made = complete_pictures(
        model,
        np.stack([picture for _, picture in pictures]),
        names=unique_names([path.stem for path, _ in pictures]),
        keep=options.keep,
        samples=options.samples,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
    )
    return Completed(write_completions(folder, made), len(made), tuple(errors))


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
    if purpose_of(model) == "igpt":
        model.check_causal("completes pictures")
    elif purpose_of(model) != "language":
        raise VitrailError(
            f"{run}: a model of the kind {model.architecture} for {purpose_of(model)} completes neither pictures nor text; "
            "vitrail pretrain makes one that does, and vitrail train --task language"
        )
    return model.to(choose_device(device))


def complete_pictures(
    model: Any,
    pictures: UInt8[np.ndarray, "b h w ch"],
    *,
    names: Sequence[str],
    keep: float = 0.5,
    samples: int = 4,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
) -> "list[Completion]":
    """The upper share `keep` of the rows is given. What a picture becomes depends on the seed and on its place among the others."""
    from vitrail.report.completions import Completion

    palette, device = Palette(model.palette.cpu().numpy()), next(model.parameters()).device
    height, width = model.image_size
    given = min(round(keep * height), height - 1) * width
    generator = torch.Generator().manual_seed(seed)
    ids = torch.from_numpy(palette.encode(pictures)).to(device)
    made, step = list[Completion](), max(1, AT_ONCE // samples)
    how: dict[str, Any] = {"generator": generator, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    for start in range(0, len(ids), step):
        some = ids[start : start + step]
        drawn = torch.cat([complete(model, some[:, :given], count=count, **how).cpu() for count in shares(samples)], dim=1)
        originals = palette.decode(some.cpu().numpy(), (height, width))
        for number, original in enumerate(originals):
            shown = palette.decode(drawn[number].numpy(), (height, width))
            made.append(Completion(names[start + number], original, given, shown))
    return made


def shares(samples: int) -> list[int]:
    """So many, at most `AT_ONCE` at a time."""
    return [min(AT_ONCE, samples - start) for start in range(0, samples, AT_ONCE)]


def write_completions(folder: Path, made: "Sequence[Completion]") -> Path:
    """NAME-1.png, NAME-2.png, … and the sheet."""
    from vitrail.files import write_whole
    from vitrail.rendering import to_png
    from vitrail.report.completions import draw_completions

    folder.mkdir(parents=True, exist_ok=True)
    for one in made:
        for number, sample in enumerate(one.samples, start=1):
            Image.fromarray(sample.squeeze(2) if sample.shape[2] == 1 else sample).save(folder / f"{one.name}-{number}.png")
    write_whole(folder / SHEET, to_png(draw_completions(made)))
    return folder / SHEET


def unique_names(names: Sequence[str]) -> list[str]:
    """The same names; those that come twice, or would be the sheet's, with a number behind."""
    found: dict[str, None] = {Path(SHEET).stem: None}
    for name in names:
        number, candidate = 2, name
        while candidate in found:
            number, candidate = number + 1, f"{name}_{number}"
        found[candidate] = None
    return list(found)[1:]
