"""A trained masked language model as a function from a text with hidden words to what they may be.

k hidden words, v vocabulary
"""

from collections.abc import Sequence
from typing import Any

import torch

from vitrail.byte_pairs import SPACE
from vitrail.errors import VitrailError
from vitrail.models.decoding.extension import spelled_words
from vitrail.models.purpose import purpose_of
from vitrail.special_tokens import END, MASK, SPECIAL_TOKENS

HIDDEN = SPECIAL_TOKENS[MASK]  # as it is written in a text


class FillMask:
    """`fill("A <mask> sits")` gives [{"score", "token", "token_str", "sequence"}, ...], best first, as Hugging Face's pipeline does;
    of a text with several hidden words such a list for each; a list of texts gives a list of those. A hidden word is one piece of the
    tokenizer's, and its score the probability that the model gives it."""

    def __init__(self, model: Any) -> None:
        if purpose_of(model) != "fill":
            raise VitrailError(f"this model does not fill in hidden words: it is for {purpose_of(model)}, not for fill")
        if model.tokenizer is None:
            raise VitrailError("this model has no tokenizer: it cannot read text")
        self.model, self.tokenizer = model.eval(), model.tokenizer
        self.longest = int(model.config.longest)

    def __call__(self, texts: str | Sequence[str], *, top_k: int = 5) -> Any:
        if top_k < 1:
            raise VitrailError(f"top_k must be at least 1, got {top_k}")
        answers = [self.fill(text, top_k=top_k) for text in ([texts] if isinstance(texts, str) else texts)]
        return answers[0] if isinstance(texts, str) else answers

    def fill(self, text: str, *, top_k: int) -> Any:
        ids, places = self.read(text)
        with torch.inference_mode():
            read = torch.tensor([ids], device=next(self.model.parameters()).device)
            scores = self.model(read)[0, places].float().softmax(dim=-1).cpu()  # k v
        allow = spelled_words(self.model)
        best = scores.masked_fill(~allow, -1.0).topk(min(top_k, int(allow.sum())))
        answers = [
            [
                {
                    "score": score,
                    "token": token,
                    "token_str": self.tokenizer.decode([token]),
                    "sequence": self.spell([*ids[:place], token, *ids[place + 1 :]]),
                }
                for score, token in zip(values, tokens, strict=True)
            ]
            for place, values, tokens in zip(places, best.values.tolist(), best.indices.tolist(), strict=True)
        ]
        return answers[0] if len(answers) == 1 else answers

    def read(self, text: str) -> tuple[list[int], list[int]]:
        """The model's words and END, and where MASK stands among them."""
        ids, places = list[int](), list[int]()
        for word in self.tokenizer.normalize(text).split():
            before, *behind = word.split(HIDDEN)
            ids += self.tokenizer.encode(before)
            for part in behind:
                places.append(len(ids))
                found = self.tokenizer.encode(part)
                # A mark that follows a word has no space before it, which alone it would have.
                ids += [MASK, *(found[1:] if self.tokenizer.pieces(found[:1]) == [SPACE] else found)]
        if not places:
            raise VitrailError(f'nothing is hidden in "{text}": write {HIDDEN} in place of a word')
        if len(ids) >= self.longest:
            raise VitrailError(f"a text of {len(ids)} tokens is too long: the model reads {self.longest - 1}")
        return [*ids, END], places

    def spell(self, ids: list[int]) -> str:
        """The text, what is still hidden in it included."""
        parts, start = list[str](), 0
        for place in [*(place for place, token in enumerate(ids) if token == MASK), len(ids)]:
            parts.append(self.tokenizer.decode(ids[start:place]))
            start = place + 1
        return f" {HIDDEN} ".join(parts).strip()
