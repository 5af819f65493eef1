"""index.html of `vitrail explain` for a model of words: sentence by sentence what each word attends to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from vitrail.explain.alignment import aligning_layer, alignment
from vitrail.explain.figures.alignment import draw_alignment
from vitrail.explain.figures.words import check_query, draw_reading, draw_word_heads, draw_words
from vitrail.explain.pronouns import find_query
from vitrail.explain.words import NAMES, Kind, WordLook
from vitrail.files import write_whole
from vitrail.rendering import shorten, to_svg
from vitrail.report.page import Markup, contents, drawing, element, page, section
from vitrail.report.run_parts import show_header
from vitrail.report.words import clearest_head

PAGE = "index.html"


class Choice(NamedTuple):
    """What to show; None: what a rule chooses, which the page names."""

    layer: int | None = None
    head: int | None = None
    word: int | None = None


class Drawn(NamedTuple):
    """A figure: the name of its file, and what it shows."""

    name: str
    about: str
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class ExplainedSentence:
    """A sentence, what the model wrote, and its figures, drawn."""

    text: str
    written: str | None
    figures: Mapping[str, str]  # what it shows -> SVG
    files: Mapping[str, str]  # what it shows -> its file below the page


def explain_sentence(look: WordLook, choice: Choice) -> Iterator[Drawn]:
    """The figures of a look of words: the alignment, then each self-attention."""
    if "cross" in look.weights:
        layer = aligning_layer([look], choice.head) if choice.layer is None else choice.layer
        why = (
            ", the layer that tells most of which word is written"
            if choice.layer is None and len(look.every("cross")) > 1
            else ""
        )
        weights = alignment(look, layer, choice.head)
        about = f"Alignment: {NAMES['cross']}, {spell(look, 'cross', layer, choice.head)}{why}"
        yield Drawn("alignment", about, draw_alignment(weights, look.source.words, look.written.words))
        if look.every("cross").shape[0] * look.every("cross").shape[1] > 1:
            heads = draw_word_heads(look.every("cross"), first="words written", second="words of the source")
            yield Drawn("alignment_heads", "Alignment of every layer and head", heads)
    for kind in ("encoder", "decoder"):
        if kind in look.weights:
            yield from explain_self_attention(look, kind, choice)


def explain_self_attention(look: WordLook, kind: Kind, choice: Choice) -> Iterator[Drawn]:
    """One word over the text, all words as lines, all heads. The word is one of the sentence that was given, or the first rule's."""
    words, weights = look.queries(kind).words, look.every(kind)
    asked = choice.word is not None and (kind == "encoder" or "encoder" not in look.weights)
    if asked:
        check_query(choice.word, words)
    query = choice.word if asked and choice.word is not None else find_query(words)
    layer, head = choice.layer, choice.head
    why = ""
    if layer is None:
        layer, clearest = clearest_head(weights if head is None else weights[:, [head]], query)
        head = clearest if head is None else head
        why = ", where it looks most at another word"
    chosen = look.of(kind, layer, head)
    where = f"{NAMES[kind]}, {spell(look, kind, layer, head)}"
    yield Drawn(f"{kind}_word", f"What “{words[query]}” attends to: {where}{why}", draw_reading(chosen, words, query=query))
    yield Drawn(f"{kind}_lines", f"What every word attends to: {where}", draw_words(chosen, words, words))
    frame = (layer % len(weights), None if head is None else head % weights.shape[1])
    yield Drawn(f"{kind}_heads", f"Every layer and head: {NAMES[kind]}", draw_word_heads(weights, chosen=frame))


def spell(look: WordLook, kind: Kind, layer: int, head: int | None) -> str:
    layers, heads = look.every(kind).shape[:2]
    if layers * heads == 1:
        return "its only layer"
    return f"layer {layer % layers}, {'mean over the heads' if head is None else f'head {head % heads}'}"


def write_figures(drawn: Iterator[Drawn], out: Path, number: int) -> tuple[dict[str, str], dict[str, str]]:
    """As SVG files in a folder of the sentence; (SVG, file) by what they show."""
    folder = f"sentence_{number}"
    (out / folder).mkdir()
    figures, files = dict[str, str](), dict[str, str]()
    for name, about, figure in drawn:
        figures[about], files[about] = to_svg(figure), f"{folder}/{name}.svg"
        write_whole(out / files[about], figures[about])
    return figures, files


def write_sentences(
    title: str, facts: Mapping[str, str], sentences: Sequence[ExplainedSentence], *, unread: Sequence[str], note: str, out: Path
) -> Path:
    """The page."""
    count = f"{len(sentences)} sentence{'s' * (len(sentences) != 1)}, explained by attention"
    header = show_header(title, count, interval="", numbers={}, facts=facts)
    lines = [element("ul", *(element("li", line) for line in unread), class_="unread")] if unread else []
    sections = [section("Sentences", *lines, *map(show_sentence, sentences), note=note)]
    write_whole(out / PAGE, page(title, header, contents(sections), *sections))
    return out / PAGE


def show_sentence(sentence: ExplainedSentence) -> Markup:
    written = [] if sentence.written is None else [element("p", element("bdi", f"→ {sentence.written}"))]
    figures = (
        element(
            "div",
            element("h4", about, element("a", "file", href=sentence.files[about])),
            drawing(svg, about),
            class_="insight",
        )
        for about, svg in sentence.figures.items()
    )
    title = element("h3", element("bdi", shorten(sentence.text, 200)))
    return element("article", title, *written, element("div", *figures, class_="insights"), class_="card explained")
