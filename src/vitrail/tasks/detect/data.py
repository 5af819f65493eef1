"""Images with boxes as a detector learns from them and is scored on them; classes as it numbers them.

An image and its boxes are cut, resized and augmented together. A model of one input size sees the whole image squeezed into it: boxes in
shares of the sides do not notice.

b batch, ch channels, h w image, n objects of the image that has most
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor

from vitrail.data.annotations import Annotations
from vitrail.data.bad_files import BadFiles
from vitrail.data.box_data import read_marks
from vitrail.data.dataset import DataSet, SplitName
from vitrail.data.image_store import ImageStore
from vitrail.data.joint import Movement, Sample, crop, move, quarter_turn, resize
from vitrail.data.loader import Loader, OnBad, Samples
from vitrail.data.order import PlainOrder
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize, to_unit
from vitrail.errors import VitrailError, suggestion
from vitrail.learn.training.world import World
from vitrail.models.detections import Targets
from vitrail.models.detr import Detector
from vitrail.nn.functional.boxes import to_centers
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.detect.options import Options
from vitrail.tasks.image_task import note_bad

NOTHING = -1  # in the place of a class: only fills up the batch
VISIBLE = 0.3  # share of an object that a window must keep for the object to be learned from
DRAWN = 10  # numbers that `data.joint.move` draws for a sample; what is drawn here comes behind them
Boxed = tuple[Sample, tuple[int, int]]  # at the model's size; and its own height and width


class BoxBatch(NamedTuple):
    """What a detection task reads; `indices` are the images' numbers in their split, `sizes` their own, before they were resized."""

    images: Float[Tensor, "b ch h w"]
    classes: Int[Tensor, "b n"]
    boxes: Float[Tensor, "b n 4"]  # cx cy w h, in shares of the image's sides
    crowd: Bool[Tensor, "b n"]
    difficult: Bool[Tensor, "b n"]
    sizes: Int[Tensor, "b 2"]  # height, width
    indices: Int[Tensor, "b"]

    @property
    def targets(self) -> list[Targets]:
        """What is to be learned: a box around a crowd is no object."""
        real = (self.classes != NOTHING) & ~self.crowd
        return [Targets(self.classes[row][kept], self.boxes[row][kept]) for row, kept in enumerate(real)]

    @property
    def weight(self) -> float:
        """Objects, over which the loss is a mean: parts of a batch, and processes that share one, have more or less of them."""
        return max(1.0, float(((self.classes != NOTHING) & ~self.crowd).sum()))


class BoxSource(Samples[Boxed, BoxBatch]):
    """A split behind its preprocessing. In training images are augmented as `how` has it, and half of the time a window of at least
    the share `window` of each side is all that is seen of them."""

    def __init__(
        self,
        images: ImageStore,
        preprocessing: Preprocessing,
        *,
        how: Movement | None = None,
        window: float = 1.0,
        seed: int = 0,
        renumber: Sequence[int] | None = None,
    ) -> None:
        """`renumber`: the model's number of each class of the data."""
        self.images, self.preprocessing, self.seed = images, preprocessing, seed
        how = how or Movement()
        self.how, self.turns = replace(how, quarter_turns=False), how.quarter_turns
        self.window, self.renumber, self.split = window, renumber, images.split
        levels = [round(255 * level) for level in preprocessing.mean]
        self.fill: Any = levels[0] if len(levels) == 1 else tuple(levels)
        self.marks: dict[int, Annotations] = {}

    def sample(self, epoch: int, index: int) -> Boxed:
        array = self.images.read(index)
        if index not in self.marks:
            self.marks[index] = self.read_marks(index)
        sample = Sample(Image.fromarray(array.squeeze(-1) if array.shape[-1] == 1 else array), self.marks[index])
        draws = uniforms(self.seed, epoch, np.array([index]), count=DRAWN + 7)[0, DRAWN:]
        if self.window < 1.0:
            sample = cut_window(sample, self.window, draws[:6])
        if self.turns:  # before the size is the model's, which need not be square
            sample = quarter_turn(sample, int(4 * draws[6]))
        sample = resize(sample, self.preprocessing.size, interpolation=self.preprocessing.interpolation)
        moved = move(sample, self.how, seed=self.seed, epoch=epoch, index=index, fill=self.fill)
        return moved, (array.shape[0], array.shape[1])

    def read_marks(self, index: int) -> Annotations:
        marks = read_marks(self.split, index)
        if self.renumber is None:
            return marks
        return replace(marks, classes=np.array(self.renumber, dtype=np.int64)[marks.classes])

    def collate(self, epoch: int, indices: Sequence[int], samples: Sequence[Boxed]) -> BoxBatch:
        """Images with fewer objects than another are filled up."""
        height, width = self.preprocessing.size
        arrays = np.stack([np.atleast_3d(np.asarray(sample.image)) for sample, _ in samples])
        most = max(len(sample.annotations.classes) for sample, _ in samples)
        classes = torch.full((len(samples), most), NOTHING)
        boxes = torch.zeros(len(samples), most, 4)
        crowd, difficult = (torch.zeros(len(samples), most, dtype=torch.bool) for _ in range(2))
        for row, (sample, _) in enumerate(samples):
            marks, count = sample.annotations, len(sample.annotations.classes)
            classes[row, :count] = torch.from_numpy(marks.classes)
            corners = torch.from_numpy(marks.boxes.astype(np.float32))
            boxes[row, :count] = to_centers(corners / torch.tensor([width, height, width, height]))
            crowd[row, :count], difficult[row, :count] = torch.from_numpy(marks.crowd), torch.from_numpy(marks.difficult)
        images, sizes = normalize(to_unit(arrays), self.preprocessing), torch.tensor([size for _, size in samples])
        return BoxBatch(images, classes, boxes, crowd, difficult, sizes, torch.tensor(indices))


