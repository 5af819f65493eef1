"""What an attention layer is built for. A model says it in these words, a kernel takes what it needs of them by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import Feature
from vitrail.tokens import Grid

Role = Literal["self", "cross", "window"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionSpec:
    """One layer of a model. `needs` are features that the model will ask for beside those that `role` and `causal` imply."""

    width: int
    heads: int
    key_width: int = 0  # of one head; 0: width / heads
    value_width: int = 0
    joined_width: int = (
        0  # what the position joins to each head's queries and keys: the kernel's are key_width + joined_width wide
    )
    context_width: int | None = None  # None: the layer's own width
    grid: Grid | None = None  # of the tokens; None: not known when the model is built
    prefix: int = 0
    layer: int = 0  # its number in its stack of blocks, and how many blocks that has
    depth: int = 1
    role: Role = "self"
    causal: bool = False
    dropout: float = 0.0
    key_bias: bool = True
    needs: frozenset[Feature] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)  # of the kernel, by the names of its constructor

    def __post_init__(self) -> None:
        if self.heads < 1 or (not (self.key_width and self.value_width) and self.width % self.heads):
            raise VitrailError(f"the width must be a multiple of the heads: got width {self.width}, heads {self.heads}")
        for name in ("key_width", "value_width"):
            if not getattr(self, name):
                object.__setattr__(self, name, self.width // self.heads)

    @property
    def asked(self) -> list[Feature]:
        """Every feature that this layer asks of its kernel, in alphabetical order."""
        implied: dict[Feature, bool] = {"cross": self.role == "cross", "window": self.role == "window", "causal": self.causal}
        return sorted(self.needs | {feature for feature, wanted in implied.items() if wanted})
