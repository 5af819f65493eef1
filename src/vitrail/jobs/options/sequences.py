"""Options of what is written and read piece by piece: words, and pixels as words."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from vitrail.jobs.options.values import Auto, whole

TEXT = Group("Text", help="With --task translate, language and caption.", sort_key=3)
PIXELS = Group("Pixels", help="With `vitrail pretrain --method igpt`, which has --masked and --dropout too.", sort_key=4)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Of translation, language models and captions."""

    source: Annotated[
        str | None, Parameter(group=TEXT, help="Language to translate from, as the files end: de for train.de.")
    ] = None
    target: Annotated[str | None, Parameter(group=TEXT, help="Language to translate to.")] = None
    vocabulary: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Pieces of words to tell apart; auto: by the size of the data.")
    ] = "auto"
    lower: Annotated[bool, Parameter(group=TEXT, help="Write everything in lower case.", negative="")] = False
    bytes: Annotated[
        bool,
        Parameter(
            group=TEXT, help="Spell letters that train does not have by their bytes, 256 of the vocabulary.", negative=""
        ),
    ] = False
    longest: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Tokens of a sentence, at most; longer ones are left out.")
    ] = "auto"
    batch_tokens: Annotated[
        int | Auto, Parameter(converter=whole, group=TEXT, help="Tokens a step, padding included; the recipe's unless given.")
    ] = "auto"
    dropout: Annotated[
        float | Auto, Parameter(group=TEXT, help="Share of the numbers set to 0 in training; the recipe's unless given.")
    ] = "auto"
    merge_dropout: Annotated[
        float | Auto,
        Parameter(
            group=TEXT, help="Share of merges left out, so that words are cut now so, now so; the recipe's unless given."
        ),
    ] = "auto"
    beams: Annotated[
        int, Parameter(converter=whole, group=TEXT, help="Beams of the search that writes the test's answers.")
    ] = 5
    masked: Annotated[
        bool, Parameter(group=TEXT, help="Language, pixels: fill in what is hidden instead of going on.", negative="")
    ] = False


@dataclass(frozen=True, kw_only=True)
class PixelOptions:
    """Of pixels in a row."""

    colors: Annotated[
        int | Auto,
        Parameter(
            converter=whole, group=PIXELS, help="Of the palette, at most; auto: the model's. Fewer if the pictures have fewer."
        ),
    ] = "auto"
