"""How many tokens a model's blocks read, seen while it runs.

ch channels, h w image
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.models.classifier import Classifier
from vitrail.nn.blocks.encoder_block import EncoderBlock
from vitrail.tokens import Tokens


def sequence_lengths(model: Classifier, image: Float[Tensor, "1 ch h w"]) -> tuple[int, ...]:
    """Tokens, prefix included, before the blocks and behind the last, a number once while it stays: (197,) of a ViT, (3136, 784, 196,
    49) of a Swin with its four stages, 197 down to 41 where 13 are merged away in each of 12 blocks. Nothing for a net without tokens."""
    seen: list[int] = []

    def note(block: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.append(int(arguments[0].shape[1]))

    hooks = [part.register_forward_pre_hook(note) for part in model.modules() if isinstance(part, EncoderBlock)]
    try:
        with torch.inference_mode():
            found = model.forward_features(image)
    finally:
        for hook in hooks:
            hook.remove()
    if seen and isinstance(found, Tokens):
        seen.append(int(found.x.shape[1]))
    return tuple(length for number, length in enumerate(seen) if not number or length != seen[number - 1])
