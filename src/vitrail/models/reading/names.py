"""Names out of foreign files: shown in a message without doing harm, and allowed as file names only where they stay in their folder."""

from pathlib import Path

from vitrail.errors import VitrailError

SHOWN = 80  # characters of a name in a message: a hostile one has millions


def quoted(name: object) -> str:
    """A name as a message shows it: short, on one line, and without characters that a terminal would obey."""
    text = name if isinstance(name, str) else repr(name)
    if len(text) > SHOWN:
        text = text[:SHOWN] + "…"
    return '"' + "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text) + '"'


def listed(names: list[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more


def file_in(folder: Path, name: str, *, where: str) -> Path:
    """The file of this name in a folder. A foreign file chose the name: it must be bare, and no link out of the folder."""
    if not name or name in (".", "..") or any(letter in name for letter in "/\\:\0"):
        raise VitrailError(f"{where}: {quoted(name)} must be the bare name of a file in the same folder")
    path = folder / name
    home, target = folder.resolve(), path.resolve()
    homes = [home]
    if home.parent.name == "snapshots":  # in the hub's cache files are links to blobs/, beside snapshots/REVISION/
        homes.append(home.parent.parent / "blobs")
    if target.parent not in homes:
        raise VitrailError(f"{where}: {quoted(name)} is a link to a file outside its folder")
    return path
