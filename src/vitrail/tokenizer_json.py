"""tokenizer.json: the byte pairs of a model as Hugging Face's `tokenizers` stores them, written and read without that library.

`tokenizers.Tokenizer.from_file` reads what `write` writes, and cuts a text into the same token ids. It differs in three places, where its
format has no word for our rule: it reads a special token that is spelled in a text (`<mask>`) as that token, it decodes beyond <end>, and it
writes one U+FFFD for each byte that is no UTF-8.

`read` takes such a file, and the format of earlier versions. It refuses every other one by the name of the part that it cannot apply.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from vitrail.errors import VitrailError
from vitrail.special_tokens import SPECIAL_TOKENS, UNKNOWN

SPACE = "▁"  # U+2581, as SentencePiece has it
BYTES = tuple(f"<0x{number:02X}>" for number in range(256))
LONGEST_WORD = 200  # letters that are merged at once: the time for a word grows with the square of its length
FIRST_FORMAT = "vitrail byte pairs 1"  # of versions before tokenizer.json was Hugging Face's
VERSION = "1.0"
Pair = tuple[str, str]
Json = dict[str, Any]

# In the regular expressions of `tokenizers` (Oniguruma): what str.split() takes for space, the marks of byte_pairs.split_word, and the
# capital sigma that str.lower() makes a final one.
SPACES = rf"[{SPACE}\s\x1c-\x1f]+"
MARKS = r"\p{P}$+<=>^`|~"
FINAL_SIGMA = r"(?<=\p{Cased}\p{Case_Ignorable}*)Σ(?!\p{Case_Ignorable}*\p{Cased})"
MODEL: Json = {
    "type": "BPE", "dropout": None, "unk_token": SPECIAL_TOKENS[UNKNOWN], "continuing_subword_prefix": None, "end_of_word_suffix": None,
    "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
}  # fmt: skip


class Stored(NamedTuple):
    """What a file holds: all pieces by number, the special tokens first, then the 256 bytes if `bytes`; and the merges, best first."""

    pieces: Sequence[str]
    merges: Sequence[Pair]
    lower: bool
    bytes: bool


def write(stored: Stored) -> str:
    """The text of tokenizer.json."""
    vocab = {piece: number for number, piece in enumerate(stored.pieces)}
    found = {
        "version": VERSION, "truncation": None, "padding": None, "added_tokens": added_tokens(),
        "normalizer": normalizer(lower=stored.lower), "pre_tokenizer": pre_tokenizer(), "post_processor": None,
        "decoder": decoder(bytes=stored.bytes),
        "model": {**MODEL, "byte_fallback": stored.bytes, "vocab": vocab, "merges": stored.merges},
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False)


def read(text: str, *, where: str) -> Stored:
    """What `write`, or `to_json` of an earlier version, wrote; anything else is refused in one line that begins with `where`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise VitrailError(f"{where}: not readable JSON") from None
    if not isinstance(found, dict) or not ({"format", "model"} & set(found)):
        raise VitrailError(f'{where}: not a tokenizer: it has no "model"')
    stored = read_first_format(found, where) if "format" in found else read_parts(found, where)
    check(stored, where)
    return stored


