"""A kernel that passes something from layer to layer: each layer adds its logits to those of the layer below."""

from vitrail.nn.attention.kernel import EVERYTHING, WHOLE, Kernel
from vitrail.nn.attention.softmax import bias_and_mask
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

    def added(self, q, k, scope):
        """What is added to the logits, and the mask."""
        bias, mask = bias_and_mask(q, k, scope)
        parts = [part for part in (bias, self.below(scope)) if part is not None]
        return {"bias": sum(parts) if parts else None, "mask": mask, "causal": scope.causal}

    def forward(self, q, k, v, scope):
        logits, below, added = q @ k.mT * q.shape[-1] ** -0.5, self.below(scope), self.added(q, k, scope)
        if scope.carry is not None:
            scope.carry.leave(self.layer, logits if below is None else logits + below)
        return attend(q, k, v, **added)

    def weights(self, q, k, scope, part=WHOLE):
        return part.of(attention_weights(q, k, **self.added(q, k, scope)))
