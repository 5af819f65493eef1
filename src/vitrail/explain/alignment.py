"""Alignment: which words of the source each word of a translation was written from, by the decoder's attention to the source.

l layers, h heads, n words written, m words of the source
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.explain.heads import entropy
from vitrail.explain.record import choose
from vitrail.explain.words import NAMES, WordLook


def alignment(look: WordLook, layer: int | None = None, head: int | None = None) -> Float[Tensor, "n m"]:
    """a_ij, how much of source word j is read to write word i: of one head, or the mean over those of a layer. Rows sum to 1.

    Without a layer it is the one of `aligning_layer`. A recurrent model with attention has one layer of one head.
    """
    return look.of("cross", aligning_layer([look], head) if layer is None else layer, head)


def aligning_layer(looks: Sequence[WordLook], head: int | None = None) -> int:
    """The layer whose alignment tells most about the word that is being written: the largest mean `information`, in these looks.

    Deeper layers align better, the last but one best in a 2017 Transformer [Garg+ 2019, section 4.1]; in others it is another,
    so it is measured. Sharpness alone would not do: a layer that looks at <end> whatever it writes is sharp, and tells nothing.
    """
    if not looks:
        raise ValueError("at least one look is needed to compare layers")
    weights = [look.every("cross") for look in looks]
    if head is not None:
        [head] = choose([head], weights[0].shape[1], "head", f"the {NAMES['cross']}")
    found = [torch.stack([information(layer.mean(0) if head is None else layer[head]) for layer in one]) for one in weights]
    return int(torch.stack(found).mean(0).argmax())


def information(weights: Float[Tensor, "n m"]) -> Float[Tensor, ""]:
    """Bits that the place looked at and the word being written tell of each other, each of n words as likely as another:

        H(1/n sum_i a_i) - 1/n sum_i H(a_i)

    0 where all words look alike, log2(n) where each looks at a place of its own.
    """
    return entropy(weights.double().mean(0)) - entropy(weights.double()).mean()
