"""Which engine was the fastest, remembered between processes: engines.json in the user's cache folder.

It is only a memory: whatever is wrong with the file, it is taken as empty and written anew.
"""

import hashlib
import json
import os
import platform
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vitrail.files import write_whole

FORMAT = 1
FILE = "engines.json"
MOST = 500  # choices; the oldest go first
_WRITING = threading.Lock()


def cache_folder() -> Path:
    """$VITRAIL_CACHE, or vitrail/ in $XDG_CACHE_HOME, or in ~/.cache."""
    if own := os.environ.get("VITRAIL_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "vitrail"


def fingerprint(what: Mapping[str, Any]) -> str:
    """A short name for a record of JSON values."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]


def processor() -> str:
    """The processor's name as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def recall(key: str) -> dict[str, Any] | None:
    """What was remembered under a key."""
    found = read_choices().get(key)
    return found if isinstance(found, dict) else None


def remember(key: str, choice: Mapping[str, Any]) -> None:
    """Of two processes that write at once one may lose its choice, which is then measured again. A folder that cannot be written is no
    reason to fail."""
    folder = cache_folder()
    with _WRITING, suppress(OSError):
        choices = read_choices()
        choices.pop(key, None)
        choices[key] = dict(choice)
        newest = dict(list(choices.items())[-MOST:])
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FILE, json.dumps({"format": FORMAT, "choices": newest}, indent=1) + "\n")


def read_choices() -> dict[str, Any]:
    try:
        stored = json.loads((cache_folder() / FILE).read_text())
        return dict(stored["choices"]) if stored["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
