"""What is measured: models from words, the images they are shown, and what is known of them without a clock.

b batch, ch channels, h w image
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from vitrail.data.images import ImageError
from vitrail.data.opening import find_data
from vitrail.data.shapes import ShapesSplit
from vitrail.data.transforms import prepare
from vitrail.deploy.bench.operations import count_flops
from vitrail.deploy.bench.sequence import sequence_lengths
from vitrail.errors import VitrailError, suggestion
from vitrail.models.catalogue import ARCHITECTURES, MODELS, count_parameters, create_model, rebuild
from vitrail.models.classifier import Classifier
from vitrail.models.folder import load
from vitrail.records import has_field
from vitrail.report.bench import Subject

SHOWN = 8  # different images; a larger batch repeats them, since what is on them takes no time


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A model to be measured; `trained` if its answers mean something."""

    word: str  # how the user named it
    name: str  # how tables do
    model: Classifier
    merge: int
    trained: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.name, self.merge

    @property
    def title(self) -> str:
        return f"{self.name} merge {self.merge}" if self.merge else self.name


def open_candidates(words: Sequence[str], merges: Sequence[int] | None) -> list[Candidate]:
    """Every model with every merging, or with its own."""
    unique = list(dict.fromkeys(words))
    names, found = short_names(unique), []
    for word in unique:
        model, trained = open_model(word)
        for merge in (getattr(model.config, "merge", 0),) if merges is None else merges:
            found.append(Candidate(word=word, name=names[word], model=merged(model, merge), merge=merge, trained=trained))
    return found


def open_model(word: str) -> tuple[Any, bool]:
    """A model of the catalogue with random weights, or a trained one; and which of the two it is."""
    if word in MODELS and not Path(word).exists():
        refuse_kind(word, MODELS[word][0])
        torch.manual_seed(0)
        return create_model(word).eval(), False
    if "/" not in word and not Path(word).expanduser().exists():
        raise VitrailError(f'"{word}": neither a run nor a model of the catalogue{suggestion(word, MODELS)}')
    model = load(word)
    refuse_kind(word, model.architecture)
    return model, True


def refuse_kind(word: str, kind: str) -> None:
    if (takes := ARCHITECTURES[kind].takes) != "images":
        raise VitrailError(f"{word}: bench measures models of images, got one of the kind {kind}, which takes {takes}")


def merged(model: Classifier, merge: int) -> Classifier:
    """The same weights, with so many tokens merged away in each block."""
    if merge == getattr(model.config, "merge", 0):
        return model
    if not has_field(model.config, "merge"):
        raise VitrailError(f"--merge {merge} is for plain ViTs, got a model of the kind {model.architecture}")
    again: Classifier = rebuild(model, merge=merge).eval()
    again.labels, again.multi_label = model.labels, model.multi_label
    return again


def short_names(words: Sequence[str]) -> dict[str, str]:
    """The last part of each path that tells it from the others; a best/ or last/ is its run."""
    parts = {word: [part for part in Path(word).parts if part not in ("best", "last")] or [word] for word in words}
    found = {}
    for word, own in parts.items():
        others = [other for name, other in parts.items() if name != word]
        length = next((n for n in range(1, len(own) + 1) if all(other[-n:] != own[-n:] for other in others)), None)
        found[word] = word if length is None else "/".join(own[-length:])
    return found


def describe(candidate: Candidate) -> Subject:
    """What needs no clock."""
    model = candidate.model
    image = torch.zeros(1, model.config.in_channels, *model.image_size)
    return Subject(
        model=candidate.name,
        merge=candidate.merge,
        architecture=model.architecture,
        parameters=count_parameters(model),
        flops=count_flops(model, image),
        tokens=sequence_lengths(model, image),
        image_size=model.image_size,
    )


def find_images(data: str | None, split: str) -> tuple[list[Image.Image], str]:
    """Some of the data, or of the built-in shapes, and which of the two."""
    if data is None:
        shapes = ShapesSplit("test", SHOWN, size=64)
        return [shapes.read(index) for index in range(SHOWN)], "shapes, resized"
    found = find_data(data)
    chosen = found.splits.get(split, next(iter(found.splits.values())))  # type: ignore[call-overload]
    images: list[Image.Image] = []
    for index in range(len(chosen)):
        try:
            images.append(chosen.read(index))
        except ImageError:
            continue
        if len(images) == SHOWN:
            break
    if not images:
        raise VitrailError(f"{data}: none of its images can be read")
    return images, data


def make_batch(model: Classifier, images: Sequence[Image.Image], batch: int) -> Float[Tensor, "b ch h w"]:
    """So many of the images as the model wants them, each again where there are fewer; all of one size."""
    described = replace(model.preprocessing, size=model.image_size)
    shown = prepare(list(images[:batch]), described)
    return shown[torch.arange(batch) % len(shown)].contiguous()
