"""What tasks on text share: the logits of the tokens that are asked for, and at no other position.

The head is the most expensive part of a small model: v logits for every token. Padding is left out before it, not after.

b batch, m tokens of the source, n tokens of the target, k positions that are asked for, v vocabulary
"""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.learn.losses.mask_predict_loss import FillingLoss, nat_parts
from vitrail.learn.training.sharding import is_sharded
from vitrail.models.mask_predict import MaskPredict
from vitrail.models.protocols import HasTokenFeatures
from vitrail.models.transformer import Transformer
from vitrail.special_tokens import PAD
from vitrail.tokens import Tokens


class AskedTokens(nn.Module):
    """A model's logits at some positions. One module, so that processes can be joined around it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, places: Int[Tensor, "k"], *read: Tensor) -> Float[Tensor, "k v"]:
        """`read` is what the model reads, `places` the numbers of the tokens asked for, counted through the whole batch."""
        features = find_features(self.model)
        head: Callable[[Tokens], Tensor] | None = getattr(self.model, "head", None)
        if features is None or head is None:  # then all the logits that it has
            return self.model(*read).flatten(0, 1)[places]
        tokens = features(*read)
        return head(Tokens(tokens.x.flatten(0, 1)[places][None], grid=(len(places),)))[0]


class MaskedTokens(nn.Module):
    """The loss of a model that fills in masked tokens, in its parts, as one module; which are masked follows from `numbers`."""

    def __init__(self, model: MaskPredict) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"], numbers: Float[Tensor, "b n-1"], smoothing: float
    ) -> FillingLoss:
        return nat_parts(self.model, source, target, numbers=numbers, smoothing=smoothing)


def find_features(model: nn.Module) -> Callable[..., Tokens] | None:
    """What computes the tokens that a model's head reads, if it can be had apart."""
    if isinstance(model, HasTokenFeatures):
        return model.forward_features
    if isinstance(model, Transformer):
        return lambda source, target: model.decode(target, model.encode(source))
    return None


def asked_places(targets: Int[Tensor, "b n"]) -> Int[Tensor, "k"]:
    """Numbers of the positions whose target is a token."""
    return (targets.flatten() != PAD).nonzero()[:, 0]


def refuse_shards(model: nn.Module) -> None:
    """Writing text runs parts of the model, and a divided one is whole only when all of it runs."""
    if is_sharded(model):
        raise VitrailError("a model of words cannot be divided among processes: train it without --shard")
