"""What each word of a text attends to in a language model."""

from vitrail.tasks.text_explain import UNIT, explain, find_samples

__all__ = ["UNIT", "explain", "find_samples"]
