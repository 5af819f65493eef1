"""`vitrail explain` on a run that reads text, whatever its task: which words each word of a sentence attends to."""

from pathlib import Path
from typing import Any

from vitrail.data.examples import spread
from vitrail.errors import VitrailError
from vitrail.explain.figures.words import check_query
from vitrail.explain.files import Done, Progress, check_out
from vitrail.explain.words import NAMES, WordLook, to_words, word_look
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.report.explained_sentences import Choice, ExplainedSentence, explain_sentence, write_figures, write_sentences
from vitrail.special_tokens import END, SPECIAL_TOKENS


def explain_sentences(
    run: str,
    sentences: list[str],
    *,
    out: str,
    limit: int,
    layer: int | None = None,
    head: int | None = None,
    word: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Done:
    """index.html and its figures in a new folder. A sentence that the model cannot read is named, and the others are shown. Without a
    layer, head (None beside a layer: their mean) or word, rules choose them."""
    choice, folder = Choice(layer, head, word), check_out(out)
    model = load(run).eval()
    chosen = [sentences[number] for number in spread(len(sentences), limit)]
    looks: list[tuple[str, WordLook]] = []
    errors: list[str] = []
    for number, sentence in enumerate(chosen):
        try:
            look = to_words(word_look(model, sentence))
            check_choice_fits(look, choice)
            looks.append((sentence, look))
        except VitrailError as error:
            errors.append(f'"{sentence[:40]}": {error}')
        progress(number + 1, 2 * len(chosen))
    if not looks:
        raise VitrailError(
            f"no sentence could be explained; {errors[0]}" + (f" and {len(errors) - 1} more" if errors[1:] else "")
        )
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for number, (sentence, look) in enumerate(looks):
        figures, files = write_figures(explain_sentence(look, choice), folder, number)
        shown.append(ExplainedSentence(text=sentence, written=written_text(look), figures=figures, files=files))
        progress(len(chosen) + number + 1, 2 * len(chosen))
    page = write_sentences(
        f"{Path(run).name or run}: what it makes of sentences",
        describe_model(model, looks[0][1]),
        shown,
        unread=errors,
        note=describe(len(looks), len(chosen), len(sentences)),
        out=folder,
    )
    return Done(
        page=page, pictures=len(looks), found=len(sentences), method="attention", errors=tuple(errors), what="sentences"
    )


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


def describe_model(model: Any, look: WordLook) -> dict[str, str]:
    facts = {
        "Model": f"{model.architecture}, {count_parameters(model):,} parameters",
        "Vocabulary": f"{model.vocabulary:,} pieces of words",
    }
    for kind, weights in look.weights.items():
        layers, heads = weights.shape[:2]
        facts[NAMES[kind].capitalize()] = f"{layers} layer{'s' * (layers != 1)} of {heads} head{'s' * (heads != 1)}"
    return facts


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
