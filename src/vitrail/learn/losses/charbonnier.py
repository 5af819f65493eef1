"""Distance between images that outliers do not rule."""

from jaxtyping import Float
from torch import Tensor

EPS = 1e-3


def charbonnier(restored: Float[Tensor, "*any"], truth: Float[Tensor, "*any"], *, eps: float = EPS) -> Float[Tensor, ""]:
    """mean sqrt((x - y)^2 + eps^2)  [Charbonnier+ 1994]: |x - y| that is smooth at 0, as SwinIR has it  [Liang+ 2021, eq. 8]."""
    return ((restored - truth).square() + eps**2).sqrt().mean()
