"""Seeing inside a model."""

from vitrail.explain.record import Seen, record

__all__ = ["Seen", "record"]
