"""What each word of a sentence attends to, and the alignment of a translation with its source."""

from vitrail.tasks.text_explain import UNIT, explain, find_samples

__all__ = ["UNIT", "explain", "find_samples"]
