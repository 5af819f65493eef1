"""A few pictures of a split, for a report to show."""

import numpy as np
import torch

from vitrail.data.dataset import Split
from vitrail.data.images import PictureError
from vitrail.data.loading import Batch
from vitrail.data.transforms import normalize, read_fitted, to_unit
from vitrail.jobs.settling import spread
from vitrail.preprocessing import Preprocessing

SHOWN = 8


def some_pictures(split: Split, preprocessing: Preprocessing, count: int = SHOWN) -> Batch | None:
    """Evenly chosen; those that cannot be read are left out, None if that is all of them."""
    arrays, indices = [], list[int]()
    for index in spread(len(split), count):
        try:
            arrays.append(read_fitted(split, int(index), preprocessing))
        except PictureError:
            continue
        indices.append(int(index))
    if not arrays:
        return None
    images = normalize(to_unit(np.stack(arrays)), preprocessing)
    return Batch(images, torch.from_numpy(split.labels[indices]), torch.tensor(indices))
