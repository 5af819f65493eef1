"""What tasks about words share: the scores of the words that are asked for, and of no other place.

The head is the dearest part of a small model: v scores for every word. Padding is left out before it, not after.

b batch, m words of the source, n words of the target, k places that are asked for, v vocabulary
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.losses.mask_predict_loss import FillingLoss, nat_parts
from vitrail.learn.training.sharding import is_sharded
from vitrail.models.decoding.extension import spelled_tokens
from vitrail.models.mask_predict import MaskPredict
from vitrail.models.transformer import Transformer
from vitrail.special_tokens import PAD, SPECIAL_TOKENS
from vitrail.tokens import Tokens


class AskedWords(nn.Module):
    """A model's scores at some places. One module, so that processes can be joined around it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, places: Int[Tensor, "k"], *read: Tensor) -> Float[Tensor, "k v"]:
        """`read` is what the model reads, `places` the numbers of the tokens wanted, counted through the whole batch."""
        features = find_features(self.model)
        head: Callable[[Tokens], Tensor] | None = getattr(self.model, "head", None)
        if features is None or head is None:  # all the scores it has, then
            return self.model(*read).flatten(0, 1)[places]
        tokens = features(*read)
        return head(Tokens(tokens.x.flatten(0, 1)[places][None], grid=(len(places),)))[0]


class HiddenWords(nn.Module):
    """The loss of a model that fills in hidden words, in its parts, as one module; which ones are hidden follows from `numbers`."""

    def __init__(self, model: MaskPredict) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"], numbers: Float[Tensor, "b n-1"], smoothing: float
    ) -> FillingLoss:
        return nat_parts(self.model, source, target, numbers=numbers, smoothing=smoothing)


def find_features(model: Any) -> Callable[..., Tokens] | None:
    """What computes the tokens that a model's head reads, if it can be had apart."""
    if hasattr(model, "forward_features"):
        return model.forward_features
    if isinstance(model, Transformer):
        return lambda source, target: model.decode(target, model.encode(source))
    return None


def asked_places(targets: Int[Tensor, "b n"]) -> Int[Tensor, "k"]:
    """Numbers of the places whose target is a word."""
    return (targets.flatten() != PAD).nonzero()[:, 0]


def spelled_words(model: Any) -> Bool[Tensor, "v"]:
    """True for what a text is made of: the pieces of a model's tokenizer without the special tokens."""
    numbers = torch.arange(model.vocabulary)
    return (numbers >= len(SPECIAL_TOKENS)) & (numbers < spelled_tokens(model))


def refuse_shards(model: nn.Module) -> None:
    """Writing words runs parts of the model, and a divided one is whole only when all of it runs."""
    if is_sharded(model):
        raise VitrailError("a model of words cannot be divided among processes: train it without --shard")
