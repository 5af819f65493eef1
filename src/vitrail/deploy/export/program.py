"""A model as a program of torch.export: the graph that the files hold, with a free batch and, where it can be, a free size.

b batch, ch channels
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from vitrail.errors import VitrailError, check_choice
from vitrail.models.model import Model

DynamicSize = Literal["auto", "on", "off"]
DYNAMIC_SIZES = ("auto", "on", "off")
# Why a program of these is for one size: what their Python decides by the size cannot be written into one graph.
ONE_SIZE = {
    "swin": "how the grid is padded, cut into windows and shifted depends on its size",
    "gsa": "which pairs of cells are neighbors is listed for one grid",
    "gcnn": "images that are turned must be square, and two free sides are not",
    "swinir": "how the grid is padded, cut into windows and shifted depends on its size",
    "vit_restorer": "how the image is padded to whole patches depends on its size",
    "unet": "how the image is padded to whole cells depends on its size",
    "segmenter": "how the image is padded to whole cells depends on its size",
    "detr": "where the tokens of its maps stand is laid out for one size",
    "unetr": "windows of that size are what it looks at",
    "convolution_free": "windows of that size are what it looks at",
}
FEWEST_CELLS = 2  # along a free side: of one, torch.export would make a case of its own


def size_step(model: Model, wish: DynamicSize, format: str) -> int | None:
    """What the sides of an image are multiples of if the file is to take any size; None if it is for one."""
    check_choice("dynamic size", wish, DYNAMIC_SIZES)
    if wish == "off":
        return None
    reason = one_size_reason(model, format)
    if reason is None:
        return smallest_step(model)
    if wish == "on":
        raise VitrailError(f"--dynamic-size on: a model of the kind {model.architecture} is exported for one size: {reason}")
    return None


def one_size_reason(model: Model, format: str) -> str | None:
    """Why a file of it cannot take any size; None if it can."""
    if format == "openvino" and getattr(model.config, "position_antialias", False):
        return "OpenVINO resizes no positions with antialiasing"
    if getattr(model.config, "merge", 0):
        return "how many tokens are left to merge depends on their number"
    return ONE_SIZE.get(model.architecture)


def smallest_step(model: Model) -> int:
    """A ResNet takes any size; what torch.export notes of its strides holds for whole cells of its last map."""
    if model.architecture == "resnet":
        return 32
    return model.size_multiple


def trace(model: Model, module: nn.Module, images: Float[Tensor, "b ch *size"], *, step: int | None) -> ExportedProgram:
    """The program of `module(images)`, the model's interface, in evaluation mode, for any number of images and, with `step`, of any size of such sides."""
    channels, *sides = images.shape[1:]
    free: dict[int, Any] = {0: Dim.DYNAMIC}
    if step is not None:
        free |= {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
        # A side of one cell would be taken for a rule, and two equal ones for one.
        height, width = (max(side, FEWEST_CELLS * step) for side in sides)
        sides = [height, width + step]
    example = images.new_zeros(2, channels, *sides)  # one image would be taken for a rule, too
    with without_gradients(model.eval()), quiet():
        try:
            program = torch.export.export(module.eval(), (example,), dynamic_shapes=(free,))
        except Exception as error:  # of a dozen kinds, among which nothing tells a user's model from another fault
            raise cannot(model, "torch.export", error) from error
        for name, tensor in program.state_dict.items():
            if isinstance(tensor, nn.Parameter):
                program.state_dict[name] = nn.Parameter(tensor.detach(), requires_grad=False)
    return program


def cannot(model: Model, who: str, error: Exception) -> VitrailError:
    """One line about a converter that gave up; what it says goes on for pages (`--debug`)."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return VitrailError(f"{who} cannot follow a model of the kind {model.architecture}: {first[:200]}")


@contextmanager
def without_gradients(model: nn.Module) -> Iterator[None]:
    """Parameters that ask for no gradient: where one could be asked for, attention with a learned bias gives its output in another
    order of memory than it has in use, and a program is about one of them."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def input_shape(program: ExportedProgram) -> tuple[int | None, ...]:
    """Of the images that a program takes; None: any number."""
    name = program.graph_signature.user_inputs[0]
    example = next(node.meta["val"] for node in program.graph.nodes if node.name == name)
    return tuple(side if isinstance(side, int) else None for side in example.shape)


@contextmanager
def quiet() -> Iterator[None]:
    """Without gradients, and without the remarks of tracers and converters, none of which is about the user's model."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            with torch.no_grad():
                yield
        finally:
            logger.setLevel(level)
