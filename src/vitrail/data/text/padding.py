"""Sentences of token ids as rows of one length.

b sentences, m tokens of the longest
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.special_tokens import END, PAD


def cut(ids: list[int], longest: int) -> list[int]:
    """At most `longest` tokens, of which the last is END."""
    return ids if len(ids) <= longest else [*ids[: longest - 1], END]


def pad(rows: Sequence[Sequence[int]], size: int | None = None) -> Int[Tensor, "b m"]:
    """Rows of one length, `size` or that of the longest, with PAD at the end."""
    padded = np.full((len(rows), size or max(map(len, rows))), PAD, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(padded)
