"""Files of a repository on the Hugging Face hub, in its cache: only those that were asked for, and which commit they are of.

A hub that does not answer costs five seconds. What it sends is compared with the hashes that it lists before anybody parses it. A commit that
is in the cache is read without a question.
"""

import contextlib
import errno
import hashlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from vitrail.errors import VitrailError
from vitrail.models.pretrained import COMMIT, digest

T = TypeVar("T")
ANSWER = 5.0  # seconds in which a hub answers all that is asked before a download, or counts as out of reach
RECENT = 60.0  # seconds for which an answer holds, and the lack of one
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
COMPANIONS = (
    "config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "README.md",
)  # small files without which weights say too little
SHA256 = re.compile(r"[0-9a-f]{64}")
BUSY = (408, 429)  # answers of a hub that say as little of a repository as an error of its own
NO_NETWORK: ContextVar[bool] = ContextVar("no_network", default=False)


class NoAnswerError(VitrailError):
    """The hub is out of reach. `reason` says so in a few words, the message with details."""

    def __init__(self, repository: str, details: str) -> None:
        super().__init__(f'"{repository}": {details}')
        self.reason = details.partition(" (")[0]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the hub lists it."""

    size: int
    sha256: str | None  # of large files
    blob: str  # what git calls its content


@dataclass(frozen=True, slots=True)
class Listing:
    """What a hub says of a repository."""

    commit: str
    files: Mapping[str, RemoteFile]
    license: str | None
    gated: bool


ANSWERS: dict[tuple[str, str, str | None], tuple[float, Listing | str]] = {}  # of the last minute; text: why there is none


def is_hub_id(words: str) -> bool:
    """Whether words look like `owner/name` or `owner/name@revision`, and not like a path."""
    parts = words.partition("@")[0].split("/")
    return len(parts) == 2 and all(parts) and not parts[0].startswith((".", "~")) and parts[0] != "runs"


def split_hub_id(words: str) -> tuple[str, str | None]:
    """The repository, and the revision after an @ (a branch, a tag or a commit)."""
    repository, _, revision = words.partition("@")
    return repository, revision or None


def commit_of(folder: Path) -> str | None:
    """The commit that a folder of the cache is: snapshots/COMMIT."""
    return folder.name if folder.parent.name == "snapshots" and COMMIT.fullmatch(folder.name) else None


# ------------------------------------------------------------------------------------------------------------------ without a network


@contextlib.contextmanager
def without_network(wanted: bool = True) -> Iterator[None]:
    """Within the block no server is asked: what the cache has is all there is."""
    token = NO_NETWORK.set(wanted or NO_NETWORK.get())
    try:
        yield
    finally:
        NO_NETWORK.reset(token)


def is_offline() -> bool:
    """Whether nobody may be asked: --offline, a run that is continued, or HF_HUB_OFFLINE."""
    from huggingface_hub import constants

    return NO_NETWORK.get() or bool(constants.HF_HUB_OFFLINE)


def host() -> str:
    """The hub that would be asked, for people."""
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).netloc


# ---------------------------------------------------------------------------------------------------------------------------- download


def download(repository: str, patterns: Sequence[str], *, revision: str | None = None) -> Path:
    """The folder in the hub's cache with the repository's files of these names, and no others."""
    if revision is not None and (".." in revision or revision.startswith("/")):  # it is part of a path in the cache
        raise VitrailError(f'"{repository}": {revision} is no revision: a branch, a tag or a commit')
    if is_offline():
        return read_cache(repository, patterns, revision)
    pinned = revision is not None and COMMIT.fullmatch(revision) is not None
    if pinned and (folder := find_cached(repository, patterns, revision)) is not None:
        return folder
    patterns = [*patterns, *COMPANIONS]
    try:
        listing = ask(repository, revision)
    except NoAnswerError:
        if (folder := find_cached(repository, patterns, revision)) is None:
            raise
        return folder  # as huggingface_hub does: what a branch was when it was last seen
    names = [name for name in listing.files if any(fnmatch(name, pattern) for pattern in patterns)]
    folder = cache_folder(repository) / "snapshots" / listing.commit
    for name in sorted(names, key=is_weights):  # weights last: where they are, nothing is missing
        fetch(repository, name, listing)
    remember(repository, revision, listing.commit)
    return folder


def read_cache(repository: str, patterns: Sequence[str], revision: str | None) -> Path:
    """What the cache has of it, or one line."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    chosen: dict[str, Any] = {} if revision is None else {"revision": revision}
    if NO_NETWORK.get():
        chosen["local_files_only"] = True
    try:
        folder = Path(snapshot_download(repository, allow_patterns=list(patterns), **chosen))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        reason = "not in the local cache, and no server is asked" if NO_NETWORK.get() else first_line(error)
        raise VitrailError(
            f'"{repository}": no such file or folder, and not to be had from the hub either ({reason})'
        ) from None
    check_blobs(folder, patterns)
    return folder


