"""The sections of a classifier's explanation: image by image what the prediction rests on, then how the model is made inside."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from vitrail.explain.figures.similarity import draw_similarity
from vitrail.explain.methods import METHODS
from vitrail.explain.positions import Similarity
from vitrail.rendering import to_svg
from vitrail.report.images import share_scale
from vitrail.report.page import Content, Section, templates_of
from vitrail.report.parts import Bullets, Scale
from vitrail.tasks.classify.explain_card import Card, Scales, draw_files, show_card, show_thumbnail
from vitrail.tasks.classify.explain_image import Choice, describe_heads, describe_query
from vitrail.tasks.classify.report_interior import (
    Interior,
    describe_missing,
    interior_figures,
    show_interior,
    show_positions,
)

FEW = 3  # up to so many images need no table of contents


@dataclass(frozen=True, kw_only=True)
class About:
    """What the page tells beside its images."""

    count: int  # images that were found, shown or not
    choice: Choice
    class_token: bool
    cropped: bool  # whether the model did not see all of every image
    scales: Scales
    interior: Interior
    positions: Similarity | str
    missing: Mapping[str, str]
    unread: list[str]  # what could not be read, a line each; an image that goes while the page is made is added
    together: int = 0  # images whose colors mean the same


def show_explanation(about: About, cards: Iterable[Card]) -> Iterator[Section]:
    """`cards` are asked for one at a time, drawn and let go."""
    shown, small = list[Content](), list[Content]()
    for card in cards:
        files = draw_files(card)
        shown.append(show_card(card, {name.partition(".")[0]: f"{card.folder}/{name}" for name in files}))
        small.append(show_thumbnail(card))
        yield Section("", files={f"{card.folder}/{name}": content for name, content in files.items()})
    gallery = [templates_of(__file__).render("thumbnails.html", thumbnails=small)] if len(shown) > FEW else []
    unread = [Bullets(about.unread, "unread")] if about.unread else []
    yield Section("Images", [*gallery, *unread, show_legends(about), *shown], note=describe_maps(about, len(shown)))
    drawn = {name: to_svg(draw()) for name, draw in interior_figures(about.interior).items()}
    files = {f"model/{name}.svg": svg for name, svg in drawn.items()}
    if not isinstance(about.positions, str):
        files["model/positions.svg"] = to_svg(draw_similarity(about.positions))
    yield Section("", files=files)
    yield show_interior(about.interior, drawn)
    yield show_positions(about.positions)


def describe_count(about: About, shown: int) -> str:
    """How many images are shown, and by which method."""
    some = f"{shown} image{'s' * (shown != 1)}"
    if shown + len(about.unread) < about.count:
        some = f"{shown} of {about.count} images"
    return f"{some}, explained by {about.choice.method}"


def show_legends(about: About) -> Markup:
    choice, scales = about.choice, about.scales
    rows: list[tuple[str, str, Scale]] = [(choice.method, METHODS[choice.method].words, share_scale(scales.shares))]
    if choice.attention:
        who = "what the class token reads" if about.class_token else "what patches receive, mean over all queries"
        how = f"each head of layer {choice.layer}" if choice.each_head else describe_heads(choice)
        query = "" if choice.query is None else f"; and what {describe_query(choice)} which is framed, reads"
        rows.append(("attention", f"{who}, {how}{query}", share_scale(scales.attention)))
    return templates_of(__file__).render("legends.html", legends=rows)


def describe_maps(about: About, shown: int) -> str:
    """What one must know to read the images."""
    lines = ["Maps are interpolated between patches, and every map of a kind, on every image, is on the same scale."]
    if shown + len(about.unread) < about.count:
        lines.insert(0, f"{shown} of {about.count} images, evenly chosen; --limit shows more.")
    if about.unread:
        lines.insert(
            0,
            f"{len(about.unread)} could not be read and {'is' if len(about.unread) == 1 else 'are'} listed below.",
        )
    if about.cropped:
        lines.append("Darkened: what the model did not see, since it is given the middle of an image.")
    if about.together:
        lines.append(
            "Tokens as colors: their first three principal components as red, green and blue; what the model takes for alike "
            f"has like colors{', also across images' if about.together > 1 else ''}"
            f"{f' (those of {about.together} in a row)' if 1 < about.together < shown else ''}."
        )
    return " ".join([*lines, describe_missing(about.missing)]).strip()
