"""What an attention kernel is: a way to read values by queries and keys, and the list of what it can honor.

b batch, h heads, n queries, m keys, d key width, e value width, i chosen heads, j chosen queries
"""

from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.part import WHOLE, Part
from vitrail.scope import Scope

Feature = Literal["mask", "causal", "cross", "bias", "read", "weights"]
EVERYTHING: frozenset[Feature] = frozenset(get_args(Feature))


class Kernel(nn.Module):
    """`kernel(q, k, v, scope)`; may own parameters. A layer refuses by name what `supports` does not list."""

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


def refuse_unsupported(kernel: Kernel, scope: Scope, *, cross: bool) -> None:
    """One line for what is asked of a kernel and not in its list."""
    if kernel.supports == EVERYTHING:
        return
    asked: dict[Feature, bool] = {
        "mask": scope.mask is not None,
        "causal": scope.causal,
        "cross": cross,
        "bias": scope.position is not None and scope.position.biases,
        "read": scope.position is not None and scope.position.reads,
    }
    for feature, wanted in asked.items():
        if wanted and feature not in kernel.supports:
            raise VitrailError(
                f"{kernel.name} attention does not support {feature}; it supports {', '.join(sorted(kernel.supports)) or 'none'}"
            )
