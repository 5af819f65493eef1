"""An order of an epoch in which every class comes equally often.

n pictures, k classes
"""

import numpy as np
from jaxtyping import Bool, Int


def balanced_order(
    labels: Int[np.ndarray, "n"] | Bool[np.ndarray, "n k"], generator: np.random.Generator
) -> Int[np.ndarray, "n"]:
    """As many pictures as there are, the classes equally often (to within one), in random order.

    Within a class the pictures come in shuffled rounds: none twice before all once. Of pictures with several labels each round
    takes those that have the class in turn; one without labels counts as a class of its own.
    """
    groups = members_of(labels)
    count = len(labels)
    share, more = divmod(count, len(groups))
    lucky = set(generator.permutation(len(groups))[:more].tolist())  # who gets one more, where it does not divide
    drawn = [_rounds(members, share + (number in lucky), generator) for number, members in enumerate(groups)]
    return generator.permutation(np.concatenate(drawn))


def members_of(labels: np.ndarray) -> list[np.ndarray]:
    """The pictures of each class that has any."""
    if labels.ndim == 1:
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    else:
        groups = [np.flatnonzero(column) for column in labels.T] + [np.flatnonzero(~labels.any(axis=1))]
    return [members for members in groups if len(members)]


def _rounds(members: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    rounds = [generator.permutation(members) for _ in range(-(-count // len(members)))]
    return np.concatenate([members[:0], *rounds])[:count]
