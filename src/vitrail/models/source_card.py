"""Where imported weights come from, on a model's card."""

from collections.abc import Iterable, Mapping
from typing import Any

from vitrail.models.markdown import literal, plain


def describe_source(provenance: Mapping[str, Any] | None) -> Iterable[str]:
    """The name that was given, whose weights they are, which files they were, and what was changed."""
    if not provenance:
        return
    yield "## Where its weights come from"
    revision = provenance.get("revision")
    lines = [f"- {literal(provenance.get('given', ''))}, read as {plain(provenance.get('origin', 'unknown'))}"]
    if revision:
        lines.append(f"- Revision {literal(revision)}")
    files = provenance.get("sha256")
    if isinstance(files, Mapping):
        lines += [f"- SHA-256 of {literal(name)}: {literal(digest)}" for name, digest in files.items()]
    changes = provenance.get("adapted")
    if isinstance(changes, list):
        lines += [f"- Adapted: {plain(line)}" for line in changes]
    yield "\n".join(lines)
