"""Beam search: the best few beginnings are kept at every length, and the ends that they reach.

b sources, s of them still searched, w live beams of each, k beams kept, r = s w rows, c candidates, p prompt, n new tokens, v vocabulary
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vitrail.models.decoding.extension import banned_tokens, first_tokens
from vitrail.models.decoding.largest import largest
from vitrail.models.decoding.stepping import Stepping
from vitrail.special_tokens import BEGIN, END, PAD


class Beams(NamedTuple):
    """What a search found, best first."""

    ids: Int[Tensor, "b n"]  # the best hypothesis of each source, filled with PAD
    scores: Float[Tensor, "b"]  # its log-probability divided by length^length_penalty
    hypotheses: Int[Tensor, "b k n"]
    hypothesis_scores: Float[Tensor, "b k"]  # -inf: fewer than k were found, the row is PAD


class Kept(NamedTuple):
    """Hypotheses that have ended, apart from the live beams."""

    ids: Int[Tensor, "s k n"]
    scores: Float[Tensor, "s k"]  # normalized, falling; -inf: an empty place

    def add(self, ids: Int[Tensor, "s c t"], scores: Float[Tensor, "s c"]) -> "Kept":
        """The best of these and those; what scores -inf leaves an empty place."""
        ids = torch.nn.functional.pad(ids, (0, self.ids.shape[2] - ids.shape[2]), value=PAD)
        ids = ids.masked_fill(scores.isneginf()[..., None], PAD)
        best = torch.cat([self.scores, scores], dim=1).topk(self.scores.shape[1])
        return Kept(torch.cat([self.ids, ids], dim=1).take_along_dim(best.indices[..., None], dim=1), best.values)


class Candidates(NamedTuple):
    """The likeliest continuations of the beams of a sentence, best first: enough for k that end and k that do not."""

    scores: Float[Tensor, "s c"]  # log p of all tokens
    parents: Int[Tensor, "s c"]  # which beam is continued
    tokens: Int[Tensor, "s c"]  # by what


@torch.no_grad()
def beam_search(
    model: Stepping,
    source: Any,
    *,
    beams: int = 5,
    longest: int,
    length_penalty: float = 1.0,
    cached: bool = True,
    prompt: Int[Tensor, "b p"] | None = None,
    allow: Bool[Tensor, "v"] | None = None,
    begin: int = BEGIN,
    end: int | None = END,
) -> Beams:
    """Looks for the y of greatest log p(y | source) / |y|^length_penalty  [Cho+ 2014, with a power of 1].

    |y| counts the new tokens, `end` among them. (The other usual normalization, ((5 + |y|) / 6)^alpha  [Wu+ 2016, eq. 14],
    differs by how much it favors length at the start; one is enough.) A continuation by `end` is kept when it is among the
    `beams` best of all continuations; the beams go on with the best others. A sentence is done when `beams` hypotheses are kept
    and the best live beam, normalized at its present length, does not beat the worst of them. With length_penalty=0 that is
    exact, because log-probabilities only fall: longer searching would keep the same. With another it is the usual approximation
    (a long beam may rise), and the one under which a beam of one is greedy decoding. What is live after `longest` tokens is cut
    and competes with the rest. p is given that only tokens come that may (see `greedy`), as it is in sampling.
    """
    if longest < 1 or beams < 1 or length_penalty < 0:
        raise ValueError(
            f"longest and beams must be at least 1, length_penalty at least 0, got {longest}, {beams} and {length_penalty}"
        )
    ids = first_tokens(model, source, prompt=prompt, begin=begin)
    given = ids.shape[1]
    state = model.begin(source, cached=cached)
    banned = banned_tokens(model, allow=allow, begin=begin).to(ids.device)
    live = torch.zeros(ids.shape[0], 1, device=ids.device)  # log p of each beam; -inf: no beam
    kept = Kept(ids.new_full((*live.shape[:1], beams, longest), PAD), live.new_full((*live.shape[:1], beams), -torch.inf))
    found = Kept(kept.ids.clone(), kept.scores.clone())
    searched = torch.arange(live.shape[0], device=ids.device)
    length = 0
    for length in range(1, longest + 1):
        best = candidates(model.step(ids, state), live, banned, beams=beams)
        rows = best.parents + live.shape[1] * torch.arange(live.shape[0], device=ids.device)[:, None]
        if end is not None:
            ended = best.tokens == end
            finishing = best.scores[:, :beams].masked_fill(~ended[:, :beams], -torch.inf)
            if not bool(finishing.isneginf().all()):
                written = torch.cat([ids[rows[:, :beams], given:], best.tokens[:, :beams, None]], dim=2)
                kept = kept.add(written, finishing / length**length_penalty)
            best = best._replace(scores=best.scores.masked_fill(ended, -torch.inf))
        live, order = (part[:, :beams] for part in best.scores.sort(dim=1, descending=True, stable=True))
        rows, tokens = rows.gather(1, order), best.tokens.gather(1, order)
        ids = torch.cat([ids[rows.flatten()], tokens.reshape(-1, 1)], dim=1)
        if length == longest:
            kept = kept.add(ids[:, given:].reshape(*live.shape, length), live / length**length_penalty)
            break
        going = live[:, 0] / length**length_penalty > kept.scores[:, -1]  # never where no beam is live
        if not bool(going.all()):
            found.ids[searched], found.scores[searched] = kept
            left = going.nonzero()[:, 0]
            if left.shape[0] == 0:
                break
            ids = ids.reshape(*live.shape, -1)[left].flatten(0, 1)
            rows, live, searched, kept = rows[left], live[left], searched[left], Kept(*(part[left] for part in kept))
        state.reorder(rows.flatten())
    found.ids[searched], found.scores[searched] = kept
    hypotheses = found.ids[:, :, :length]
    return Beams(hypotheses[:, 0], found.scores[:, 0], hypotheses, found.scores)


def candidates(logits: Float[Tensor, "r v"], live: Float[Tensor, "s w"], banned: Int[Tensor, "x"], *, beams: int) -> Candidates:
    """The best 2 `beams` of all w v continuations of a sentence. From each beam the best `beams` + 1 are enough: one may end.

    Ranked by logit within a beam, so that adding log-probabilities of a long beginning cannot round an order away.
    """
    logits = logits.float()
    values, tokens = largest(logits.index_fill_(1, banned, -torch.inf), min(beams + 1, logits.shape[1]))
    top = values[:, :1].clamp(min=torch.finfo(values.dtype).min)  # finite even where nothing may come
    sums = logits.sub_(top).exp_().sum(dim=1, keepdim=True).clamp(min=1)  # in place: the largest are known, and memory is slow
    scores = (live.reshape(-1, 1) + (values - top - sums.log())).reshape(live.shape[0], -1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    scores, order = scores[:, : 2 * beams], order[:, : 2 * beams]
    return Candidates(scores, order // values.shape[1], tokens.reshape(live.shape[0], -1).gather(1, order))
