"""The loop that greedy decoding and sampling share: tokens are appended until every row has ended.

b sources, c rows written for each of them, r rows still being written, p prompt, n new tokens, v vocabulary
"""

from collections.abc import Callable
from typing import Any, Required, TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vitrail.models.decoding.stepping import Stepping
from vitrail.special_tokens import BEGIN, END, MASK, PAD, SPECIAL_TOKENS

Choose = Callable[[Float[Tensor, "r v"], Int[Tensor, "r"]], Int[Tensor, "r"]]  # from logits, and which row of all each one is


class Extending(TypedDict, total=False):
    """Keywords of `extend` that `greedy` and `sample` hand on."""

    longest: Required[int]
    cached: bool
    prompt: Int[Tensor, "b p"] | None
    allow: Bool[Tensor, "v"] | None
    begin: int
    end: int | None


@torch.no_grad()  # not inference mode: tables that a model fills in passing must still be fit for training
def extend(
    model: Stepping,
    source: Any,
    choose: Choose,
    *,
    longest: int,
    count: int = 1,
    cached: bool = True,
    prompt: Int[Tensor, "b p"] | None = None,
    allow: Bool[Tensor, "v"] | None = None,
    begin: int = BEGIN,
    end: int | None = END,
) -> Int[Tensor, "b c n"]:
    """At most `longest` new tokens behind the prompt, or behind `begin` alone, for `count` rows of each source.

    A row ends with `end` (None: never) or is cut, and is filled with PAD. Rows that have ended are no longer computed. The
    source and the prompt are computed once for all rows of a source. The model decodes as it is: call `eval()` before.
    """
    if longest < 1 or count < 1:
        raise ValueError(f"longest and count must be at least 1, got {longest} and {count}")
    ids = first_tokens(model, source, prompt=prompt, begin=begin)
    state = model.begin(source, cached=cached)
    banned = banned_tokens(model, allow=allow, begin=begin).to(ids.device)
    written = ids.new_full((ids.shape[0] * count, longest), PAD)
    alive = torch.arange(written.shape[0], device=ids.device)
    length = 0
    for length in range(1, longest + 1):
        logits = model.step(ids, state)
        if length == 1 and count > 1:
            rows = torch.arange(ids.shape[0], device=ids.device).repeat_interleave(count)
            state.reorder(rows)
            ids, logits = ids[rows], logits[rows]
        chosen = choose(logits.index_fill_(1, banned, -torch.inf), alive)
        written[alive, length - 1] = chosen
        ids = torch.cat([ids, chosen[:, None]], dim=1)
        if end is None:
            continue
        rows = (chosen != end).nonzero()[:, 0]
        if rows.shape[0] == 0:
            break
        if rows.shape[0] < alive.shape[0]:
            state.reorder(rows)
            ids, alive = ids[rows], alive[rows]
    return written[:, :length].reshape(-1, count, length)


def first_tokens(model: Stepping, source: Any, *, prompt: Int[Tensor, "b p"] | None, begin: int) -> Int[Tensor, "b t"]:
    """The prompt, or `begin` for every row of the source."""
    if prompt is not None:
        if prompt.shape[1] == 0:
            raise ValueError("a prompt needs at least one token")
        return prompt
    rows = 1 if source is None else source if isinstance(source, int) else len(source)
    if isinstance(source, Tensor):
        device = source.device
    else:
        device = next(model.parameters()).device if isinstance(model, nn.Module) else torch.device("cpu")
    return torch.full((rows, 1), begin, device=device)


def banned_tokens(model: Stepping, *, allow: Bool[Tensor, "v"] | None, begin: int) -> Int[Tensor, "x"]:
    """Tokens that never come: those that `allow` leaves out; without it the ones no text contains, PAD, BEGIN, MASK and those
    that the model's tokenizer does not spell."""
    if allow is None:
        unspelled = range(spelled_tokens(model), model.vocabulary)
        return torch.tensor([token for token in sorted({PAD, begin, MASK, *unspelled}) if token < model.vocabulary])
    if not bool(allow.any()):
        raise ValueError("allow must leave at least one token")
    return (~allow).nonzero()[:, 0]


def spelled_tokens(model: Any) -> int:
    """How many of the vocabulary stand for something, where the model says so; see `WordModel`."""
    return int(getattr(model, "spelled", model.vocabulary))


def spelled_words(model: Any) -> Bool[Tensor, "v"]:
    """True for what a text is made of: the subwords of a model's tokenizer without the special tokens."""
    numbers = torch.arange(model.vocabulary)
    return (numbers >= len(SPECIAL_TOKENS)) & (numbers < spelled_tokens(model))
