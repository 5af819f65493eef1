"""Real images that an exported program is compared with its model on, brought to the model's size."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from vitrail.data.images import EXTENSIONS
from vitrail.data.inputs import expand
from vitrail.data.opening import BUILT_IN, open_data
from vitrail.data.transforms import prepare
from vitrail.deploy.image_source import open_image
from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record, to_record

ANY_SIZE = (64, 64)  # of models that have no size of their own


class Examples(NamedTuple):
    """Real inputs, ready for the model, and where they are from."""

    images: torch.Tensor
    source: str


def find_images(
    model: Model, *, size: tuple[int, ...] | None, step: int | None, data: str | None, trained: Any, count: int
) -> Examples:
    """At --image-size, or the model's own. `trained`: the options of the model's run, if they are known."""
    height, width = choose_size(model, size, step=step)
    described = to_record(model.preprocessing) | {"size": [height, width]}
    return find_prepared(from_record(Preprocessing, described, what="--image-size"), data=data, trained=trained, count=count)


def choose_size(model: Model, wish: tuple[int, ...] | None, *, step: int | None) -> tuple[int, int]:
    """--image-size N or H W; by default what images are brought to for the model."""
    if wish is None:
        assert model.preprocessing is not None
        own = model.preprocessing.size
        return ANY_SIZE if own == (1, 1) else own
    if not 1 <= len(wish) <= 2 or min(wish) < 1:
        raise VitrailError(f"--image-size takes N, or H W, of at least 1, got {' '.join(map(str, wish))}")
    height, width = (wish[0], wish[-1])
    multiple = step or model.size_multiple
    if height % multiple or width % multiple:
        raise VitrailError(f"--image-size: the sides must be multiples of {multiple}, got {height}x{width}")
    return height, width


def find_prepared(preprocessing: Preprocessing, *, data: str | None, trained: Any, count: int) -> Examples:
    """Images that --data names, else of the run's own validation, else of a built-in dataset."""
    if preprocessing.channels not in (1, 3):
        shape = (count, preprocessing.channels, *preprocessing.size)
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        return Examples(noise, "noise: no image has so many channels")
    if data is not None:
        return Examples(prepare(named_images(data, preprocessing.size, count), preprocessing), data)
    if trained is not None:
        try:
            images = split_images(trained.data, preprocessing.size, count, seed=trained.seed)
            return Examples(prepare(images, preprocessing), trained.data)
        except (VitrailError, OSError):  # moved since then, or of another kind: any images will do
            pass
    source = "digits" if preprocessing.channels == 1 else "shapes"
    return Examples(prepare(split_images(source, preprocessing.size, count), preprocessing), source)


def split_images(source: str, size: tuple[int, int], count: int, *, seed: int = 0) -> list[Image.Image]:
    """Of the validation split, evenly chosen."""
    split = open_data(source, seed=seed)["val"]
    return [split.read(index, target=size) for index in evenly(len(split), count)]


def named_images(data: str, size: tuple[int, int], count: int) -> list[Image.Image]:
    """An image, a folder with images anywhere below, a glob; or any dataset."""
    path = Path(data).expanduser()
    if data in BUILT_IN or data.startswith("hf:") or (path.is_file() and path.suffix.lower() not in EXTENSIONS):
        return split_images(data, size, count)
    paths = expand([data])
    return [open_image(paths[index], size) for index in evenly(len(paths), count)]


def evenly(total: int, count: int) -> list[int]:
    return np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int)).tolist()
