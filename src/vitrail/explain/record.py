"""Recording attention: with record(model) as seen: model(images), then look at seen.layers.

b batch, h heads, n queries, m keys, e value width
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording
from vitrail.scope import Scope


class Seen:
    """What the recorded layers did in the last forward pass, one entry a layer, in the order they ran.

    `layers[i] @ values[i]` equals `outputs[i]`, the layer's output before its last projection (plus the position's read
    term, where a scheme has one).
    """

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names
        self.clear()

    def clear(self) -> None:
        """Forget what was seen; a new forward pass adds to the lists."""
        self.names: list[str] = []
        self.layers: list[Float[Tensor, "b h n m"]] = []  # weights, each row sums to 1
        self.values: list[Float[Tensor, "b h m e"]] = []
        self.outputs: list[Float[Tensor, "b h n e"]] = []

    def keep(self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope) -> None:
        name = self._names.get(id(layer))
        if name is None:  # a layer of another model, or one that was not asked for
            return
        if self.names and name == self.names[0]:  # a new pass through the same model replaces the last one
            self.clear()
        assert isinstance(layer, MultiHeadAttention)
        self.names.append(name)
        self.layers.append(layer.kernel.weights(q, k, scope).detach())
        self.values.append(v.detach())
        self.outputs.append(out.detach())


@contextmanager
def record(model: nn.Module, layers: Sequence[int] | None = None) -> Iterator[Seen]:
    """Within the block, forward passes of `model` in this thread are recorded; `layers` chooses some by number.

    The model is not changed and its fused attention stays on: each kernel is asked for its weights beside its output.
    """
    plain = getattr(model, "_orig_mod", model)
    if plain is not model:
        raise VitrailError(
            "a compiled model cannot be recorded, its graph holds no such step: record the model it was made from"
        )
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    if not found:
        raise VitrailError(f"{type(model).__name__} has no attention layers to record")
    if layers is not None:
        for number in layers:
            if not -len(found) <= number < len(found):
                raise VitrailError(f"layer {number} does not exist: the model has {len(found)}, 0 to {len(found) - 1}")
        found = [found[number] for number in sorted({number % len(found) for number in layers})]
    for name, module in found:
        if "weights" not in module.kernel.supports:
            raise VitrailError(f"{name}: {module.kernel.name} attention has no weights to record")
    seen = Seen({id(module): name for name, module in found})
    with recording(seen):
        yield seen
