"""Another head in another contrast: what simulated slices are turned into, anew each time they are learned from.

h rows, w columns, k knots
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32

KNOTS = 5  # of the curve from a template's gray to another contrast's
SHARE = 0.7  # of the slices get another contrast; the others keep theirs
TURN, SMALLEST, LARGEST = 15.0, 0.8, 1.15  # degrees; sizes in the field of view


def vary_contrast(plane: Float32[np.ndarray, "h w"], generator: np.random.Generator) -> Float32[np.ndarray, "h w"]:
    """Gray values through a random curve, piecewise linear, from 0 to 0: any tissue may be brighter than any other.

    Scanners weigh tissues in many ways, and one volume shows a single one of them; as in [Billot+ 2023] contrasts are drawn. Some slices
    (`SHARE`) only.
    """
    top = float(plane.max())
    if top <= 0 or generator.uniform() > SHARE:
        return plane
    curve = np.concatenate([[0.0], generator.uniform(0.1, 1.0, KNOTS - 1)])
    return np.interp(plane, np.linspace(0, top, KNOTS), curve).astype(np.float32)


def vary_pose(plane: Float32[np.ndarray, "h w"], generator: np.random.Generator) -> Float32[np.ndarray, "h w"]:
    """Mirrored or not, turned by a few degrees, smaller or larger; what comes in from outside is 0."""
    angle = math.radians(generator.uniform(-TURN, TURN))
    scale = math.exp(generator.uniform(math.log(SMALLEST), math.log(LARGEST)))
    mirror = float(generator.choice([-1.0, 1.0]))
    height, width = plane.shape
    cos, sin = math.cos(angle) / scale, math.sin(angle) / scale
    # Output to input, in coordinates from -1 to 1 along each side: pixels are square, the sides need not be as long.
    matrix = torch.tensor([[[mirror * cos, -mirror * sin * height / width, 0.0], [sin * width / height, cos, 0.0]]])
    grid = F.affine_grid(matrix, [1, 1, height, width], align_corners=False)
    image = torch.from_numpy(np.ascontiguousarray(plane))[None, None]
    return F.grid_sample(image, grid, mode="bicubic", align_corners=False).clamp(min=0)[0, 0].numpy()
