"""Files of a repository on the Hugging Face hub, in its cache: only those that were asked for, and which commit they are of."""

import re
from collections.abc import Sequence
from pathlib import Path

from vitrail.errors import VitrailError

COMMIT = re.compile(r"[0-9a-f]{40}")


def is_hub_id(words: str) -> bool:
    """Whether words look like `owner/name` or `owner/name@revision`, and not like a path."""
    parts = words.partition("@")[0].split("/")
    return len(parts) == 2 and all(parts) and not parts[0].startswith((".", "~")) and parts[0] != "runs"


def split_hub_id(words: str) -> tuple[str, str | None]:
    """The repository, and the revision after an @ (a branch, a tag or a commit)."""
    repository, _, revision = words.partition("@")
    return repository, revision or None


def download(repository: str, patterns: Sequence[str], *, revision: str | None = None) -> Path:
    """The folder in the hub's cache with the repository's files of these names, and no others."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    chosen = {} if revision is None else {"revision": revision}
    try:
        return Path(snapshot_download(repository, allow_patterns=list(patterns), **chosen))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise VitrailError(
            f'"{repository}": no such file or folder, and not to be had from the hub either ({reason})'
        ) from None


def commit_of(folder: Path) -> str | None:
    """The commit that a folder of the cache is: snapshots/COMMIT."""
    return folder.name if folder.parent.name == "snapshots" and COMMIT.fullmatch(folder.name) else None
