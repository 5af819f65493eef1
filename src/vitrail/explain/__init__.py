"""Seeing inside a model."""

from vitrail.explain.gradients import input_gradient
from vitrail.explain.look import Look, look
from vitrail.explain.maps import attention_map, pooling_map, reading_map, received_map, reduce_heads, to_cells
from vitrail.explain.methods import DEFAULT, METHODS, Method, explain_map, methods_for
from vitrail.explain.occlusion import occlusion
from vitrail.explain.record import Seen, record
from vitrail.explain.relevance import relevance
from vitrail.explain.rollout import rollout, rollout_matrix

__all__ = [
    "DEFAULT",
    "METHODS",
    "Look",
    "Method",
    "Seen",
    "attention_map",
    "explain_map",
    "input_gradient",
    "look",
    "methods_for",
    "occlusion",
    "pooling_map",
    "reading_map",
    "received_map",
    "record",
    "reduce_heads",
    "relevance",
    "rollout",
    "rollout_matrix",
    "to_cells",
]
