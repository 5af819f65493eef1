"""Greedy decoding: the likeliest token, again and again.

b batch, p prompt, n new tokens, v vocabulary
"""

from typing import Any, Unpack

from jaxtyping import Int
from torch import Tensor

from vitrail.models.decoding.extension import Extending, extend
from vitrail.models.decoding.largest import first_largest
from vitrail.models.decoding.stepping import Stepping


def greedy(
    model: Stepping,
    source: Any,
    **how: Unpack[Extending],
) -> Int[Tensor, "b n"]:
    """y_t = arg max_y p(y | source, y_<t), without the prompt; ends with `end` or is cut after `longest` tokens, then PAD.

    `prompt` stands in place of `begin`. `allow`, True for tokens that may come, replaces the rule that PAD, BEGIN and MASK
    never do; with end=None every row has `longest` tokens.
    """
    return extend(model, source, lambda logits, _: first_largest(logits), **how)[:, 0]
