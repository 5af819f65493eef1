"""report.html of a language model: how surprising the text is, the curves, what the run was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitrail.files import write_whole
from vitrail.report.page import contents, page
from vitrail.report.run_parts import show_commands, show_curves, show_header, show_options

WORDS: Mapping[str, str] = {
    "loss": "nats a token", "bits_per_byte": "bits a byte", "word_accuracy": "likeliest token right",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LanguageReport:
    """What the report shows of a run."""

    title: str
    headline: str
    metrics: Mapping[str, float]
    facts: Mapping[str, str]
    rows: Sequence[Mapping[str, float | int]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, object] = field(default_factory=dict)


def write_language_report(report: LanguageReport, path: Path) -> None:
    """Write the page. Whoever reads `path` meanwhile sees the old page or the new one, never a part."""
    numbers = {words: f"{report.metrics[name]:.4g}" for name, words in WORDS.items() if name in report.metrics}
    header = show_header(report.title, report.headline, interval="", numbers=numbers, facts=report.facts)
    sections = [show_curves(report.rows)] if report.rows else []
    sections += [show_commands(report.commands)] if report.commands else []
    sections += [show_options(report.configuration)] if report.configuration else []
    write_whole(path, page(report.title, header, contents(sections), *sections))
