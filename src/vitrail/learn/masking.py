"""Which patches are masked when a model is evaluated: always the same.

b batch, r cells that are visible
"""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.data.randomness import uniforms
from vitrail.nn.functional.masking import keep_lowest


def keep_same(indices: Int[np.ndarray, "b"], cells: int, hide: float, *, seed: int) -> Int[Tensor, "b r"]:
    """The visible cells of the images of these numbers, a function of (seed, number): what a smaller share masks, a larger one masks too."""
    return keep_lowest(torch.from_numpy(uniforms(seed, 0, indices, count=cells)).float(), hide)
