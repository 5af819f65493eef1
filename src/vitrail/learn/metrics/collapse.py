"""Whether a network that learns without labels still tells images apart, in numbers and in words.

n images, d width, k prototypes
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

# Below these all images look alike to the network (docs/tasks/dino.md has what healthy runs and forced collapses have).
LEAST_SPREAD, LEAST_INFORMATION = 0.1, 0.05


def feature_spread(features: Float[Tensor, "n d"]) -> float:
    """sqrt(d) times the deviation of the features' coordinates over images, each feature brought to length 1: near 1 where they point
    everywhere, 0 where all point one way  [Chen and He 2021, SimSiam, section 4.1]."""
    if len(features) < 2:
        return 0.0
    return F.normalize(features.double(), dim=1).std(0).mean().item() * math.sqrt(features.shape[1])


def output_entropies(mean: Float[Tensor, "k"], single: float) -> dict[str, float]:
    """Of what a teacher says of images, in shares of log k: `entropy` of its mean output, `single_entropy`, the mean of those of single
    outputs, and `information`, their difference: how much an output tells which image it is of.

    One prototype for all images: both are low. All prototypes alike for every image: both are high. Either way there is no
    information, which is what collapse is  [Caron+ 2021, section 5.3 and figure 7].
    """
    whole = math.log(len(mean))
    entropy = max(0.0, -torch.special.xlogy(mean.double(), mean.double()).sum().item() / whole)
    return {"entropy": entropy, "single_entropy": single / whole, "information": entropy - single / whole}


def tell_collapse(metrics: Mapping[str, float]) -> str | None:
    """What is wrong, with its numbers and what may help; None where nothing is."""
    if not all(math.isfinite(metrics[name]) for name in ("spread", *(["information"] if "information" in metrics else []))):
        return "collapsed: features are not finite; try a lower --lr"
    if metrics.get("information", 1.0) < LEAST_INFORMATION:
        entropy, single = metrics["entropy"], metrics["single_entropy"]
        if single > 0.5:
            how = f"each is spread evenly over the prototypes (entropy {100 * single:.1f} % of the most)"
            what = "try a lower --teacher-temperature, or a lower --lr"
        else:
            how = f"a few prototypes have all images (entropy of the mean output {100 * entropy:.1f} % of the most)"
            what = "try a higher --teacher-temperature, a higher --momentum, or a larger --batch-size"
        return f"collapsed: all images give nearly the same output; {how}; {what}"
    if metrics["spread"] < LEAST_SPREAD:
        return (
            f"collapsed: the features of all images point nearly the same way (spread {metrics['spread']:.3f}, of about 1); "
            "try a lower --lr, a higher --momentum, or a larger --batch-size"
        )
    return None


def tell_health(metrics: Mapping[str, float]) -> str:
    """The state of things in a line, whichever it is."""
    if (wrong := tell_collapse(metrics)) is not None:
        return wrong
    parts = [f"features are spread ({metrics['spread']:.2f}, 0 were a collapse)"]
    if "information" in metrics:
        parts.append(
            f"single outputs are decided (entropy {100 * metrics['single_entropy']:.0f} %) and all prototypes are used "
            f"(entropy of the mean output {100 * metrics['entropy']:.0f} %)"
            if metrics["entropy"] > 0.5
            else f"outputs differ, but few prototypes are used (entropy of the mean output {100 * metrics['entropy']:.0f} %)"
        )
    return f"healthy: {'; '.join(parts)}"
