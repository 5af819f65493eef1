"""Computing with a model of somebody's: whatever goes wrong is reported in one sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from vitrail.deploy.studio.studio_error import StudioError
from vitrail.errors import VitrailError
from vitrail.explain.evaluating import NOT_FINITE


@contextmanager
def one_line() -> Iterator[None]:
    """Whatever goes wrong in here is the model's trouble, reported in one line."""
    try:
        yield
    except StudioError:
        raise
    except VitrailError as error:
        raise StudioError(f"This model cannot show that: {error}.".replace("..", ".")) from None
    except Exception as error:  # torch raises whatever it likes on weights that do not go together
        raise StudioError(f"This model could not be run ({type(error).__name__}: {error})") from None


def work(make: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Something done with a model."""
    with one_line():
        return make(*arguments, **options)


def check_weights(model: nn.Module) -> None:
    """An image of numbers that are none would look like a black one."""
    if not all(bool(weight.isfinite().all()) for weight in model.parameters()):
        raise StudioError(f"{NOT_FINITE.capitalize()}.")
