"""What an attention kernel is: a way to read values by queries and keys, and the list of what it can honor.

b batch, h heads, n queries, m keys, d key width, e value width, i chosen heads, j chosen queries
"""

from typing import Literal, NamedTuple, Protocol, get_args, runtime_checkable

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.scope import Scope


class Part(NamedTuple):
    """Heads and queries by number, each at most once; None: all. What is cut is a copy, so that the whole can be let go."""

    heads: Int[Tensor, "i"] | None = None
    queries: Int[Tensor, "j"] | None = None

    def of_heads(self, x: Shaped[Tensor, "b h m d"]) -> Shaped[Tensor, "b i m d"]:
        """Of keys and values."""
        return x if self.heads is None or x.shape[1] == 1 else x.index_select(1, self.heads)

    def of(self, x: Shaped[Tensor, "b h n d"]) -> Shaped[Tensor, "b i j d"]:
        """Of queries, weights, a bias or a mask; one that stands for all (a size of 1) stays."""
        x = self.of_heads(x)
        return x if self.queries is None or x.shape[2] == 1 else x.index_select(2, self.queries)


WHOLE = Part()


Feature = Literal["mask", "causal", "cross", "bias", "read", "cache", "window", "carry", "weights"]
USED: frozenset[Feature] = frozenset({"carry"})  # not asked of a kernel: one that declares it is given `scope.carry`
EVERYTHING: frozenset[Feature] = frozenset(get_args(Feature)) - USED


@runtime_checkable
class Supporting(Protocol):
    """A kernel, or a whole attention layer: it has a name, and says what it can honor."""

    name: str
    supports: frozenset[Feature]


class Kernel(nn.Module):
    """`kernel(q, k, v, scope)`; may own parameters. What `supports` does not list is refused by name, when a model is built where possible.

    Its constructor takes what it needs of the layer's `AttentionSpec` by name (heads, key_width, layer, dropout ...). Its other parameters
    are the kernel's options. Three things are up to a kernel:
    - With "carry" it reads what a layer below left, `scope.carry.below(layer)`, and leaves something itself, `scope.carry.leave(layer, x)`.
      `scope.carry` is None where a layer is called by itself.
    - With `after_step(step)` it may redraw random numbers, which it keeps in buffers: the training step calls it on every module that has
      it. Draws are a function of a seed and the step, so that all processes have the same.
    - With `auxiliary_loss()` it adds to the loss: the training step asks every module that has it, after each forward pass.
    """

    name: str
    supports: frozenset[Feature]

    def forward(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], v: Float[Tensor, "b h m e"], scope: Scope
    ) -> Float[Tensor, "b h n e"]:
        raise NotImplementedError

    def weights(
        self, q: Float[Tensor, "b h n d"], k: Float[Tensor, "b h m d"], scope: Scope, part: Part = WHOLE
    ) -> Float[Tensor, "b i j m"]:
        """Row-stochastic weights over the kernel's own keys, for `explain`; listed in `supports` as "weights".

        q and k are those of all heads and queries, since positions and masks are about all; `part` says whose rows to give.
        """
        raise VitrailError(f"{self.name} attention has no weights to record: it never forms a row for a query")


def refuse_unsupported(kernel: Supporting, scope: Scope, *, cross: bool) -> None:
    """One line for what is asked of a kernel and not in its list."""
    if kernel.supports >= EVERYTHING:
        return
    asked: dict[Feature, bool] = {
        "mask": scope.mask is not None,
        "causal": scope.causal,
        "cross": cross,
        "bias": scope.position is not None and scope.position.biases,
        "read": scope.position is not None and scope.position.reads,
        "cache": scope.cache is not None,
    }
    for feature, wanted in asked.items():
        if wanted:
            refuse_feature(kernel, feature)


def refuse_feature(kernel: Supporting, feature: Feature) -> None:
    """One line where a kernel, or a whole layer, does not support what is needed of it."""
    if feature not in kernel.supports:
        supported = ", ".join(sorted(kernel.supports)) or "none"
        raise VitrailError(f"{kernel.name} attention does not support {feature}; it supports {supported}")
