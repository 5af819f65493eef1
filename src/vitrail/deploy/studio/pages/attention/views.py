"""Views of a look that ask the model once more: maps, colors, the logit lens, the six steps, what a patch becomes.

c cells, gh gw grid, y x pixels
"""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.deploy.studio.pages.attention.passes import Look, choose_heads, choose_layer, find_query
from vitrail.deploy.studio.pixels import prepare_pixels
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.explain.cells import spatial
from vitrail.explain.colors import token_colors
from vitrail.explain.lens import logit_lens
from vitrail.explain.methods import METHODS, default_method, explain_map
from vitrail.explain.positions import Similarity
from vitrail.explain.steps import six_steps
from vitrail.models.classifier import Classifier
from vitrail.models.gsa import GroupTransformer
from vitrail.models.protocols import HasIntermediates
from vitrail.models.swin import Swin
from vitrail.models.vit import VisionTransformer
from vitrail.tokens import Grid, Tokens

MOST_NUMBERS = 64  # of a token's vector: a page shows no more


def show_map(model: Classifier, look: Look, *, method: str, target: int | None) -> dict[str, Any]:
    """The share of each cell in why the image is `target`, by default the likeliest class; sums to 1."""
    known = [name for name, found in METHODS.items() if not found.hidden]
    if method not in ("auto", *known):
        raise StudioError(f'"{method[:20]}" is no method: choose from {", ".join(known)}.')
    classes = len(look.probabilities)
    if target is not None and not 0 <= target < classes:
        raise StudioError(f"{target} is no class: choose 0 to {classes - 1}.")
    name = default_method(model) if method == "auto" else method
    chosen = None if target is None else torch.tensor([target])
    shares = fit_grid(explain_map(model, images_of(model, look), name, chosen), look.grid)
    return {"cells": shares.flatten(), "words": METHODS[name].words, "method": name}


def fit_grid(shares: Float[Tensor, "1 y x"], grid: tuple[int, int]) -> Float[Tensor, "gh gw"]:
    """Shares on the page's grid: those of a convolutional net's own attention may be finer."""
    if tuple(shares.shape[1:]) == grid:
        return shares[0]
    found = F.interpolate(shares[:, None], size=grid, mode="area")[0, 0]
    return found / found.sum().clamp(min=torch.finfo(found.dtype).tiny)


def show_colors(model: Classifier, look: Look, *, layer: int) -> dict[str, Any]:
    """The first three principal components of the tokens behind a layer, as colors from 0 to 255."""
    with torch.inference_mode():
        colors = token_colors(tokens_behind(model, images_of(model, look), layer))[0]  # gh gw 3
    if tuple(colors.shape[:2]) != look.grid:
        raise StudioError(f"The tokens behind layer {layer} stand on another grid than the page shows.")
    return {"colors": (255 * colors).round().long().flatten(0, 1)}


def tokens_behind(model: Classifier, images: Tensor, layer: int) -> Tokens:
    if isinstance(model, HasIntermediates):
        return model.forward_intermediates(images, [layer])[0]
    if layer != -1:
        raise StudioError("Of this model only the tokens behind the last layer can be seen.")
    return model.forward_features(images)


def show_lens(model: Classifier, look: Look, *, labels: tuple[str, ...]) -> dict[str, Any]:
    """What the head would say after each layer, of the whole image and, at its most likely, of each patch."""
    lens = logit_lens(model, images_of(model, look))
    best = lens.patches[:, 0].flatten(1, 2).max(-1)  # layers+1 c
    return {
        "labels": labels,
        "whole": lens.whole[:, 0],
        "patches_top": best.indices,
        "patches_p": best.values,
        "words": lens.words,
    }


def show_steps(model: Classifier, look: Look, *, layer: int, head: int, query: str) -> dict[str, Any]:
    """The six steps of self-attention for one query, with the numbers of this look."""
    choose_heads(choose_layer(look, layer), str(head))
    token = find_query(look, query)
    if token is None:
        raise StudioError('The six steps are those of one query: choose a cell or "class".')
    cell = None if token < look.prefix else divmod(token - look.prefix, look.grid[1])
    steps = six_steps(model, images_of(model, look), layer=layer, head=head, query=cell)
    check_grid(look, steps.places.grid)
    return {
        "asker": steps.asker,
        "names": steps.names,
        "query": steps.query,
        "keys": steps.keys,
        "scores": steps.scores,
        "scaled": [None if math.isinf(value) else value for value in steps.scaled.tolist()],  # may not be looked at
        "weights": steps.weights,
        "values": steps.values,
        "output": steps.output,
        "scale": steps.scale,
        "words": steps.words,
    }


def show_token(model: Classifier, look: Look, *, query: str) -> dict[str, Any]:
    """What a patch becomes: its embedding, and what the position adds to it where it adds anything."""
    token = find_query(look, query)
    if token is None:
        raise StudioError('A token is a cell or "class".')
    if not isinstance(model, VisionTransformer | Swin | GroupTransformer):
        raise StudioError("This model has no tokens: it is a convolutional net.")
    with torch.inference_mode():
        tokenizer: nn.Module = model.tokenizer
        plain = tokenizer(images_of(model, look))
        placed = plain
        if isinstance(model, VisionTransformer):
            plain = plain if model.prefix is None else model.prefix(plain)
            placed = model.position.embed(plain)
        check_grid(look, plain.grid)
        embedding, position = plain.x[0, token], placed.x[0, token] - plain.x[0, token]
    adds = bool((placed.x != plain.x).any())
    return {
        "embedding": embedding[:MOST_NUMBERS],
        "position": position[:MOST_NUMBERS] if adds else None,
        "width": len(embedding),
    }


def check_grid(look: Look, grid: Grid) -> None:
    """Whether a cell of the page is a token; of a group network the page shows the grid behind its last pooling."""
    if spatial(grid) != look.grid:
        raise StudioError("The tokens of this model stand on another grid than the page shows.")


def show_similarity(found: Similarity | str, cell: int) -> dict[str, Any]:
    """How alike the place of one cell is to that of every cell."""
    if isinstance(found, str):
        raise StudioError(found, 404)
    rows, columns = found.maps.shape[:2]
    if not 0 <= cell < rows * columns:
        raise StudioError(f"{cell} is no cell: choose 0 to {rows * columns - 1}.")
    return {
        "cells": found.maps[cell // columns, cell % columns].flatten(),
        "words": found.words,
        "kind": found.kind,
        "limit": found.limit,
    }


def images_of(model: Classifier, look: Look) -> Float[Tensor, "1 ch y x"]:
    return prepare_pixels(np.ascontiguousarray(look.seen), model.preprocessing)
