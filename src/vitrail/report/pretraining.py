"""report.html of a model that learned without labels: its curves, what it does, what to do with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.files import write_whole
from vitrail.report.page import Markup, contents, page
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options


@dataclass(frozen=True, kw_only=True)
class PretrainingReport:
    """What the report shows of a run. `numbers` and `facts` are words already, `sections` the method's own."""

    title: str
    headline: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    history: Sequence[Mapping[str, float | int]] = ()
    sections: Sequence[Markup] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_pretraining_report(report: PretrainingReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    header = show_header(report.title, report.headline, interval="", numbers=report.numbers, facts=report.facts)
    sections = [*([show_curves(report.history)] if report.history else []), *report.sections]
    sections += [show_commands(report.commands)] if report.commands else []
    sections += [show_options(report.configuration)] if report.configuration else []
    write_whole(path, page(report.title, header, contents(sections), *sections))
