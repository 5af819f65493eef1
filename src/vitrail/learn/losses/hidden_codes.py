"""The loss of BEiT: the code of each hidden patch, and of no other.

b batch, c cells, m hidden cells of all images together, k codes
"""

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor


def hidden_code_losses(
    logits: Float[Tensor, "m k"], codes: Int[Tensor, "b c"], hidden: Bool[Tensor, "b c"]
) -> Float[Tensor, "b"]:
    """-log p(code) of an image's hidden cells, their mean  [Bao+ 2022, eq. 2]. `logits` are of the hidden cells alone, image by
    image; every image has as many of them."""
    return F.cross_entropy(logits.float(), codes[hidden].long(), reduction="none").view(len(codes), -1).mean(1)
