"""Seeing inside a model. `vitrail.explain.figures` draws what these functions return."""

import warnings

from vitrail.explain.alignment import aligning_layer, alignment
from vitrail.explain.colors import token_colors
from vitrail.explain.distances import attention_distance, distances, even_distance
from vitrail.explain.faithfulness import Curve, deletion_curve, insertion_curve
from vitrail.explain.filters import Filters, principal_filters
from vitrail.explain.gradients import input_gradient
from vitrail.explain.heads import head_divergence, head_entropy
from vitrail.explain.inside import Inside, share_inside
from vitrail.explain.lens import Lens, logit_lens
from vitrail.explain.look import Look, look
from vitrail.explain.maps import attention_map, pooling_map, received_map, reduce_heads, to_cells
from vitrail.explain.methods import DEFAULT, METHODS, Method, explain_map, methods_for
from vitrail.explain.occlusion import occlusion
from vitrail.explain.positions import Similarity, position_similarity
from vitrail.explain.probe import Labelled, Probe, layer_features, probe_layers
from vitrail.explain.record import Seen, record
from vitrail.explain.reference_points import References, reference_points, spread_points
from vitrail.explain.relevance import relevance
from vitrail.explain.rollout import rollout, rollout_matrix
from vitrail.explain.steps import Steps, six_steps, steps_table
from vitrail.explain.windows import image_weights, window_read, window_received
from vitrail.explain.words import WordLook, to_words, word_look

__all__ = [
    "DEFAULT",
    "METHODS",
    "Curve",
    "Filters",
    "Inside",
    "Labelled",
    "Lens",
    "Look",
    "Method",
    "Probe",
    "References",
    "Seen",
    "Similarity",
    "Steps",
    "WordLook",
    "aligning_layer",
    "alignment",
    "attention_distance",
    "attention_map",
    "deletion_curve",
    "distances",
    "even_distance",
    "explain_map",
    "head_divergence",
    "head_entropy",
    "image_weights",
    "input_gradient",
    "insertion_curve",
    "layer_features",
    "logit_lens",
    "look",
    "methods_for",
    "occlusion",
    "pooling_map",
    "position_similarity",
    "principal_filters",
    "probe_layers",
    "received_map",
    "record",
    "reduce_heads",
    "reference_points",
    "relevance",
    "rollout",
    "rollout_matrix",
    "share_inside",
    "six_steps",
    "spread_points",
    "steps_table",
    "to_cells",
    "to_words",
    "token_colors",
    "window_read",
    "window_received",
    "word_look",
]


_EARLIER = {"picture_weights": "image_weights"}  # earlier name: present name, for one release


def __getattr__(name: str) -> object:
    if name in _EARLIER:
        warnings.warn(f"vitrail.explain.{name} is now {_EARLIER[name]}", DeprecationWarning, stacklevel=2)
        return globals()[_EARLIER[name]]
    raise AttributeError(f"module 'vitrail.explain' has no attribute {name!r}")