def cut_window(sample: Sample, least: float, draws: Float[np.ndarray, "6"]) -> Sample:
    """Half of the time a window of at least `least` of each side; where there are objects, with the middle of one of them in it."""
    if draws[0] < 0.5:
        return sample
    (width, height), boxes = sample.image.size, sample.annotations.boxes
    sides = [max(1, round(side * (least + (1 - least) * draw))) for side, draw in zip((width, height), draws[1:3], strict=True)]
    low, high = [0, 0], [width - sides[0], height - sides[1]]
    if len(boxes):
        x0, y0, x1, y1 = boxes[int(draws[3] * len(boxes))].tolist()
        for axis, middle in enumerate(((x0 + x1) / 2, (y0 + y1) / 2)):
            low[axis] = min(high[axis], max(0, int(np.ceil(middle)) - sides[axis]))
            high[axis] = max(low[axis], min(high[axis], int(middle)))
    left, top = (start + int(draw * (end - start + 1)) for start, end, draw in zip(low, high, draws[4:], strict=True))
    return crop(sample, top, left, sides[1], sides[0], visible=VISIBLE)


def box_loader(
    source: BoxSource, *, batch: int, shuffle: bool = False, workers: int = 0, on_bad: OnBad | None = None, rank: int = 0,
    world: int = 1,
) -> Loader[BoxBatch]:  # fmt: skip
    """Each image of a source once per epoch."""
    order = PlainOrder(len(source.split), batch=batch, shuffle=shuffle, seed=source.seed, rank=rank, world=world)
    return Loader(source, order, workers=workers, on_bad=on_bad)


def box_loaders(
    options: Options, data: DataSet, model: Detector, bad: BadFiles, world: World
) -> tuple[Loader[BoxBatch], Loader[BoxBatch]]:
    """Training images, cropped and moved about, and validation images as they are; decoded ones are cached."""
    assert options.min_crop != "auto"
    budget, channels = cache_bytes(options), model.config.in_channels
    shared: dict[str, Any] = {
        "batch": options.batch_size, "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    rooms: dict[SplitName, int] = {"train": budget - budget // 8, "val": budget // 8}
    stores = {name: ImageStore(data[name], channels=channels, budget=room) for name, room in rooms.items()}
    training = BoxSource(
        stores["train"], model.preprocessing, how=movement_of(options), window=options.min_crop, seed=options.seed
    )
    validation = BoxSource(stores["val"], model.preprocessing, seed=options.seed)
    return (
        box_loader(training, shuffle=True, on_bad=partial(note_bad, bad, "train"), **shared),
        box_loader(validation, on_bad=partial(note_bad, bad, "val"), **shared),
    )


def movement_of(options: Options) -> Movement:
    """How far training images may be changed."""
    assert options.shift != "auto"
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    assert options.color_jitter != "auto"
    return Movement(
        shift=options.shift, rotate=options.rotate, zoom=options.zoom, color=options.color_jitter, flip=bool(options.flip),
        flip_vertical=options.dihedral, quarter_turns=options.dihedral,
    )  # fmt: skip


def cache_bytes(options: Options) -> int:
    """Of decoded images."""
    assert options.cache_gb != "auto"
    return int(options.cache_gb * 2**30) if options.cache == "memory" else 0


def scoring_loader(
    model: Detector, data: DataSet, name: SplitName, *, batch: int, workers: int, bad: BadFiles, world: World
) -> Loader[BoxBatch]:
    """A split as it is, once, with classes numbered as the model numbers them."""
    images = BoxSource(
        ImageStore(data[name], channels=model.config.in_channels, budget=0),
        model.preprocessing,
        renumber=renumber(data.classes, labels_of(model), where=data.name),
    )
    return box_loader(
        images, batch=batch, workers=workers, on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size
    )


def labels_of(model: Detector) -> tuple[str, ...]:
    return model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))


def renumber(classes: Sequence[str], labels: Sequence[str], *, where: str) -> list[int] | None:
    """The model's number of each class of the data; None where both count alike. A class that it does not know cannot be scored."""
    for name in classes:
        if name not in labels:
            raise VitrailError(f'{where}: the model knows no class "{name}"{suggestion(name, labels)}')
    found = [labels.index(name) for name in classes]
    return None if found == list(range(len(labels))) else found
