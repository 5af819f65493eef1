"""A hook of mkdocs: every page of docs/decisions is in the navigation, the newest first, without being written into mkdocs.yml."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Fill the list that stands under the name Decisions."""
    folder = Path(config["docs_dir"]) / "decisions"
    pages = [f"decisions/{path.name}" for path in sorted(folder.glob("*.md"), reverse=True)]
    sections = (
        entry for group in config["nav"] for entries in group.values() if isinstance(entries, list) for entry in entries
    )
    for section in sections:
        if "Decisions" in section:
            section["Decisions"] = pages
    return config
