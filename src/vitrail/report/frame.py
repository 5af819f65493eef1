"""What the report of every run says, whatever its task: title, headline, numbers, details, curves, commands, options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.files import write_whole
from vitrail.report.page import Markup, contents, page
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options


@dataclass(frozen=True, kw_only=True)
class Frame:
    """All of it is words already, but for the rows of results.csv and the options of config.yaml."""

    title: str
    headline: str
    certainty: str = ""  # how sure the headline is
    numbers: Mapping[str, str] = field(default_factory=dict)  # the metrics, by title
    details: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[Mapping[str, float | int]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_framed(
    path: Path, frame: Frame, sections: Sequence[Markup] = (), *, first: Sequence[Markup] = (), parts: Sequence[str] = ()
) -> None:
    """Write the page: `sections` behind the curves of training, those of `first` before them; `parts`: see `page`. Whoever reads `path`
    meanwhile sees the old page or the new one, never a part."""
    header = show_header(frame.title, frame.headline, interval=frame.certainty, numbers=frame.numbers, facts=frame.details)
    shown = [*first, *([show_curves(frame.rows)] if frame.rows else []), *sections]
    shown += [show_commands(frame.commands)] if frame.commands else []
    shown += [show_options(frame.configuration)] if frame.configuration else []
    write_whole(path, page(frame.title, header, contents(shown), *shown, parts=parts))
