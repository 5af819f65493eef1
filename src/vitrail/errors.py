"""The one exception for what a user can put right: its message is one line that names the value and the rule. And what a user is only warned of."""

import difflib
from collections.abc import Iterable


class VitrailError(ValueError):
    """A user's value breaks a rule. The command line prints the message and exits with 2; Python sees a ValueError."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # one line, whatever a path or a foreign message brought along


class VitrailWarning(UserWarning):
    """One line about what was supposed or changed on the way. The command line prints it as it is."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` for the nearest known name, or nothing where none is near. Names that begin with the word are nearest."""
    names = list(known)
    longer = [name for name in names if len(word) > 2 and name.startswith(word)]
    near = difflib.get_close_matches(word, longer, n=1, cutoff=0.0) or difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""


def check_choice(what: str, word: str, known: Iterable[str]) -> str:
    """`word` itself if it is one of `known`; otherwise an error that lists the choices and the nearest one."""
    choices = list(known)
    if word not in choices:
        raise VitrailError(f'unknown {what} "{word}": choose from {", ".join(choices)}{suggestion(word, choices)}')
    return word
