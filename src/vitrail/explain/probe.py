"""The linear probe: how well a linear classifier reads the labels from each layer's tokens.

l layers, p images, d width, k classes
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.protocols import HasIntermediates

PENALTIES = tuple(10.0**power for power in range(0, -6, -1))  # from the strongest on
MOST_STEPS = 100


class Labelled(NamedTuple):
    """Features of images behind every layer, and their labels."""

    features: Float[Tensor, "l p d"]
    labels: Int[Tensor, "p"]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """By layer: the share of images whose label is read right, and the penalty that validation chose."""

    test: tuple[float, ...]
    validation: tuple[float, ...]
    penalties: tuple[float, ...]
    chance: float  # the share of the largest class: what one gets without looking
    answers: tuple[tuple[int, ...], ...]  # the label that is read of each test image

    @property
    def best(self) -> int:
        """The layer that validation would choose; the first of equals."""
        return max(range(len(self.validation)), key=lambda layer: (self.validation[layer], -layer))


@torch.no_grad()
def layer_features(model: HasIntermediates, inputs: Iterable[Tensor]) -> Float[Tensor, "l p d"]:
    """The mean over positions of the tokens behind each block  [Chen+ 2020, section 2.3], for any model that has
    `depth` and `forward_intermediates`.

    The paper takes them behind the next block's norm, we behind the last one: a scale for each feature, which standardizing removes.
    """
    parts = []
    for batch in inputs:
        kept = model.forward_intermediates(batch, range(model.depth))
        parts.append(torch.stack([tokens.cells.mean(1) for tokens in kept]).double().cpu())
    return torch.cat(parts, dim=1)


def probe_layers(splits: Mapping[Literal["train", "val", "test"], Labelled], classes: int) -> Probe:
    """Logistic regression on the standardized features of each layer by itself. Training fits, validation chooses the L2 penalty,
    the strongest of equals; test is only read."""
    train, validation, test = (splits[name] for name in ("train", "val", "test"))
    if not len(train.labels):
        raise VitrailError("a probe learns from training images, and there is none")
    chosen = []
    for layer in range(len(train.features)):
        mean, std = train.features[layer].mean(0), train.features[layer].std(0, correction=0)
        scale = torch.where(std > 1e-12, 1 / std.clamp(min=1e-12), 0.0)  # a feature that never changes tells nothing
        x, x_validation, x_test = ((part.features[layer] - mean) * scale for part in (train, validation, test))
        weights = x.new_zeros(classes, x.shape[1] + 1)
        best: tuple[float, float, Tensor] | None = None
        for penalty in PENALTIES:
            weights = fit_logistic(x, train.labels, penalty=penalty, start=weights)
            right = (scores(weights, x_validation).argmax(1) == validation.labels).double().mean().item()
            if best is None or right > best[0]:
                best = (right, penalty, scores(weights, x_test).argmax(1))
        assert best is not None
        chosen.append(best)
    on_validation, penalties, answers = zip(*chosen, strict=True)
    return Probe(
        test=tuple((answer == test.labels).double().mean().item() for answer in answers),
        validation=on_validation,
        penalties=penalties,
        chance=torch.bincount(test.labels, minlength=classes).max().item() / max(1, len(test.labels)),
        answers=tuple(tuple(answer.tolist()) for answer in answers),
    )


def fit_logistic(
    x: Float[Tensor, "p d"], labels: Int[Tensor, "p"], *, penalty: float, start: Float[Tensor, "k e"]
) -> Float[Tensor, "k e"]:
    """arg min_W  mean_p -log softmax(W [x_p; 1])_label  +  penalty/2 |W without its last column|²: convex, found by L-BFGS."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=MOST_STEPS,
        tolerance_grad=1e-6,
        tolerance_change=1e-9,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(scores(weights, x), labels) + 0.5 * penalty * weights[:, :-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weights.detach()


def scores(weights: Float[Tensor, "k e"], x: Float[Tensor, "p d"]) -> Float[Tensor, "p k"]:
    return x @ weights[:, :-1].T + weights[:, -1]
