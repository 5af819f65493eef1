"""A few pictures of a split, for a report to show."""

import torch

from vitrail.data.dataset import Split
from vitrail.data.examples import read_some
from vitrail.data.loading import Batch
from vitrail.data.transforms import normalize, to_unit
from vitrail.preprocessing import Preprocessing

SHOWN = 8


def some_pictures(split: Split, preprocessing: Preprocessing, count: int = SHOWN) -> Batch | None:
    """Evenly chosen; those that cannot be read are left out, None if that is all of them."""
    some = read_some(split, preprocessing, count)
    if some is None:
        return None
    images = normalize(to_unit(some.pictures), preprocessing)
    return Batch(images, torch.from_numpy(split.labels[some.indices]), torch.tensor(some.indices))
