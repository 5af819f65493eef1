"""`vitrail cascade`: models in a row, the cheapest first. What it does is the default task's."""

from collections.abc import Sequence
from typing import Any

from vitrail.tasks import registry


def run_cascade(models: Sequence[str], options: Any, *, quiet: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The results for machines, and in lines for people."""
    part = registry.need_part(registry.DEFAULT, "cascade")
    result = part.run_cascade(models, options, quiet=quiet)
    return result.to_json(), part.describe_result(result)
