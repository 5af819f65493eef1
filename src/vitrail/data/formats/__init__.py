"""Readers of dataset formats; `opening.open_format` tells which one lies at a path."""
