"""Contrast: a query is to be distinguished from all keys by that of the same image.

b queries, m keys, z width
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def contrast_loss(
    queries: Float[Tensor, "b z"], keys: Float[Tensor, "m z"], own: Int[Tensor, "b"], *, temperature: float
) -> Float[Tensor, ""]:
    """InfoNCE: -log exp(q k+ / tau) / sum_i exp(q k_i / tau), of unit vectors  [van den Oord+ 2018; Chen+ 2021, eq. 1], times 2 tau as
    in the latter's code, so that the gradient does not depend on the temperature. `own`: the number of each query's key."""
    logits = F.normalize(queries.float(), dim=1) @ F.normalize(keys.float(), dim=1).T / temperature
    return 2 * temperature * F.cross_entropy(logits, own)
