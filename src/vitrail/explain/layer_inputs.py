"""What goes into one attention layer: its queries, keys and values with their scope, and what comes out.

b batch, ch channels, y x image, h heads, n queries, m keys, d key width, e value width
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.explain.evaluating import at_model, evaluating
from vitrail.explain.record import attention_layers, choose
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording
from vitrail.scope import Scope
from vitrail.tokens import Windows


@dataclass(frozen=True, kw_only=True)
class LayerInputs:
    """As the kernel has them: queries and keys after a rotary position has turned them."""

    name: str
    number: int
    layer: MultiHeadAttention
    q: Float[Tensor, "b h n d"]
    k: Float[Tensor, "b h m d"]
    v: Float[Tensor, "b h m e"]
    out: Float[Tensor, "b h n e"]  # before the last projection
    scope: Scope
    windows: Windows | None = None  # the batch is windows of images

    def bias(self) -> Float[Tensor, "#b #h n m"] | None:
        """What the position adds to the logits."""
        position = self.scope.position
        return position.bias(self.q, self.k, self.scope) if position is not None and position.biases else None


class InputsRecorder:
    """Keeps what goes into some attention layers and comes out of them, one entry a layer, in the order they ran; graphs too."""

    def __init__(self, layers: Mapping[str, MultiHeadAttention], numbers: Iterable[int]) -> None:
        """`layers` are all that the model has; those of the `numbers` are kept."""
        named = list(layers.items())
        self._asked = {id(named[number][1]): (named[number][0], number) for number in numbers}
        self.ran: list[LayerInputs] = []

    def keep(
        self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope, windows: Windows | None = None
    ) -> None:
        if id(layer) in self._asked:
            assert isinstance(layer, MultiHeadAttention)
            name, number = self._asked[id(layer)]
            self.ran.append(
                LayerInputs(name=name, number=number, layer=layer, q=q, k=k, v=v, out=out, scope=scope, windows=windows)
            )


def layer_inputs(model: nn.Module, images: Float[Tensor, "b ch y x"], layer: int) -> LayerInputs:
    """Of the attention layer number `layer` (negative: from the end), in evaluation mode and without gradients."""
    found = attention_layers(model)
    recorder = InputsRecorder(found, choose([layer], len(found), "layer", "the model"))
    with evaluating(model), torch.no_grad(), recording(recorder):
        model(at_model(model, images))
    return recorder.ran[-1]
