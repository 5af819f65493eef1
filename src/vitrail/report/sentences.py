"""What each word of a sentence attends to, in any model that reads text: the explanation, sentence by sentence."""

from collections.abc import Iterator
from typing import NamedTuple

from matplotlib.figure import Figure

from vitrail.errors import VitrailError
from vitrail.explain.alignment import aligning_layer, alignment
from vitrail.explain.figures.alignment import draw_alignment
from vitrail.explain.figures.words import check_query, draw_reading, draw_word_heads, draw_words
from vitrail.explain.pronouns import find_query
from vitrail.explain.samples import Samples
from vitrail.explain.words import NAMES, Kind, WordLook, to_words, word_look
from vitrail.models.catalogue import describe_architecture
from vitrail.models.word_model import WordModel
from vitrail.rendering import shorten, to_svg
from vitrail.report.explanation import Explanation, count_words
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Bullets, Drawing, Insight, Insights
from vitrail.report.words import clearest_head
from vitrail.special_tokens import END, SPECIAL_TOKENS


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


def explain_sentences(
    model: WordModel, samples: Samples[str], *, layer: int | None = None, head: int | None = None, word: int | None = None
) -> Explanation:
    """A sentence that the model cannot read is named, and the others are shown. Without a layer, head (None beside a layer: their mean) or
    word, rules choose them."""
    choice = Choice(layer, head, word)

    def look(sentence: str) -> tuple[str, WordLook]:
        found = to_words(word_look(model, sentence))
        check_choice_fits(found, choice)
        return sentence, found

    looks = []
    for sentence, found in samples.each(look, passes=2, fails=VitrailError, name='"{:.40}": '):
        looks.append((sentence, found))
    return Explanation(
        title="what it makes of sentences",
        method="attention",
        details=describe_model(model, looks[0][1]),
        sections=show_sentences(looks, choice, samples),
        headline=lambda: f"{count_words(len(looks), 'sentence')}, explained by attention",
    )


def show_sentences(looks: list[tuple[str, WordLook]], choice: Choice, samples: Samples[str]) -> Iterator[Section]:
    body: list[Content] = [Bullets(samples.errors, "unread")] if samples.errors else []
    for number, (sentence, look) in enumerate(looks):
        drawn = [
            (to_svg(figure), f"sentence_{number}/{name}.svg", about) for name, about, figure in explain_sentence(look, choice)
        ]
        figures = Insights([Insight(Drawing(svg, about), title=about, link=path) for svg, path, about in drawn])
        body.append(
            templates_of(__file__).render(
                "sentence.html", text=shorten(sentence, 200), written=written_text(look), figures=figures
            )
        )
        yield Section("", files={path: svg for svg, path, _ in drawn})
        samples.count()
    yield Section("Sentences", body, note=describe(len(looks), len(samples.chosen), samples.found))


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


def check_choice_fits(look: WordLook, choice: Choice) -> None:
    """Layer, head and word exist in every attention that is drawn."""
    for kind in look.weights:
        look.of(kind, -1 if choice.layer is None else choice.layer, choice.head)
    if choice.word is not None:
        check_query(choice.word, (look.source if "encoder" in look.weights else look.read).words)


def written_text(look: WordLook) -> str | None:
    """What the model added: the translation, or how the text goes on; nothing where it only reads."""
    if look.written.words:
        return " ".join(word for word in look.written.words if word != SPECIAL_TOKENS[END])
    return " ".join(look.read.words[look.given :]) or None if look.read.words else None


def describe_model(model: WordModel, look: WordLook) -> dict[str, str]:
    details = {
        "Model": describe_architecture(model),
        "Vocabulary": f"{model.vocabulary:,} subwords",
    }
    for kind, weights in look.weights.items():
        layers, heads = weights.shape[:2]
        details[NAMES[kind].capitalize()] = f"{layers} layer{'s' * (layers != 1)} of {heads} head{'s' * (heads != 1)}"
    return details


def describe(shown: int, chosen: int, found: int) -> str:
    some = "" if chosen == found else f"{chosen} of {found} sentences, evenly chosen; --limit shows more. "
    failed = (
        ""
        if shown == chosen
        else f"{chosen - shown} could not be explained and {'is' if chosen - shown == 1 else 'are'} listed below. "
    )
    return (
        f"{some}{failed}Pieces of a word are joined: what they look at is averaged, what looks at them is added up. Layers and heads "
        "count from 0; each figure has its own scale, from 0 to the largest share in it."
    )
