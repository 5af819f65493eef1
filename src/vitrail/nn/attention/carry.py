"""What attention layers of one forward pass leave for the layers above them, such as their logits."""

from collections.abc import Hashable, Iterable

from torch import Tensor, nn

from vitrail.scope import Scope


class Carry:
    """Entries by the number of the layer that left them. An encoder makes one per forward pass and a new one when the number of tokens changes.

    A layer reads what the nearest layer below it left, never "the last entry": with activation checkpointing a block is computed again
    after the layers above it have left their entries, and must read what it read before. So all entries stay until the pass ends.
    """

    def __init__(self) -> None:
        self.entries: dict[int, Tensor] = {}
        self.parts: dict[Hashable, Carry] = {}

    def below(self, layer: int) -> Tensor | None:
        """What the nearest layer below `layer` left; None where there is none."""
        numbers = [number for number in self.entries if number < layer]
        return self.entries[max(numbers)] if numbers else None

    def leave(self, layer: int, value: Tensor) -> None:
        self.entries[layer] = value

    def within(self, part: Hashable) -> "Carry":
        """A carry for layers that share an arrangement of the tokens, such as windows of one shift: only they fit each other."""
        if part not in self.parts:
            self.parts[part] = Carry()
        return self.parts[part]


def uses_carry(blocks: Iterable[nn.Module]) -> bool:
    """Whether a kernel in one of the blocks passes something from layer to layer."""
    return any("carry" in getattr(module, "supports", ()) for block in blocks for module in block.modules())


def with_carry(scope: Scope, wanted: bool) -> Scope:
    """The scope with a new, empty carry; as it is where no kernel wants one."""
    return scope._replace(carry=Carry()) if wanted else scope
