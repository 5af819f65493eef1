"""`vitrail cascade` and `vt.cascade`: models in a row, the cheapest first. What they do is the default task's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from vitrail.tasks import registry


def cascade(
    models: Any,
    *,
    sizes: Sequence[int | tuple[int, int]] | None = None,
    agreement: float = 0.99,
    sure: float | None = None,
    data: str | Path | Any = None,
    seed: int | None = None,
    cost: Literal["seconds", "multiply_adds"] = "seconds",
    batch: int = 32,
    engine: str = "torch",
) -> Any:
    """Models from cheap to expensive, or one at growing `sizes`, of which the first that is confident predicts; or a saved cascade's folder.

    Thresholds are the cheapest with which, on the validation images of `data` (by default what the last model's run was trained on), the
    share of images with the last model's prediction is at least `agreement`; with `sure` (0.95, say), the lower bound of that
    share at this confidence. Labels are not needed. `cost`: seconds measured here, or multiply-adds. `seed` splits data without a
    validation split, by default as the runs split it. `engine` computes every stage, as in `vt.pipeline`.
    """
    make = registry.need_part(registry.DEFAULT, "cascade_making").make_cascade
    how: dict[str, Any] = {"sizes": sizes, "agreement": agreement, "sure": sure, "data": data, "seed": seed}
    return make(models, **how, cost=cost, batch=batch, engine=engine)


def run_cascade(models: Sequence[str], options: Any, *, quiet: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The results for machines, and in lines for people."""
    part = registry.need_part(registry.DEFAULT, "cascade")
    result = part.run_cascade(models, options, quiet=quiet)
    return result.to_json(), part.describe_result(result)
