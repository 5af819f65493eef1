"""Numbers as they travel to the page: five significant digits, and finite without exception."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from vitrail.deploy.studio.studio_error import StudioError
from vitrail.explain.evaluating import NOT_FINITE

DIGITS = 5
NOTHING = 1e-15  # what is smaller is written as 0: a share of attention that no digit of a page could show


def significant(values: Any) -> np.ndarray:
    """`values` rounded to DIGITS significant digits, in float64, so that JSON writes them that short.

    An integer divided by a power of ten up to 10^22, both exact, is the float nearest to that decimal number, and its shortest
    spelling is the decimal number again.
    """
    plain = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else np.asarray(values, dtype=np.float64)
    if not np.isfinite(plain).all():
        raise StudioError(f"{NOT_FINITE.capitalize()}.")
    large = np.abs(plain) >= NOTHING
    digits = DIGITS - 1 - np.floor(np.log10(np.abs(plain), where=large, out=np.zeros_like(plain)))
    scale = 10.0 ** np.abs(digits)
    rounded = np.where(digits >= 0, np.round(plain * scale) / scale, np.round(plain / scale) * scale)
    return np.where(large, rounded, 0.0)


def plain(value: Any) -> Any:
    """A value of tensors, arrays, numbers, lists and dictionaries as JSON has it; floats rounded, integers and texts as they are."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, Tensor):
        return significant(value).tolist() if value.is_floating_point() else value.tolist()
    if isinstance(value, np.ndarray):
        return significant(value).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, float | np.floating):
        return float(significant(value))
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    return value


def pack(value: Any) -> bytes:
    """JSON, numbers rounded and finite."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
