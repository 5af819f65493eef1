"""What the values of options have in common. No torch here."""

from collections.abc import Sequence
from typing import Any, Literal

from cyclopts import CoercionError, Parameter, Token, convert

Auto = Literal["auto"]


def whole(kind: Any, tokens: Sequence[Token]) -> Any:
    """A converter for whole numbers: cyclopts alone would round 1.5 to 2."""
    for token in tokens:
        if "." in token.value:
            raise CoercionError(token=token, target_type=int)
    return convert(kind, tokens)


def several(help: str, **words: Any) -> Parameter:
    """An option of one or more whole numbers."""
    return Parameter(converter=whole, consume_multiple=True, negative="", help=help, **words)
