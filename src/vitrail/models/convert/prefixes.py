"""What stands around a model's weights in a file: names before theirs, and weights of other things beside them.

A training's checkpoint may have a student and a teacher, and a head that no one needs later; a captioner has its encoder under a name.
Nothing of it is dropped in silence: `inner` says what was left.
"""

from collections.abc import Mapping

from torch import Tensor

from vitrail.errors import VitrailError

MARKS = ("patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight")  # every model that is read here has one
BETTER = ("teacher", "ema")  # of two models in one file, the one that is an average over the other's steps
NAMES = (
    "vit",
    "deit",
    "beit",
    "dinov2",
    "dinov2_with_registers",
    "swin",
    "swinv2",
)  # transformers', beside which their heads stand


def inner(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], str, list[str]]:
    """The weights of the model that is in a file, without what stands before their names; that; and lines about what was left out."""
    starts = sorted({name.removesuffix(mark) for name in tensors for mark in MARKS if name.endswith(mark)}, key=len)
    if not starts:
        return dict(tensors), "", []
    if len(starts) > 1:
        better = [start for start in starts if any(word in start for word in BETTER)]
        if len(better) != 1:
            raise VitrailError(
                f"there are {len(starts)} models in this file, under {', '.join(map(repr, starts))}: give one of them alone"
            )
        starts = better
    start = starts[0]
    words = start.split(".")
    if start + MARKS[1] in tensors and len(words) > 1 and words[-2] in NAMES:
        start = "".join(f"{word}." for word in words[:-2])
    found = {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
    return found, start, left_out({name: tensor for name, tensor in tensors.items() if not name.startswith(start)})


def left_out(others: Mapping[str, Tensor]) -> list[str]:
    """The line about weights that are not the model's."""
    if not others:
        return []
    groups = dict.fromkeys(".".join(name.split(".")[:2]) for name in others)
    named = ", ".join(list(groups)[:4]) + (", ..." if len(groups) > 4 else "")
    return [f"left out, as the model has no place for them, {len(others)} weights: {named}"]
