"""How near a restored image is to the true one, as the literature measures it.

h w image, ch channels
"""

import numpy as np
from jaxtyping import UInt8

from vitrail.data.degradation import Degradation
from vitrail.learn.metrics.psnr import psnr, to_luma
from vitrail.learn.metrics.ssim import ssim

CEILING = 100.0  # dB: an image without an error; a mean cannot hold infinity


def measure(restored: UInt8[np.ndarray, "h w ch"], truth: UInt8[np.ndarray, "h w ch"], how: Degradation) -> tuple[float, float]:
    """PSNR and SSIM as papers have them: of enlarged images and of JPEG on Y, without a border as wide as the scale where there is
    one; of noise on all channels; of gray on gray."""
    border = how.scale if how.scale > 1 else 0
    if truth.shape[2] == 3 and how.kind != "noise":
        found, wanted = to_luma(restored), to_luma(truth)
    else:
        found, wanted = restored, truth
    return min(CEILING, psnr(found, wanted, border=border)), ssim(found, wanted, border=border)
