"""How many floating-point operations a forward pass takes, counted while it runs: for any model, not by a formula of one kind.

b batch, ch channels, h w image
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

Shape = tuple[int, ...] | torch.Size


def count_flops(model: nn.Module, images: Float[Tensor, "b ch h w"]) -> int:
    """Operations of these images, two a multiply-add: matrix products, convolutions and attention.

    Norms, softmax, activations and sums are not counted, as everywhere: they wait for memory, not for arithmetic.
    """
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention_flops}  # torch counts those of GPUs only
    with torch.inference_mode(), FlopCounterMode(display=False, custom_mapping=fused) as counter:
        model(images)
    return int(counter.get_total_flops())


def attention_flops(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Scores q kᵀ and their weighted sum of the values: b h n (m d + m e) multiply-adds, for h heads, n queries and m keys of width d,
    values of width e."""
    batch, heads, queries, width = query
    return 2 * batch * heads * queries * key[2] * (width + value[3])
