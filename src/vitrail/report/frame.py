"""What every page says, whatever its task: title, headline, numbers, details, curves of training, commands, options."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.files import write_whole
from vitrail.report.page import Section, render_page, templates_of
from vitrail.report.parts import Definitions, Drawing, spell_options


@dataclass(frozen=True, kw_only=True)
class Frame:
    """All of it is words already, but for the rows of results.csv and the options of config.yaml."""

    title: str
    headline: str
    certainty: str = ""  # how sure the headline is
    verdict: str = ""  # what it means
    numbers: Mapping[str, str] = field(default_factory=dict)  # the metrics, by title
    details: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[Mapping[str, float | int]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)  # what it does -> a line for the shell, or lines of Python
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_page(path: Path, frame: Frame, sections: Iterable[Section] = ()) -> None:
    """Write the page: sections behind the curves of training, or before them. Whoever reads `path` meanwhile sees the old page or the new
    one, never a part."""
    macros, own = templates_of(__file__).macros("frame.html"), list(sections)
    shown = [section for section in own if section.first]
    shown += [Section("Training", [macros.curves(draw_panels(frame.rows))])] if frame.rows else []
    shown += [section for section in own if not section.first]
    shown += [Section("What next", [macros.commands(frame.commands)])] if frame.commands else []
    if frame.configuration:
        shown.append(Section("Options", [Definitions(spell_options(frame.configuration), "options")]))
    write_whole(path, render_page(macros.header(frame), frame.title, shown))


def draw_panels(rows: Sequence[Mapping[str, float | int]]) -> list[Drawing]:
    """Of the rows of results.csv."""
    from vitrail.report.figures import draw_curves, to_svg  # here: it imports matplotlib

    return [
        Drawing(to_svg(draw_curves(rows, panels=("loss",))), "training and validation loss over the epochs"),
        Drawing(to_svg(draw_curves(rows, panels=("score",))), "validation score over the epochs"),
        Drawing(to_svg(draw_curves(rows, panels=("rate",))), "learning rate over the epochs"),
    ]
