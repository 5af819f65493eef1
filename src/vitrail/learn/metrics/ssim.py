"""How alike two images look: structural similarity.

h w image, k window
"""

import numpy as np
from jaxtyping import Float, Real

from vitrail.learn.metrics.psnr import crop_border

WINDOW, SIGMA = 11, 1.5
K1, K2 = 0.01, 0.03


def ssim(a: Real[np.ndarray, "h w *ch"], b: Real[np.ndarray, "h w *ch"], *, border: int = 0, peak: float = 255.0) -> float:
    """Mean over all places where the window fits, and over channels, of

    (2 m_a m_b + C1) (2 s_ab + C2) / ((m_a^2 + m_b^2 + C1) (s_a^2 + s_b^2 + C2)),

    means m and (co)variances s under an 11x11 Gaussian window, C1 = (0.01 peak)^2, C2 = (0.03 peak)^2  [Wang+ 2004, eq. 13].
    An image smaller than the window gets a smaller one.
    """
    x, y = (np.atleast_3d(crop_border(image, border)).astype(np.float64) for image in (a, b))
    c1, c2 = (K1 * peak) ** 2, (K2 * peak) ** 2
    mean_x, mean_y = average(x), average(y)
    variance_x, variance_y = average(x * x) - mean_x**2, average(y * y) - mean_y**2
    covariance = average(x * y) - mean_x * mean_y
    alike = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    return float(np.mean(alike / ((mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2))))


def average(x: Float[np.ndarray, "h w ch"]) -> Float[np.ndarray, "h2 w2 ch"]:
    """Under the window at every place where all of it lies in the image; one side after the other."""
    for axis in (0, 1):
        weights = gaussian(min(WINDOW, x.shape[axis]))
        places = x.shape[axis] - len(weights) + 1
        x = sum(weight * x.take(range(i, i + places), axis=axis) for i, weight in enumerate(weights))
    return x


def gaussian(size: int) -> Float[np.ndarray, "k"]:
    weights = np.exp(-((np.arange(size) - (size - 1) / 2) ** 2) / (2 * SIGMA**2))
    return weights / weights.sum()
