"""Readers of data-set formats; `opening.open_format` tells which one lies at a path."""
