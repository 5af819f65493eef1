"""A look at words: what a model that reads and writes sentences attends to, word by word, in every layer and head.

l layers, h heads, n queries, m keys
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.evaluating import check_finite, evaluating
from vitrail.explain.record import choose, record
from vitrail.explain.sentences import Sentence, read_sentence
from vitrail.models.decoding.beam import beam_search
from vitrail.models.decoding.greedy import greedy
from vitrail.models.decoding.mask_predict import Filling, mask_predict
from vitrail.models.decoding.sampling import sample
from vitrail.models.decoding.stepping import Stepping
from vitrail.models.protocols import Encodes, HasAttentionMaps
from vitrail.models.word_model import WordModel
from vitrail.special_tokens import BEGIN, END, PAD

Kind = Literal["encoder", "decoder", "cross"]
Text = str | Sequence[int] | Int[Tensor, "_"]
NAMES: Mapping[Kind, str] = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "attention of the decoder to the source",
}
LONGER = 50  # tokens that a translation may have more than its source  [Vaswani+ 2017, section 6.1]
TEMPERATURE, NUCLEUS = 0.8, 0.95  # of what is drawn
CONTINUATION = 24  # tokens that a language model adds where none are given
EMPTY = Sentence((), (), ())


@dataclass(frozen=True, kw_only=True)
class WordLook:
    """What one sentence showed. Every row of the weights sums to 1.

    The decoder reads <begin> y_1 ... y_n and writes y_1 ... y_n <end>. A row of its attention to the source is that of the word
    it is about to WRITE; a row of its self-attention that of the word it has READ. A language model has one of the two
    self-attentions: "decoder" if it is causal, else "encoder".
    """

    source: Sentence = EMPTY
    read: Sentence = EMPTY
    written: Sentence = EMPTY
    weights: Mapping[Kind, Float[Tensor, "l h n m"]]
    given: int = 0  # words, or pieces, of `read` that the person gave, not the model

    def queries(self, kind: Kind) -> Sentence:
        return {"encoder": self.source, "decoder": self.read, "cross": self.written}[kind]

    def keys(self, kind: Kind) -> Sentence:
        return self.read if kind == "decoder" else self.source

    def of(self, kind: Kind, layer: int = -1, head: int | None = None) -> Float[Tensor, "n m"]:
        """The weights of one layer: of one head, or their mean. Negative numbers count from the end."""
        found = self.every(kind)
        [layer] = choose([layer], len(found), "layer", f"the {NAMES[kind]}")
        if head is None:
            return found[layer].mean(0)
        [head] = choose([head], found.shape[1], "head", f"the {NAMES[kind]}")
        return found[layer, head]

    def every(self, kind: Kind) -> Float[Tensor, "l h n m"]:
        if kind not in self.weights:
            raise VitrailError(f"this model has no {NAMES[kind]}; it has {', '.join(NAMES[known] for known in self.weights)}")
        return self.weights[kind]


def word_look(model: WordModel, source: Text, target: Text | None = None, *, beams: int = 5) -> WordLook:
    """One pass over a sentence and its translation (None: the one that beam search finds), in evaluation mode.

    Of a causal language model, `source` is how a text begins and `target` what follows (None: what it finds likeliest, a few
    words). Of a masked one there is no target. Texts need the model's tokenizer; numbers are taken as they are, without
    BEGIN and END.
    """
    tokenizer, device = model.tokenizer, next(model.parameters()).device
    ids = to_ids(source, tokenizer)
    follow = None if target is None else to_ids(target, tokenizer)
    with evaluating(model), torch.no_grad():
        if isinstance(model, Encodes):
            return translation_look(model, ids, follow, tokenizer, beams=beams, device=device)
        if not model.config.causal:
            if follow is not None:
                raise VitrailError("a masked language model reads one text: there is nothing that follows it")
            return masked_look(model, ids, tokenizer, device=device)
        return causal_look(model, ids, follow, tokenizer, device=device)


def translation_look(
    model: WordModel, ids: list[int], target: list[int] | None, tokenizer: Any, *, beams: int, device: torch.device
) -> WordLook:
    if not ids:
        raise VitrailError("there is no word in the sentence")
    source = as_row([*ids, END], device)
    if target is None:
        target = translate_ids(model, ids, beams=beams)
    at_once = isinstance(model, Filling)  # mask-predict: there is no next word, and each is read at its own place
    if at_once and not target:
        raise VitrailError("there is no word in the translation")
    read, written = (target, target) if at_once else ([BEGIN, *target], [*target, END])
    if isinstance(model, HasAttentionMaps):  # recurrent: one look at the source a word
        weights: dict[Kind, Tensor] = {"cross": model.attention_maps(source, as_row(read, device))[:, None].float()}
        check_finite(weights["cross"])
    else:
        weights = recorded(model, source, as_row(read, device))
    return WordLook(
        source=read_sentence([*ids, END], tokenizer),
        read=read_sentence(read, tokenizer),
        written=read_sentence(written, tokenizer),
        weights=weights,
        given=0 if at_once else 1,
    )


def causal_look(
    model: WordModel, ids: list[int], follow: list[int] | None, tokenizer: Any, *, device: torch.device
) -> WordLook:
    given = [BEGIN, *ids]
    if follow is None:
        follow = continue_ids(model, ids)
    sentence = read_sentence([*given, *follow], tokenizer)
    return WordLook(read=sentence, weights=recorded(model, as_row([*given, *follow], device)), given=len(given))


def masked_look(model: WordModel, ids: list[int], tokenizer: Any, *, device: torch.device) -> WordLook:
    if not ids:
        raise VitrailError("there is no word in the sentence")
    sentence = read_sentence([*ids, END], tokenizer)
    return WordLook(source=sentence, weights=recorded(model, as_row([*ids, END], device)), given=len(ids))


def translate_ids(model: WordModel, ids: Sequence[int], *, beams: int = 5) -> list[int]:
    """The translation that beam search finds; greedy with one beam. At most 50 tokens longer than the source."""
    source = as_row([*ids, END], next(model.parameters()).device)
    longest = min(model.config.longest - 1, len(ids) + LONGER)
    with evaluating(model), torch.no_grad():
        if isinstance(model, Filling):
            return until_end(mask_predict(model, source).ids[0].tolist())
        assert isinstance(model, Stepping)
        if beams == 1:
            return until_end(greedy(model, source, longest=longest)[0].tolist())
        return until_end(beam_search(model, source, beams=beams, longest=longest).ids[0].tolist())


def continue_ids(model: WordModel, ids: Sequence[int], *, seed: int | None = None) -> list[int]:
    """What a causal language model adds: the likeliest word each time, or with a seed one drawn from the likely ones."""
    prompt = as_row([BEGIN, *ids], next(model.parameters()).device)
    room = min(CONTINUATION, model.config.longest - prompt.shape[1])
    if room < 1:
        return []
    assert isinstance(model, Stepping)
    with evaluating(model), torch.no_grad():
        if seed is None:
            return until_end(greedy(model, None, longest=room, prompt=prompt)[0].tolist())
        generator = torch.Generator(device=prompt.device).manual_seed(seed)
        drawn = sample(model, None, longest=room, prompt=prompt, generator=generator, temperature=TEMPERATURE, top_p=NUCLEUS)
        return until_end(drawn[0, 0].tolist())


def recorded(model: WordModel, *inputs: Int[Tensor, "1 _"]) -> dict[Kind, Float[Tensor, "l h n m"]]:
    """The attention of one pass, by kind."""
    with record(model) as seen:
        answer = model(*inputs)
    check_finite(answer if isinstance(answer, Tensor) else answer[0])
    found: dict[Kind, list[Tensor]] = {}
    for name, weights in zip(seen.names, seen.layers, strict=True):
        found.setdefault(kind_of(name, model), []).append(weights[0].float().cpu())
    return {kind: torch.stack(layers) for kind, layers in found.items()}


def kind_of(name: str, model: WordModel) -> Kind:
    """By the layer's name; a causal model without a decoder is one."""
    if name.endswith("cross_attention"):
        return "cross"
    return "decoder" if ".decoder." in f".{name}" or (not isinstance(model, Encodes) and model.config.causal) else "encoder"


