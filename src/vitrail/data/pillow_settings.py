"""Pillow's global switches, as the image reader needs them: for as long as it reads, and no longer."""

import contextlib
import ctypes
import logging
import os
import threading
import warnings
from typing import Any

from PIL import AvifImagePlugin, Image, ImageFile, _imaging

PIXEL_LIMIT = 50_000_000  # of the image reader; Pillow raises an error at twice its own, and warns before


class PillowSettings:
    """Pillow's switches as we need them while any thread is reading, and then again as the user had them.

    Truncated files are errors, the pixel limit is ours, Pillow's remarks on odd files are not printed, and AVIF starts no
    threads: whoever reads many images reads several at a time. Threads share one change of the switches, because several
    that each put back what they found would not end with what was there at first.
    """

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Nobody is reading."""
        self.lock, self.readers = threading.Lock(), 0
        self.undo = contextlib.ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if not self.readers:
                self._set(Image, "MAX_IMAGE_PIXELS", PIXEL_LIMIT // 2)
                self._set(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
                self._set(AvifImagePlugin, "DEFAULT_MAX_THREADS", 1)
                self.undo.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self.readers += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.readers -= 1
            if not self.readers:
                self.undo.close()

    def _set(self, module: Any, name: str, value: object) -> None:
        self.undo.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, value)


def silence_libraries() -> None:
    """Keep off the terminal what Pillow logs, and what libtiff writes there by itself; both come back as errors anyway."""
    logging.getLogger("PIL").addHandler(logging.NullHandler())  # without any, Python prints what a library logs
    with contextlib.suppress(OSError, AttributeError):  # on Windows, libtiff is inside of Pillow and cannot be reached
        library = ctypes.CDLL(_imaging.__file__)  # loaded already; its names include those of the libraries it needs
        for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
            setter = getattr(library, name)
            setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
            setter(None)


SETTINGS = PillowSettings()
silence_libraries()
if hasattr(os, "register_at_fork"):  # a process forked off while another thread reads must not wait for that thread
    os.register_at_fork(after_in_child=SETTINGS.start)
