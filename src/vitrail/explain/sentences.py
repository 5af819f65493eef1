"""A sentence as a model has it: pieces of words, and which of them make up a word."""

import string
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from vitrail.special_tokens import BEGIN, END, MASK, PAD, SPECIAL_TOKENS
from vitrail.tokenizer_json import SPACE

NO_LETTERS = frozenset({PAD, BEGIN, END, MASK})  # UNKNOWN is a letter: one that was never seen


class Sentence(NamedTuple):
    """Pieces in order, the words that they make up, and of each piece the number of its word."""

    pieces: tuple[str, ...]
    words: tuple[str, ...]
    owners: tuple[int, ...]

    def of_words(self) -> "Sentence":
        """The same, each word in one piece."""
        return whole(self.words)


def whole(words: Sequence[str]) -> Sentence:
    return Sentence(tuple(words), tuple(words), tuple(range(len(words))))


def read_sentence(ids: Sequence[int], tokenizer: Any = None) -> Sentence:
    """What the numbers stand for; without a tokenizer the numbers themselves.

    A word is what stands between spaces, without the marks before and behind it, which are words of their own: `(don't!)` is
    ( don't ! ) and <end> is <end>.
    """
    if tokenizer is None:
        return whole([SPECIAL_TOKENS[number] if number in NO_LETTERS else str(number) for number in ids])
    pieces = tokenizer.pieces(ids)
    groups = [group for chunk in split_at_spaces(ids, pieces) for group in split_off_marks(chunk, pieces)]
    words = [spell([ids[place] for place in group], tokenizer) for group in groups]
    owners = [number for number, group in enumerate(groups) for _ in group]
    return Sentence(tuple(pieces), tuple(words), tuple(owners))


def split_at_spaces(ids: Sequence[int], pieces: Sequence[str]) -> list[list[int]]:
    """Places of the pieces, those between two spaces together, special tokens alone."""
    chunks: list[list[int]] = []
    for place, (number, piece) in enumerate(zip(ids, pieces, strict=True)):
        alone = number in NO_LETTERS or (place > 0 and ids[place - 1] in NO_LETTERS)
        if alone or not chunks or piece.startswith(SPACE):
            chunks.append([])
        chunks[-1].append(place)
    return chunks


def split_off_marks(chunk: Sequence[int], pieces: Sequence[str]) -> list[list[int]]:
    """The marks at both ends of a chunk apart from the word between them, in which marks may stand."""
    start, stop = 0, len(chunk)
    first = pieces[chunk[0]] == SPACE and len(chunk) > 1  # a space before a mark is a piece: it goes with what follows
    while start + first < stop and is_mark(pieces[chunk[start + first]]):
        start += 1
    while stop - 1 > start + first and is_mark(pieces[chunk[stop - 1]]):
        stop -= 1
    before = [[chunk[place + first]] for place in range(start)]
    if first and before:
        before[0].insert(0, chunk[0])
    middle = list(chunk[start + first if start else 0 : stop])
    return [*before, *([middle] if middle else []), *([place] for place in chunk[stop:])]


def is_mark(piece: str) -> bool:
    return len(piece) == 1 and (piece in string.punctuation or unicodedata.category(piece).startswith("P"))


def spell(ids: Sequence[int], tokenizer: Any) -> str:
    if len(ids) == 1 and ids[0] in NO_LETTERS:
        return SPECIAL_TOKENS[ids[0]]
    return str(tokenizer.decode(ids)).strip()