def added_tokens() -> list[Json]:
    """The special tokens but <unknown>: that one stands for a letter, and is decoded to ⁇ and not to nothing."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL_TOKENS) if number != UNKNOWN]


def normalizer(*, lower: bool) -> Json:
    """`byte_pairs.normalize`."""
    lowered = [replace_by({"Regex": FINAL_SIGMA}, "ς"), {"type": "Lowercase"}, {"type": "NFKC"}] if lower else []
    ends = {"type": "Strip", "strip_left": True, "strip_right": True}
    return {"type": "Sequence", "normalizers": [{"type": "NFKC"}, *lowered, replace_by({"Regex": SPACES}, " "), ends]}


def pre_tokenizer() -> Json:
    """`byte_pairs.split_word` for each word, and the cut of very long ones."""
    words = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True}
    pattern = {"Regex": f"[{MARKS}]|[^{MARKS}]{{1,{LONGEST_WORD}}}"}
    parts = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [words, parts]}


def decoder(*, bytes: bool) -> Json:
    """`BytePairs.decode`."""
    unknown = replace_by({"String": SPECIAL_TOKENS[UNKNOWN]}, "⁇")
    spelled = [{"type": "ByteFallback"}] if bytes else []
    ends = replace_by({"Regex": r"\A | \z"}, "")  # the decoder Strip of `tokenizers` 0.23 panics where the text is empty
    return {"type": "Sequence", "decoders": [unknown, *spelled, {"type": "Fuse"}, replace_by({"Regex": SPACES}, " "), ends]}


def replace_by(pattern: Mapping[str, str], content: str) -> Json:
    return {"type": "Replace", "pattern": pattern, "content": content}


def read_parts(found: Json, where: str) -> Stored:
    """The vocabulary and the merges of a file whose every part is one that we apply."""
    model = found["model"]
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise VitrailError(f"{where}: the model must be BPE, got {kind(model)}")
    spelled = model.get("byte_fallback", False)
    if not isinstance(spelled, bool):
        raise VitrailError(f"{where}: byte_fallback must be true or false, got {spelled!r:.100}")
    for key, value in MODEL.items():
        if key != "byte_fallback" and model.get(key, value) != value:
            raise VitrailError(f"{where}: {key} of the model must be {json.dumps(value)}, got {model[key]!r:.100}")
    lower = found.get("normalizer") == normalizer(lower=True)
    parts = {
        "normalizer": normalizer(lower=lower), "pre_tokenizer": pre_tokenizer(), "decoder": decoder(bytes=spelled),
        "post_processor": None, "truncation": None, "padding": None, "added_tokens": added_tokens(),
    }  # fmt: skip
    for key, part in parts.items():
        if found.get(key) != part:
            raise VitrailError(f"{where}: the {key} {kind(found.get(key))} is not the one that Vitrail writes and applies")
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or sorted(map(repr, vocab.values())) != sorted(map(repr, range(len(vocab)))):
        raise VitrailError(f"{where}: vocab must number its pieces from 0 on, each once")
    if isinstance(merges, list):  # earlier versions of `tokenizers` write a merge as a text of two pieces
        merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges]
    return Stored(sorted(vocab, key=vocab.__getitem__), read_merges(merges, where), lower, spelled)


def read_first_format(found: Json, where: str) -> Stored:
    """What versions before this format wrote."""
    if found["format"] != FIRST_FORMAT:
        raise VitrailError(f'{where}: not a tokenizer of ours: its "format" must be "{FIRST_FORMAT}"')
    if set(found) != {"format", "lower", "bytes", "pieces", "merges"}:
        raise VitrailError(
            f"{where}: must have format, lower, bytes, pieces and merges, got {', '.join(sorted(map(str, found)))}"
        )
    pieces, lower, spelled = found["pieces"], found["lower"], found["bytes"]
    if not isinstance(lower, bool) or not isinstance(spelled, bool):
        raise VitrailError(f"{where}: lower and bytes must be true or false")
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VitrailError(f"{where}: pieces must be a list of texts that are not empty")
    return Stored(pieces, read_merges(found["merges"], where), lower, spelled)


def read_merges(merges: Any, where: str) -> list[Pair]:
    if not isinstance(merges, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in merges):
        raise VitrailError(f"{where}: merges must be a list of pairs")
    for pair in merges:
        if not all(isinstance(part, str) for part in pair):
            raise VitrailError(f"{where}: the merge {pair!r:.100} is not of pieces in the vocabulary")
    return [(first, second) for first, second in merges]


def check(stored: Stored, where: str) -> None:
    """Refuse pieces that are empty, stand twice or lack the reserved ones, and merges of pieces that are not there."""
    reserved = [*SPECIAL_TOKENS, *(BYTES if stored.bytes else ())]
    if not all(stored.pieces):
        raise VitrailError(f"{where}: pieces must be a list of texts that are not empty")
    if list(stored.pieces[: len(reserved)]) != reserved:
        raise VitrailError(f"{where}: the first {len(reserved)} pieces must be {reserved[0]} to {reserved[-1]}")
    known = set(stored.pieces)
    if len(known) != len(stored.pieces):
        raise VitrailError(f"{where}: a piece stands there twice")
    for pair in stored.merges:
        if not known.issuperset(pair) or "".join(pair) not in known:
            raise VitrailError(f"{where}: the merge {list(pair)!r:.100} is not of pieces in the vocabulary")


def kind(part: Any) -> str:
    """The type of a part of a file, and of the parts of a sequence, for a message."""
    if not isinstance(part, dict):
        return json.dumps(part)[:100]
    inner: Iterable[Any] = next(
        (value for key, value in part.items() if isinstance(value, list) and part.get("type") == "Sequence"), ()
    )
    names = ", ".join(str(one.get("type")) for one in inner if isinstance(one, dict))
    return f"{part.get('type')}{f' ({names})' if names else ''}"[:200]
