"""Byte-pair encoding: words in pieces, the frequent ones whole  [Sennrich+ 2016, section 3.2].

A text is normalized, split at spaces, and each word begins with ▁ (so the spaces are part of the pieces and nothing is lost):
`Zwei Büsche.` → ▁Zwei ▁Büsche . → pieces. Marks such as . and - are words of their own. `decode(encode(text))` is `normalize(text)`,
letter for letter, unless a letter was never seen in training: that is UNKNOWN, or with `bytes` its UTF-8 bytes.

The merges are learned by `tokenizers`, and applied here: each word once, then from a table.
"""

import itertools
import json
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from vitrail import tokenizer_json
from vitrail.errors import VitrailError
from vitrail.extras import need
from vitrail.special_tokens import END, MASK, SPECIAL_TOKENS, UNKNOWN
from vitrail.tokenizer_json import BYTES, LONGEST_WORD, SPACE, Pair

TABLE = 1_000_000  # words remembered; then the table starts anew
AT_ONCE = 1000  # times that a word is repeated in one text to learn from


class BytePairs:
    """A vocabulary of pieces by number, the special tokens first, and the merges that make them, best first."""

    def __init__(self, pieces: Sequence[str], merges: Sequence[Pair], *, lower: bool = False, bytes: bool = False) -> None:
        """`pieces`: all of them, the special tokens included; with `bytes` the 256 bytes follow those."""
        self.all_pieces, self.merges, self.lower, self.bytes = tuple(pieces), tuple(merges), lower, bytes
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.first = len(SPECIAL_TOKENS) + (len(BYTES) if bytes else 0)  # what stands before is never spelled by a text
        self.numbers = {piece: number for number, piece in enumerate(self.all_pieces) if number >= self.first}
        self.table: dict[str, list[int]] = {}

    @classmethod
    def train(cls, lines: Iterable[str], vocabulary: int, lower: bool = False, *, bytes: bool = False) -> "BytePairs":
        """Merge the most frequent pair of neighbors until there are `vocabulary` pieces, the special tokens among them.

        Fewer where the text has no more to merge. At most three quarters are single letters, the most frequent ones. A function
        of the words and how often each one comes.
        """
        reserved = [*SPECIAL_TOKENS, *(BYTES if bytes else ())]
        if vocabulary <= len(reserved) + 1:
            raise VitrailError(f"a vocabulary of {vocabulary} is too small: {len(reserved)} of it are reserved")
        tokenizers: Any = need("tokenizers", "text")
        model = tokenizers.Tokenizer(tokenizers.models.BPE())
        model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()  # the words are split already, by the one rule below
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=reserved, initial_alphabet=[SPACE], show_progress=False
        )
        words = count_words(lines, lower=lower)
        letters = choose_letters(words, max(1, (vocabulary - len(reserved)) * 3 // 4))
        model.train_from_iterator(write_in_full(words, letters), trainer=trainer)
        learned = json.loads(model.to_str())["model"]
        pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
        merges = [(first, second) for first, second in learned["merges"]]
        return cls(pieces, merges, lower=lower, bytes=bytes)

    @classmethod
    def from_json(cls, text: str, *, where: str = "tokenizer.json") -> "BytePairs":
        """The text of a tokenizer.json, as `tokenizer_json.read` takes it."""
        stored = tokenizer_json.read(text, where=where)
        return cls(stored.pieces, stored.merges, lower=stored.lower, bytes=stored.bytes)

    def to_json(self) -> str:
        """The text of a tokenizer.json, which Hugging Face's `tokenizers` reads too."""
        return tokenizer_json.write(tokenizer_json.Stored(self.all_pieces, self.merges, self.lower, self.bytes))

    def __len__(self) -> int:
        """The size of the vocabulary."""
        return len(self.all_pieces)

    def normalize(self, text: str) -> str:
        return normalize(text, lower=self.lower)

    def encode(self, text: str) -> list[int]:
        """Numbers of the pieces, without BEGIN and END."""
        ids = list[int]()
        for word in self.normalize(text).split():
            ids += self.table.get(word) or self.look_up(word)
        return ids

    def look_up(self, word: str) -> list[int]:
        """The pieces of a word between spaces, remembered."""
        if len(self.table) >= TABLE:
            self.table.clear()
        found = self.table[word] = self.segment(word)
        return found

    def segment(self, word: str, dropped: Callable[[], bool] | None = None) -> list[int]:
        """The pieces of a word; a merge for which `dropped()` is true is passed over."""
        ids = list[int]()
        for part in split_word(word):
            for start in range(0, len(part), LONGEST_WORD):
                for piece in merge(part[start : start + LONGEST_WORD], self.ranks, dropped):
                    ids += self.spell(piece)
        return ids

    def spell(self, piece: str) -> list[int]:
        """The number of a piece; a letter that is none is UNKNOWN, or its bytes."""
        number = self.numbers.get(piece)
        if number is not None:
            return [number]
        return [len(SPECIAL_TOKENS) + byte for byte in piece.encode()] if self.bytes else [UNKNOWN]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each number stands for, as it is; for people to read."""
        return [self.all_pieces[number] for number in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text up to END, with one space between words and none around it. UNKNOWN is ⁇, the other special tokens are nothing."""
        text = bytearray()
        for number in ids:
            if number == END:
                break
            if number == UNKNOWN or number >= len(self.all_pieces):  # a model may have more numbers than there are pieces
                text += "⁇".encode()
            elif MASK < number < self.first:
                text.append(number - len(SPECIAL_TOKENS))
            elif number >= self.first:
                text += self.all_pieces[number].encode()
        return " ".join(text.decode("utf-8", errors="replace").replace(SPACE, " ").split())


def count_words(lines: Iterable[str], *, lower: bool) -> Counter[str]:
    """How often each word comes, split at its marks and ▁ before it."""
    words = Counter(word for line in lines for word in normalize(line, lower=lower).split())
    parts = Counter[str]()
    for word, count in words.items():
        for part in split_word(word):
            parts[part] += count
    return parts


def choose_letters(words: Mapping[str, int], most: int) -> set[str]:
    """The `most` frequent letters, ▁ among them; of equals the first by number. (`tokenizers` would choose as its hashes fall.)"""
    counts = Counter[str]()
    for word, count in words.items():
        for letter in word:
            counts[letter] += count
    order = sorted(counts.keys() - {SPACE}, key=lambda letter: (-counts[letter], letter))
    return {SPACE, *order[: most - 1]}


def write_in_full(words: Mapping[str, int], letters: Set[str]) -> Iterator[str]:
    """Every word as often as it comes, cut where a letter is none of `letters`: nothing is merged across it."""
    for word, count in words.items():
        kept = "".join(letter if letter in letters else " " for letter in word)
        for start in range(0, count, AT_ONCE):
            yield f"{kept} " * min(AT_ONCE, count - start)


def normalize(text: str, *, lower: bool = False) -> str:
    """Unicode NFKC, lower-cased if so wanted; one space between words, none around. ▁ is a space, half a surrogate pair a ?."""
    text = unicodedata.normalize("NFKC", text.encode("utf-8", errors="replace").decode())
    if lower:
        text = unicodedata.normalize("NFKC", text.lower())
    return " ".join(text.replace(SPACE, " ").split())


@lru_cache(maxsize=1 << 17)
def split_word(word: str) -> tuple[str, ...]:
    """▁ and the word, cut so that each punctuation mark stands alone: `end.` → ▁end and ., `"so` → ▁ and " and so."""
    parts, run = list[str](), SPACE
    for letter in word:
        if letter in string.punctuation or unicodedata.category(letter).startswith("P"):
            parts += [run, letter] if run else [letter]
            run = ""
        else:
            run += letter
    return (*parts, run) if run else tuple(parts)


def merge(word: str, ranks: dict[Pair, int], dropped: Callable[[], bool] | None = None) -> list[str]:
    """Letters put together: always the neighbors that were merged earliest in training, the leftmost of equals.

    With `dropped` each possible merge is passed over where it says so, at every step anew; where all are, that is the end. It is
    asked from the best on until one stays, which comes to the same as asking for all.
    """
    letters, never = list(word), len(ranks)
    order = [ranks.get(pair, never) for pair in itertools.pairwise(letters)]
    while order and (best := min(order)) < never:
        where: int | None = order.index(best)
        if dropped is not None and dropped():
            others = sorted((rank, index) for index, rank in enumerate(order) if rank < never and index != where)
            where = next((index for _, index in others if not dropped()), None)
            if where is None:
                break
        assert where is not None
        letters[where : where + 2] = [letters[where] + letters[where + 1]]
        del order[where]
        if where > 0:
            order[where - 1] = ranks.get((letters[where - 1], letters[where]), never)
        if where < len(order):
            order[where] = ranks.get((letters[where], letters[where + 1]), never)
    return letters
