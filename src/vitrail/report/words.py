"""The sections of a report that show what a model of words attends to: alignments, and the word-to-word view."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.alignment import aligning_layer, alignment
from vitrail.explain.figures.alignment import draw_alignment, end_of_scale
from vitrail.explain.figures.similarity import spread
from vitrail.explain.figures.words import draw_reading, draw_word_heads, draw_words
from vitrail.explain.pronouns import find_pronoun, find_query
from vitrail.explain.words import NAMES, to_words, word_look
from vitrail.models.word_model import WordModel
from vitrail.rendering import to_svg
from vitrail.report.page import Section
from vitrail.report.parts import Drawing, Insight, Insights

SHOWN = 3  # sentences whose alignment is drawn
SHORTEST, LONGEST = 4, 16  # words of a source that is drawn: enough to see something, few enough to read


def word_sections(model: WordModel, sources: Sequence[str], hypotheses: Sequence[str]) -> list[Section]:
    """Of a model that translates, its sentences and what it made of them."""
    pairs = [(source, written) for source, written in zip(sources, hypotheses, strict=True) if source.strip()]
    return [show_alignments(model, pairs), show_word_view(model, pairs)] if pairs else []


def show_alignments(model: WordModel, pairs: Sequence[tuple[str, str]]) -> Section:
    """Heat maps of three sentences, evenly chosen from those of a length that can be read; all of the same layer."""
    try:
        looks = [to_words(word_look(model, *pair)) for pair in choose_pairs(pairs)]
        layer = aligning_layer(looks)
    except VitrailError as error:
        return Section("Alignment", note=f"Not shown: {error}.")
    maps = [alignment(look, layer) for look in looks]
    highest = max(map(end_of_scale, maps))
    drawn = [
        Drawing(
            to_svg(draw_alignment(weights, look.source.words, look.written.words, highest=highest)),
            f"alignment of “{' '.join(look.source.words)}”",
        )
        for look, weights in zip(looks, maps, strict=True)
    ]
    depth, heads = looks[0].every("cross").shape[:2]
    how = (
        "the decoder's attention to the source"
        if depth * heads == 1
        else f"layer {layer} of 0 to {depth - 1}, mean over {heads} heads"
    )
    why = "" if depth == 1 else " It is the layer whose attention tells most of which word is being written."
    note = f"Which words of the source, above, the model looked at to write each word, at the left: {how}.{why}"
    return Section("Alignment", [Insights([Insight(one) for one in drawn])], note=note)


def show_word_view(model: WordModel, pairs: Sequence[tuple[str, str]]) -> Section:
    """Self-attention of the encoder in one sentence: a pronoun and what it looks at, if a sentence has one."""
    title = "Word to word"
    try:
        look = to_words(word_look(model, *choose_with_pronoun(pairs)))
        weights = look.every("encoder")
    except VitrailError as error:
        return Section(title, note=f"Not shown: {error}.")
    words = look.source.words
    query = find_query(words[:-1])
    layer, head = clearest_head(weights, query)
    shown = show_self_attention(weights, words, query=query, layer=layer, head=head)
    return Section(title, [shown], note=describe_choice(words, query, layer, head))


def show_self_attention(
    weights: Float[Tensor, "l h n n"], words: Sequence[str], *, query: int, layer: int, head: int | None
) -> Insights:
    """One word over the text, its lines, and all layers and heads."""
    chosen = weights[layer].mean(0) if head is None else weights[layer, head]
    parts = (
        (draw_reading(chosen, words, query=query), f"what “{words[query]}” attends to, over the text"),
        (draw_words(chosen, words, words, query=query), f"what “{words[query]}” attends to, word by word"),
        (draw_word_heads(weights, chosen=(layer, head)), "attention of every layer and head, word by word"),
    )
    return Insights([Insight(Drawing(to_svg(figure), about)) for figure, about in parts])


def describe_choice(words: Sequence[str], query: int, layer: int, head: int) -> str:
    which = f"the pronoun “{words[query]}”" if find_pronoun(words[:-1]) == query else f"“{words[query]}”, the longest word"
    return (
        f"{NAMES['encoder'].capitalize()}: {which}, in layer {layer}, head {head}, the one in which it looks most at another word. "
        "Framed below, among all layers and heads; the same scale for all."
    )


def clearest_head(weights: Float[Tensor, "l h n n"], query: int) -> tuple[int, int]:
    """Layer and head in which the word looks most at one other; <end>, the last, does not count: many heads rest there."""
    rows = weights[:, :, query].clone()
    rows[..., query] = 0
    rows[..., -1] = 0
    best = int(rows.amax(-1).flatten().argmax())
    return best // weights.shape[1], best % weights.shape[1]


def choose_pairs(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Three of those with a source that is neither short nor long, evenly chosen; else the shortest."""
    fit = [pair for pair in pairs if SHORTEST <= len(pair[0].split()) <= LONGEST]
    fit = fit or sorted(pairs, key=lambda pair: len(pair[0].split()))[:SHOWN]
    return [fit[place] for place in spread(len(fit), SHOWN).tolist()]


def choose_with_pronoun(pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The shortest source in which a pronoun may stand for something before it, and that can be read; else the first that is drawn above."""
    fit = [pair for pair in pairs if len(pair[0].split()) <= LONGEST and find_pronoun(pair[0].split()) is not None]
    return min(fit, key=lambda pair: len(pair[0])) if fit else choose_pairs(pairs)[0]