def find_cached(repository: str, patterns: Sequence[str], revision: str | None) -> Path | None:
    """The folder of a revision in the cache; None where it is not there, or not whole, or damaged."""
    with without_network():
        try:
            folder = read_cache(repository, patterns, revision)
        except VitrailError:
            return None
    return folder if is_whole(folder, patterns) else None


def is_whole(folder: Path, patterns: Sequence[str]) -> bool:
    """Whether a folder has weights, of an index all that it names; or those of another name that are asked for, as an adapter's."""
    named = [name for name in patterns if is_weights(name) and "*" not in name]
    if any((folder / name).is_file() for name in (named if named and not {*named} & {*WEIGHTS} else WEIGHTS)):
        return True
    for path in folder.glob("*.index.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return all((folder / name).is_file() for name in set(json.loads(path.read_text())["weight_map"].values()))
    return False


def is_weights(name: str) -> bool:
    return name.endswith((".safetensors", ".bin"))


def fetch(repository: str, name: str, listing: Listing) -> Path:
    """One file of a commit, in the cache, with the hash that the hub lists of it; one that has another is removed."""
    from huggingface_hub import constants, hf_hub_download

    remote, signs = listing.files[name], Signs(f"{repository}: {name}", listing.files[name].size)
    blobs = cache_folder(repository) / "blobs"
    patience = ANSWER + 2.0 * constants.HF_HUB_DOWNLOAD_TIMEOUT  # the client tries again after one of them
    what = f'"{repository}": the download of {name}'
    cure = "run the command again, or go without it: --pretrained none"
    signs.grown = lambda: sum(path.stat().st_size for path in blobs.glob("*.incomplete")) if blobs.is_dir() else 0

    def work() -> str:
        return hf_hub_download(repository, name, revision=listing.commit, etag_timeout=ANSWER, tqdm_class=signs.bar())

    try:
        path = Path(in_background(work, patience=patience, alive=signs.alive))
    except TimeoutError:
        raise VitrailError(f"{what} stopped: no byte from {host()} for {patience:g} s; {cure}") from None
    except OSError as error:
        if is_permission(error):
            place = getattr(error, "filename", None) or constants.HF_HUB_CACHE
            raise VitrailError(
                f"{place}: no permission to write the cache of the hub ({error.strerror}); set HF_HOME to a folder of yours"
            ) from None
        raise VitrailError(f"{what} broke off ({first_line(error)}); {cure}") from None
    except Exception as error:  # whatever the client's client raises
        raise VitrailError(f"{what} broke off ({first_line(error)}); {cure}") from None
    found, expected = digest_as(path, remote)
    if found != expected:
        remove_blob(path)
        raise DamagedFileError(f"{what} has SHA-256 {found[:16]} instead of {expected[:16]}, and was removed; {cure}")
    return path


class DamagedFileError(VitrailError):
    """A file that is not what the hub lists."""


def digest_as(path: Path, remote: RemoteFile) -> tuple[str, str]:
    """The hash of a file, and the one listed: SHA-256 of a large one, of a small one git's."""
    if remote.sha256 is not None:
        return digest(path), remote.sha256
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest(), remote.blob


def check_blobs(folder: Path, patterns: Sequence[str]) -> None:
    """Large files in the cache are named by their SHA-256: one that has another is removed, whoever downloaded it."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        blob = path.resolve()
        if (
            path.is_symlink()
            and SHA256.fullmatch(blob.name)
            and any(fnmatch(path.name, one) for one in patterns)
            and blob.is_file()
        ):
            found = digest(blob)
            if found != blob.name:
                remove_blob(path)
                raise DamagedFileError(
                    f"{path}: SHA-256 {found[:16]} instead of {blob.name[:16]}; the file was removed, and has to be downloaded again"
                )


def remove_blob(path: Path) -> None:
    """A file of the cache and what it is a link to, if that is in the cache too."""
    blob, blobs = path.resolve(), path.parents[2] / "blobs"
    try:
        path.unlink(missing_ok=True)
        if blob.parent == blobs.resolve():
            blob.unlink(missing_ok=True)
    except OSError as error:
        raise DamagedFileError(
            f"{path}: is damaged, and cannot be removed ({error.strerror}); set HF_HOME to a folder of yours"
        ) from None


def remember(repository: str, revision: str | None, commit: str) -> None:
    """Which commit a branch was, for when there is no network; best effort, as the cache may be read-only."""
    name = revision or "main"
    if COMMIT.fullmatch(name):
        return
    with contextlib.suppress(OSError):
        path = cache_folder(repository) / "refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)


def cache_folder(repository: str) -> Path:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(repo_id=repository, repo_type="model")


# --------------------------------------------------------------------------------------------------------------------------- questions


def ask(repository: str, revision: str | None = None, *, seconds: float = ANSWER) -> Listing:
    """The commit of a revision and its files. All of it takes `seconds` at most, also of a server that accepts and stays silent."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    key, now = (constants.ENDPOINT, repository, revision), time.monotonic()
    for (endpoint, *_), (when, answer) in ANSWERS.items():
        if endpoint == key[0] and isinstance(answer, str) and now - when < RECENT:
            raise NoAnswerError(repository, answer)
    if key in ANSWERS and now - ANSWERS[key][0] < RECENT and isinstance(found := ANSWERS[key][1], Listing):
        return found
    try:
        listing = in_background(lambda: list_files(repository, revision, seconds), patience=seconds)
    except (HfHubHTTPError, HFValidationError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403):
            raise VitrailError(
                f'"{repository}": {host()} gives it to nobody unknown: accept its terms at {constants.ENDPOINT}/{repository}, then `hf auth login`'
            ) from None
        if status not in BUSY and (status is None or status < 500):
            raise VitrailError(
                f'"{repository}": no such file or folder, and not to be had from the hub either ({first_line(error)})'
            ) from None
        reason = f"{host()} is out of order ({first_line(error)})"
    except TimeoutError:
        reason = f"{host()} did not answer within {seconds:g} s"
    except Exception as error:  # no network, no name, a proxy: whatever the client's client raises
        reason = f"{host()} is out of reach ({first_line(error)})"
    else:
        ANSWERS[key] = (time.monotonic(), listing)
        return listing
    ANSWERS[key] = (time.monotonic(), reason)
    raise NoAnswerError(repository, reason)


def list_files(repository: str, revision: str | None, seconds: float) -> Listing:
    from huggingface_hub import HfApi, RepoFile

    api = HfApi()
    about = api.model_info(repository, revision=revision, timeout=seconds)
    if COMMIT.fullmatch(about.sha or "") is None:  # it is the name of a folder in the cache
        raise ValueError(f"no commit: {about.sha!r}")
    files = {
        one.path: RemoteFile(one.size, None if one.lfs is None else one.lfs.sha256, one.blob_id)
        for one in api.list_repo_tree(repository, revision=about.sha, recursive=False)
        if isinstance(one, RepoFile) and "/" not in one.path
    }
    licenses = [tag.removeprefix("license:") for tag in about.tags or () if tag.startswith("license:")]
    assert about.sha is not None
    return Listing(about.sha, files, licenses[0] if licenses else None, bool(about.gated))


def in_background(work: Callable[[], T], *, patience: float, alive: Callable[[], float] | None = None) -> T:
    """What `work` returns. It is left alone, to end by itself, after `patience` seconds without a sign of life: a TimeoutError.

    `alive` gives the time of the last sign; without it there is none.
    """
    result: list[T] = []
    failure: list[BaseException] = []
    started = time.monotonic()

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:  # which is raised where it is waited for
            failure.append(error)

    remarks = logging.getLogger("huggingface_hub")
    level = remarks.level
    remarks.setLevel(logging.CRITICAL)  # each failure is one line, ours
    try:
        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        while thread.is_alive():
            last = max(started, alive() if alive is not None else started)
            left = last + patience - time.monotonic()
            if left <= 0:
                raise TimeoutError
            thread.join(min(left, 0.2))
    finally:
        remarks.setLevel(level)
    if failure:
        raise failure[0]
    return result[0]


class Signs:
    """Signs of life of a download: bytes that its progress bar hears of, or that lie in the cache. In a log a quarter is a line."""

    def __init__(self, what: str, size: int) -> None:
        self.what, self.size, self.done, self.last, self.reported = what, size, 0, time.monotonic(), -1
        self.grown: Callable[[], int] = lambda: 0
        self.seen = 0

    def alive(self) -> float:
        size = self.grown()
        if size != self.seen:
            self.seen, self.last = size, time.monotonic()
        return self.last

    def add(self, count: float) -> None:
        self.done, self.last = self.done + int(count), time.monotonic()
        quarter = 4 * min(self.done, self.size) // max(1, self.size)
        if quarter > self.reported and not sys.stderr.isatty():
            self.reported = quarter
            print(f"downloading {self.what}, {self.size / 1e6:.1f} MB: {25 * quarter} %", file=sys.stderr, flush=True)

    def bar(self) -> Any:
        """The client's bar on a terminal, which counts here too."""
        from huggingface_hub.utils.tqdm import tqdm

        signs = self

        class Bar(tqdm):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, "disable": None})  # type: ignore[no-untyped-call]

            def update(self, n: float | None = 1) -> Any:
                signs.add(n or 0)
                return super().update(n)

        return Bar


def is_permission(error: OSError) -> bool:
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
