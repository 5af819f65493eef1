"""Equivariant imaging: to invert measurements, learned from measurements alone.

b batch, h w image, m whatever a measurement has
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor


def equivariant_imaging(
    y: Complex[Tensor, "b *m"],
    *,
    reconstruct: Callable[[Tensor], Tensor],
    measure: Callable[[Tensor], Tensor],
    transform: Callable[[Tensor], Tensor],
    alpha: float = 1.0,
) -> Float[Tensor, "b"]:
    """||A f(y) - y||^2 + alpha ||T f(y) - f(A T f(y))||^2 of each image, for its pixels' number  [Chen+ 2021, eq. 8].

    f is `reconstruct`, A `measure`, T `transform`: something that turns one plausible image into another. The first term says
    nothing of what A does not see, the null space: its gradient is A^H of something. The second asks that f also recovers T x from
    A T x, and A T is an operator with another null space: so what f puts where A sees nothing is judged.
    """
    image = reconstruct(y)
    pixels = image.shape[-2] * image.shape[-1]
    loss = squared(measure(image) - y) / pixels
    if alpha == 0:
        return loss
    turned = transform(image)
    return loss + alpha * squared(turned - reconstruct(measure(turned))) / pixels


def squared(x: Complex[Tensor, "b *m"]) -> Float[Tensor, "b"]:
    """||x||^2 of each of the batch. Not abs(x)^2: the gradient of abs is not there at 0."""
    return torch.view_as_real(x).square().flatten(1).sum(1)


def draw_rotation(image: Complex[Tensor, "b h w"]) -> Complex[Tensor, "b h w"]:
    """The batch turned: square images by one, two or three right angles, which loses nothing; others by any angle."""
    if image.shape[-2] == image.shape[-1]:
        return torch.rot90(image, int(torch.randint(1, 4, ())), dims=(-2, -1))
    return rotate(image, 360.0 * float(torch.rand(())))


def rotate(image: Complex[Tensor, "b h w"], degrees: float) -> Complex[Tensor, "b h w"]:
    """Turned counterclockwise about the middle, bilinear; what comes in from outside is 0, and corners may go."""
    height, width = image.shape[-2:]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # Output to input, in coordinates from -1 to 1 along each side: pixels are square, the sides need not be as long.
    matrix = image.real.new_tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]])
    parts = torch.view_as_real(image).movedim(-1, 1)  # b 2 h w
    grid = F.affine_grid(matrix.expand(len(image), 2, 3), list(parts.shape), align_corners=False)
    turned = F.grid_sample(parts, grid, align_corners=False)
    return torch.view_as_complex(turned.movedim(1, -1).contiguous())
