"""Batches of pictures with their boxes. A picture and its boxes are cut, resized and moved together; chance is a function of
(seed, epoch, index) alone, so that neither workers nor a restart change it.

A model of one input size sees the whole picture squeezed into it: boxes in shares of the sides do not notice.

b batch, ch channels, h w picture, n objects of the picture that has most
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from vitrail.data.annotations import Annotations
from vitrail.data.box_data import read_marks
from vitrail.data.images import PictureError
from vitrail.data.joint import Movement, Sample, crop, move, quarter_turn, resize
from vitrail.data.loading import COPY, Fetched, Key, Loader, Order
from vitrail.data.picture_store import PictureStore
from vitrail.data.randomness import uniforms
from vitrail.data.transforms import normalize, to_unit
from vitrail.models.detections import Targets
from vitrail.nn.functional.boxes import to_centers
from vitrail.preprocessing import Preprocessing

NOTHING = -1  # in the place of a class: only fills up the batch
VISIBLE = 0.3  # share of an object that a window must keep for the object to be learned from
DRAWN = 10  # numbers that `data.joint.move` draws for a sample; what is drawn here comes behind them


class BoxBatch(NamedTuple):
    """What a detection task reads; `indices` are the pictures' numbers in their split, `sizes` their own, before they were resized."""

    images: Float[Tensor, "b ch h w"]
    classes: Int[Tensor, "b n"]
    boxes: Float[Tensor, "b n 4"]  # cx cy w h, in shares of the picture's sides
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


class BoxPictures(Dataset[Fetched]):
    """A split behind its preprocessing. In training pictures are moved about as `how` has it, and half of the time a window of at least
    the share `window` of each side is all that is seen of them."""

    def __init__(
        self,
        pictures: PictureStore,
        preprocessing: Preprocessing,
        *,
        how: Movement | None = None,
        window: float = 1.0,
        seed: int = 0,
        renumber: Sequence[int] | None = None,
    ) -> None:
        """`renumber`: what the model calls each class of the data."""
        self.pictures, self.preprocessing, self.seed = pictures, preprocessing, seed
        how = how or Movement()
        self.how, self.turns = replace(how, quarter_turns=False), how.quarter_turns
        self.window, self.renumber, self.split = window, renumber, pictures.split
        self.fill = tuple(round(255 * level) for level in preprocessing.mean)
        self.marks: dict[int, Annotations] = {}

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, keys: list[Key]) -> Fetched:
        bad, found = list[PictureError](), list[tuple[int, Sample, tuple[int, int]]]()
        for epoch, number in keys:
            try:
                found.append((number % COPY, *self.make(epoch, number % COPY)))
            except PictureError as error:
                bad.append(error)
        return Fetched(self.join(found) if found else None, tuple(bad))

    def make(self, epoch: int, index: int) -> tuple[Sample, tuple[int, int]]:
        """A picture at the model's size with its boxes, moved as this epoch has it; and its own height and width."""
        array = self.pictures.read(index)
        if index not in self.marks:
            self.marks[index] = self.read_marks(index)
        sample = Sample(Image.fromarray(array.squeeze(-1) if array.shape[-1] == 1 else array), self.marks[index])
        height, width = array.shape[:2]
        draws = uniforms(self.seed, epoch, np.array([index]), count=DRAWN + 7)[0, DRAWN:]
        if self.window < 1.0:
            sample = cut_window(sample, self.window, draws[:6])
        if self.turns:  # before the size is the model's, which need not be square
            sample = quarter_turn(sample, int(4 * draws[6]))
        sample = resize(sample, self.preprocessing.size, interpolation=self.preprocessing.interpolation)
        fill = self.fill[0] if len(self.fill) == 1 else self.fill
        return move(sample, self.how, seed=self.seed, epoch=epoch, index=index, fill=fill), (height, width)  # type: ignore[arg-type]

    def read_marks(self, index: int) -> Annotations:
        marks = read_marks(self.split, index)
        return (
            marks if self.renumber is None else replace(marks, classes=np.array(self.renumber, dtype=np.int64)[marks.classes])
        )

    def join(self, found: list[tuple[int, Sample, tuple[int, int]]]) -> BoxBatch:
        """Samples of one size as a batch; pictures with fewer objects than another are filled up."""
        height, width = self.preprocessing.size
        arrays = np.stack([np.atleast_3d(np.asarray(sample.picture)) for _, sample, _ in found])
        most = max(len(sample.annotations.classes) for _, sample, _ in found)
        classes = torch.full((len(found), most), NOTHING)
        boxes = torch.zeros(len(found), most, 4)
        crowd, difficult = (torch.zeros(len(found), most, dtype=torch.bool) for _ in range(2))
        for row, (_, sample, _) in enumerate(found):
            marks, count = sample.annotations, len(sample.annotations.classes)
            classes[row, :count] = torch.from_numpy(marks.classes)
            corners = torch.from_numpy(marks.boxes.astype(np.float32))
            boxes[row, :count] = to_centers(corners / torch.tensor([width, height, width, height]))
            crowd[row, :count], difficult[row, :count] = torch.from_numpy(marks.crowd), torch.from_numpy(marks.difficult)
        sizes = torch.tensor([size for _, _, size in found])
        indices = torch.tensor([index for index, _, _ in found])
        images = normalize(to_unit(arrays), self.preprocessing)
        return BoxBatch(images, classes, boxes, crowd, difficult, sizes, indices)


def cut_window(sample: Sample, least: float, draws: Float[np.ndarray, "6"]) -> Sample:
    """Half of the time a window of at least `least` of each side; where there are objects, with the middle of one of them in it."""
    if draws[0] < 0.5:
        return sample
    (width, height), boxes = sample.picture.size, sample.annotations.boxes
    sides = [max(1, round(side * (least + (1 - least) * draw))) for side, draw in zip((width, height), draws[1:3], strict=True)]
    low, high = [0, 0], [width - sides[0], height - sides[1]]
    if len(boxes):
        x0, y0, x1, y1 = boxes[int(draws[3] * len(boxes))].tolist()
        for axis, middle in enumerate(((x0 + x1) / 2, (y0 + y1) / 2)):
            low[axis] = min(high[axis], max(0, int(np.ceil(middle)) - sides[axis]))
            high[axis] = max(low[axis], min(high[axis], int(middle)))
    left, top = (start + int(draw * (end - start + 1)) for start, end, draw in zip(low, high, draws[4:], strict=True))
    return crop(sample, top, left, sides[1], sides[0], visible=VISIBLE)


class BoxLoader(Loader):
    """Passes over pictures with boxes, each from any batch on; what cannot be read is left out and told to `on_bad`."""

    def __init__(
        self,
        pictures: BoxPictures,
        *,
        batch: int,
        shuffle: bool = False,
        workers: int = 0,
        on_bad: Callable[[PictureError], None] | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        order = Order(
            pictures.split.labels, batch=batch, shuffle=shuffle, seed=pictures.seed, rank=rank, world=world
        )  # fmt: skip
        self.connect(order, pictures, workers=workers, on_bad=on_bad)
