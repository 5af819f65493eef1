"""A kernel that passes something from layer to layer: each layer adds its logits to those of the layer below."""

from vitrail.nn.attention.kernel import EVERYTHING, Kernel
from vitrail.nn.attention.part import WHOLE
from vitrail.nn.attention.softmax import all_biases
from vitrail.nn.functional.attention import attend, attention_weights


class CarriedKernel(Kernel):
    """softmax(s_l + bias) v with s_l = q k^T / sqrt(d) + strength s_{l-1}  [He+ 2021, RealFormer, eq. 3]."""

    name = "carried"
    supports = EVERYTHING - {"read"} | {"carry"}

    def __init__(self, layer, *, strength: float = 1.0):
        super().__init__()
        self.layer, self.strength = layer, strength

    def below(self, scope):
        found = None if scope.carry is None else scope.carry.below(self.layer)
        return None if found is None else self.strength * found

    def biases(self, q, k, scope):
        parts = [part for part in (all_biases(q, k, scope), self.below(scope)) if part is not None]
        return sum(parts) if parts else None

    def forward(self, q, k, v, scope):
        logits, below, bias = q @ k.mT * q.shape[-1] ** -0.5, self.below(scope), self.biases(q, k, scope)
        if scope.carry is not None:
            scope.carry.leave(self.layer, logits if below is None else logits + below)
        return attend(q, k, v, bias=bias, mask=scope.mask, causal=scope.causal)

    def weights(self, q, k, scope, part=WHOLE):
        found = attention_weights(q, k, bias=self.biases(q, k, scope), mask=scope.mask, causal=scope.causal)
        return part.of(found)