def to_words(look: WordLook) -> WordLook:
    """The pieces of a word joined: of its queries the mean, of its keys the sum, so that rows still sum to 1."""
    weights = {kind: join(look.weights[kind], look.queries(kind), look.keys(kind)) for kind in look.weights}
    sentences = {name: getattr(look, name).of_words() for name in ("source", "read", "written")}
    sentence = look.read if look.read.pieces else look.source
    given = 1 + sentence.owners[look.given - 1] if look.given else 0
    return replace(look, weights=weights, given=given, **sentences)


def join(weights: Float[Tensor, "l h n m"], queries: Sentence, keys: Sentence) -> Float[Tensor, "l h _ _"]:
    belongs = [
        torch.nn.functional.one_hot(torch.tensor(sentence.owners), len(sentence.words)).to(weights)
        for sentence in (queries, keys)
    ]
    return (belongs[0] / belongs[0].sum(0)).T @ weights @ belongs[1]


def to_ids(text: Text, tokenizer: Any) -> list[int]:
    if isinstance(text, str):
        if tokenizer is None:
            raise VitrailError("this model has no tokenizer: give the sentence as numbers of its vocabulary")
        return list(tokenizer.encode(text))
    return text.tolist() if isinstance(text, Tensor) else list(text)


def until_end(ids: list[int]) -> list[int]:
    return ids[: next((place for place, number in enumerate(ids) if number in (END, PAD)), len(ids))]


def as_row(ids: Sequence[int], device: torch.device) -> Int[Tensor, "1 n"]:
    return torch.tensor([ids], dtype=torch.long, device=device)
