"""What an engine is, and the one promise it makes: torch's answers.

b batch, ch channels, h w image
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.deploy.export.interface import Interface, Outputs, as_tuple, plain_interface
from vitrail.errors import VitrailError
from vitrail.models.model import ImageModel

ENGINES = ("torch", "compile", "onnxruntime", "openvino")
CLOSE = 1e-4  # how far a number of an answer may be from torch's, beside that share of the largest


@runtime_checkable
class Engine(Protocol):
    """`engine(images)` gives the outputs of the model's interface for any number of images of the model's size, from any thread."""

    name: str

    def __call__(self, images: Float[Tensor, "b ch h w"]) -> Any: ...  # Outputs of its interface: one tensor, or several


def sample_images(model: ImageModel, batch: int) -> Float[Tensor, "b ch h w"]:
    """The same noise each time: what engines are traced, checked and timed with."""
    shape = (batch, model.config.in_channels, *model.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def check_answers(
    model: ImageModel, engine: Callable[[Tensor], Outputs], name: str, *, interface: Interface | None = None
) -> None:
    """Refuse an engine that does not give torch's answers, for one image and for several."""
    module = (interface or plain_interface(model)).module
    for batch in (1, 3):
        images = sample_images(model, batch)
        with torch.inference_mode():
            outputs = as_tuple(module(images))
        for expected, found in zip(outputs, as_tuple(engine(images)), strict=True):
            far = (found - expected).abs().max().item() if found.shape == expected.shape else float("inf")
            if not far <= CLOSE * max(1.0, expected.abs().max().item()):  # NaN is refused too
                raise VitrailError(f"the engine {name} gives other answers than torch for this model: they differ by {far:.2g}")


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Whatever exporters, compilers and runtimes raise becomes an error of ours, with the first line of theirs."""
    try:
        yield
    except VitrailError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise VitrailError(f"{what}: {(lines[0] if lines else type(error).__name__)[:200]}") from error
