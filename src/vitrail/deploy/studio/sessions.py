"""What the studio keeps of each session, in memory alone: images and looks, the least recently used going first."""

import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from vitrail.deploy.studio.studio_error import StudioError

MOST_IMAGES = 24  # of one session
T = TypeVar("T")


@runtime_checkable
class Keepable(Protocol):
    """Something with a size."""

    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Kept:
    session: str
    item: Any


class Store:
    """Items by id, within `budget` bytes for all sessions together.

    An id is eight random bytes and a signature of them by the session's name and a secret of this process: so an id that this
    session was once given is distinguished from one that it never was, without a list of what is gone.
    """

    def __init__(self, budget: int, *, images: int = MOST_IMAGES) -> None:
        self.budget, self.images = budget, images
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(kept.item.nbytes for kept in self._kept.values())

    def put(self, session: str, item: Keepable, *, most: int | None = None) -> str:
        """Keep it; what was used longest ago makes room. `most` items of this kind are kept of one session."""
        if item.nbytes > self.budget:
            raise StudioError(
                f"This needs {item.nbytes >> 20} MB of memory, and the studio was given {self.budget >> 20} MB.", 413
            )
        random = secrets.token_hex(8)
        name = random + self._sign(session, random)
        with self._lock:
            self._kept[name] = Kept(session, item)
            if most is not None:
                same = [n for n, kept in self._kept.items() if kept.session == session and isinstance(kept.item, type(item))]
                for old in same[:-most]:
                    del self._kept[old]
            self.shrink()
        return name

    def get(self, session: str, name: str, kind: type[T]) -> T:
        """The item of this session, as the one used last; 410 if it had to go, 404 if this session never had it."""
        what = getattr(kind, "noun", kind.__name__.lower())
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and kept.session == session and isinstance(kept.item, kind):
                self._kept.move_to_end(name)
                return kept.item
        if kept is None and hmac.compare_digest(name[16:].encode(), self._sign(session, name[:16]).encode()):
            raise StudioError(f"This {what} is no longer kept: the studio's memory went to newer ones.", 410)
        raise StudioError(f"There is no such {what} in this session.", 404)

    def shrink(self) -> None:
        """Let go of what was used longest ago until the rest fits; the newest stays. Items may have grown since they came."""
        with self._lock:
            total = self.nbytes
            while total > self.budget and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1].item.nbytes

    def _sign(self, session: str, random: str) -> str:
        return hmac.new(self._secret, f"{session} {random}".encode(), "sha256").hexdigest()[:16]
