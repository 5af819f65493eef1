"""What an image is, recognized by the labels of those whose features are nearest: nothing is learned, so it measures the features alone.

n known images, m asked ones, d width, k neighbors
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError

CHUNK = 2048  # asked images at a time: so many rows of similarities are in memory


def nearest_neighbors(
    train_features: Float[Tensor, "n d"], test_features: Float[Tensor, "m d"], *, k: int
) -> tuple[Float[Tensor, "m k"], Int[Tensor, "m k"]]:
    """The cosine of each asked image with its k nearest known ones (all of them where there are fewer), nearest first, and their
    numbers."""
    if k < 1:
        raise VitrailError(f"k neighbors: k must be at least 1, got {k}")
    if not len(train_features):
        raise VitrailError("neighbors are sought among at least one image, got none")
    known, k = F.normalize(train_features.float(), dim=1), min(k, len(train_features))
    asked = F.normalize(test_features.float(), dim=1)
    with torch.autocast(asked.device.type, enabled=False):  # three digits would not tell neighbors apart
        found = [torch.topk(part @ known.T, k, dim=1) for part in torch.split(asked, CHUNK)] if len(asked) else []
    if not found:
        return asked.new_empty(0, k), torch.empty(0, k, dtype=torch.long, device=asked.device)
    return torch.cat([values for values, _ in found]), torch.cat([numbers for _, numbers in found])


def knn_votes(
    train_features: Float[Tensor, "n d"],
    train_labels: Int[Tensor, "n"],
    test_features: Float[Tensor, "m d"],
    *,
    classes: int,
    k: int = 20,
    temperature: float = 0.07,
) -> Int[Tensor, "m"]:
    """The class with most votes, where each of the k nearest votes with weight exp(cosine / temperature)  [Wu+ 2018, section 3.4]."""
    if temperature <= 0:
        raise VitrailError(f"the temperature of the votes must be above 0, got {temperature}")
    nearness, numbers = nearest_neighbors(train_features, test_features, k=k)
    weights = ((nearness - 1) / temperature).exp()  # all by the same factor: no weight overflows
    votes = torch.zeros(len(numbers), classes, device=weights.device)
    return votes.scatter_add_(1, train_labels.to(numbers.device).long()[numbers], weights).argmax(1)


def knn_accuracy(
    train_features: Float[Tensor, "n d"],
    train_labels: Int[Tensor, "n"],
    test_features: Float[Tensor, "m d"],
    test_labels: Int[Tensor, "m"],
    *,
    classes: int,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """The share of the asked images whose class `knn_votes` tells right."""
    votes = knn_votes(train_features, train_labels, test_features, classes=classes, k=k, temperature=temperature)
    return (votes == test_labels.to(votes.device)).float().mean().item()
