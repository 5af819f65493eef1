"""Where a captioner looks, word by word.

b batch, ch channels, h w image, n tokens, t words, gh gw grid
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.models.captioner import CaptionModel
from vitrail.special_tokens import BEGIN, END, PAD

SPACE = "▁"  # what a piece begins with that begins a word


@dataclass(frozen=True, kw_only=True)
class ExplainedCaption:
    """What was said of an image, and where the model looked for each word."""

    caption: str
    words: tuple[str, ...]
    maps: Float[Tensor, "t gh gw"]


@torch.no_grad()
def look_at_words(model: CaptionModel, images: Float[Tensor, "b ch h w"], ids: Int[Tensor, "b n"]) -> list[ExplainedCaption]:
    """`ids` are what the model says of each image, without BEGIN. The map of a word is the mean of its pieces' maps."""
    before = torch.cat([torch.full_like(ids[:, :1], BEGIN), ids[:, :-1]], dim=1)  # map t is of the word behind word t
    maps = model.attention_maps(images, before).cpu()
    return [explain_caption(model.tokenizer, row, maps[number]) for number, row in enumerate(ids.tolist())]


def explain_caption(tokenizer: Any, ids: Sequence[int], maps: Float[Tensor, "n gh gw"]) -> ExplainedCaption:
    """The pieces of one caption put together to words, each with the mean of their maps."""
    words, groups = list[str](), list[list[int]]()
    for number, (token, piece) in enumerate(zip(ids, tokenizer.pieces(ids), strict=True)):
        if token in (END, PAD):
            break
        if piece.startswith(SPACE) or not words:
            words.append(piece.removeprefix(SPACE))
            groups.append([number])
        else:
            words[-1] += piece
            groups[-1].append(number)
    found = torch.stack([maps[group].mean(0) for group in groups]) if groups else maps[:0]
    return ExplainedCaption(caption=tokenizer.decode(ids), words=tuple(words), maps=found)
