"""A share of the training images, of every class alike: what learning from few labels is measured with.

n images, m of them
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from vitrail.data.dataset import DataSet, Part
from vitrail.data.order import members_of
from vitrail.errors import VitrailError


def choose_labelled(labels: np.ndarray, share: float, *, seed: int) -> Int[np.ndarray, "m"]:
    """Sorted numbers of the images that keep their labels: of each class the first max(1, round(share · its images)) in one random
    order of all, which depends on the seed alone. So the images of a smaller share are among those of a larger one.

    With several labels per image, each label has its images chosen so, and those without any are a class of their own: since the
    order is the same for all of them the choices mostly coincide, and no label has less than its share.
    """
    if not 0 < share <= 1:
        raise VitrailError(f"the share of labelled images must be above 0 and at most 1, got {share:g}")
    order = np.random.Generator(np.random.PCG64([seed, len(labels)])).permutation(len(labels))
    place = np.argsort(order)  # of each image in the order
    parts = [members[np.argsort(place[members])][: max(1, round(share * len(members)))] for members in members_of(labels)]
    return np.unique(np.concatenate(parts))


def keep_share(data: DataSet, share: float, *, seed: int) -> DataSet:
    """The data with so much of its training split, and a note that says how much that is; validation and test are as they were."""
    if share == 1.0:
        return data
    whole = data["train"]
    chosen = choose_labelled(whole.labels, share, seed=seed)
    each = "every label" if data.multi_label else "every class"
    note = f"learning from {len(chosen):,} of {len(whole):,} training images: {100 * share:g} % of {each} (seed {seed})"
    return replace(data, splits={**data.splits, "train": Part(whole, chosen)}, notes=(*data.notes, note))
