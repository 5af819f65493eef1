"""A sentence through a model of words: what it wrote, and which words each word attends to.

n queries, m keys
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.studio.pages.text.facts import TextFacts
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.explain.alignment import aligning_layer
from vitrail.explain.sentences import Sentence, read_sentence
from vitrail.explain.words import Kind, WordLook, continue_ids, to_words, translate_ids, word_look
from vitrail.models.word_model import WordModel
from vitrail.special_tokens import BEGIN, END, UNKNOWN

LONGEST_TEXT = 4_000  # characters; no model of the studio reads as much
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, kw_only=True)
class TextLook:
    """What is kept of one sentence: whole words, the pieces joined."""

    noun: ClassVar[str] = "sentence"  # how an error calls it
    model: str
    version: object
    look: WordLook
    text: str  # that the model wrote
    notes: tuple[str, ...]
    milliseconds: float

    @property
    def nbytes(self) -> int:
        return 4_096 + sum(weights.nbytes for weights in self.look.weights.values())


def read_text(model: WordModel, text: str, facts: TextFacts) -> tuple[list[int], tuple[str, ...]]:
    """The numbers of a text's pieces, and what a person should know of them."""
    if model.tokenizer is None:
        raise StudioError("This model has no tokenizer: it cannot read text.")
    ids = model.tokenizer.encode(text)
    if not ids and facts.writes != "on":
        raise StudioError("There is no word in the sentence: type one.")
    notes = []
    if unknown := ids.count(UNKNOWN):
        notes.append(f"{unknown} of {len(ids)} subwords were never seen in training.")
    if len(ids) > (room := facts.longest - 1):  # BEGIN or END counts too
        notes.append(f"Cut: the text has {len(ids)} subwords, and the model reads {room}.")
    return ids[:room], tuple(notes)


def run_text(model: WordModel, text: str, facts: TextFacts, *, seed: int) -> tuple[WordLook, str, tuple[str, ...], float]:
    """The look of whole words, what was written, notes, and milliseconds. A seed above 0 draws another continuation."""
    start = time.perf_counter()
    ids, notes = read_text(model, text, facts)
    if facts.writes == "nothing":
        look = word_look(model, ids) if facts.kinds else bare_look(model, ids, [], facts)
        written = ""
    else:
        new = translate_ids(model, ids) if facts.writes == "another" else continue_ids(model, ids, seed=seed or None)
        look = word_look(model, ids, new) if facts.kinds else bare_look(model, ids, new, facts)
        written = model.tokenizer.decode(new)
    return to_words(look), written, notes, 1000 * (time.perf_counter() - start)


def bare_look(model: WordModel, ids: list[int], new: list[int], facts: TextFacts) -> WordLook:
    """The words alone, of a model whose attention cannot be shown."""

    def sentence(*parts: Sequence[int]) -> Sentence:
        return read_sentence([number for part in parts for number in part], model.tokenizer)

    if facts.writes == "on":
        return WordLook(read=sentence([BEGIN], ids, new), weights={}, given=1 + len(ids))
    return WordLook(source=sentence(ids, [END]), read=sentence([BEGIN], new), written=sentence(new, [END]), weights={}, given=1)


def describe_text_look(name: str, found: TextLook) -> dict[str, Any]:
    """Layers count from 0. `aligning`: the layer whose attention to the source tells most of which word is written."""
    look = found.look
    return {
        "id": name,
        "source": look.source.words,
        "read": look.read.words,
        "written": look.written.words,
        "given": look.given,
        "text": found.text,
        "notes": found.notes,
        "kinds": {kind: list(weights.shape[:2]) for kind, weights in look.weights.items()},
        "aligning": aligning_layer([look]) if "cross" in look.weights else None,
        "ms": found.milliseconds,
    }


def text_attention(found: TextLook, *, kind: str, layer: int, head: str) -> Float[Tensor, "n m"]:
    """The weights of one layer, of a head or their mean; rows sum to 1."""
    weights = next((found.look.weights[known] for known in KINDS if known == kind and known in found.look.weights), None)
    if weights is None:
        raise StudioError(
            f'"{kind[:20]}" is no attention of this model: choose from {", ".join(found.look.weights) or "none"}.'
        )
    layers, heads = weights.shape[:2]
    if not -layers <= layer < layers:
        raise StudioError(f"Layer {layer} does not exist: choose 0 to {layers - 1}.")
    if head == "mean":
        return weights[layer].mean(0)
    if not (head.isascii() and head.isdigit() and int(head[:6]) < heads):
        raise StudioError(f'"{head[:20]}" is no head: choose mean or 0 to {heads - 1}.')
    return weights[layer, int(head)]
