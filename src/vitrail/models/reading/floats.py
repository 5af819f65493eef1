"""Foreign weights as the numbers we compute with: float32, every one finite, and integers as they are."""

from collections.abc import Mapping

import torch
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.reading.names import listed, quoted

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)


def plain_numbers(tensors: Mapping[str, Tensor], *, where: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The same tensors with float32 for every float, and a note where that was another type before.

    One that is not finite is refused by its name: it would make every answer of the model NaN.
    """
    if not tensors:
        raise VitrailError(f"{where}: no weights in it")
    plain: dict[str, Tensor] = {}
    changed: dict[torch.dtype, int] = {}
    infinite: list[str] = []
    for name, tensor in tensors.items():
        if tensor.dtype not in (*FLOATS, *INTEGERS):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise VitrailError(f"{where}: {quoted(name)} holds {kind}: only plain floats and integers are read")
        plain[name] = as_float32(tensor) if tensor.dtype in FLOATS else tensor
        if tensor.dtype in FLOATS and not is_finite(plain[name]):
            infinite.append(name)
        if plain[name].dtype != tensor.dtype:
            changed[tensor.dtype] = changed.get(tensor.dtype, 0) + 1
    if infinite:
        raise VitrailError(f"{where}: weights of {listed(infinite)} are not finite (NaN, infinite, or too large for float32)")
    kinds = ((count, str(kind).removeprefix("torch.")) for kind, count in changed.items())
    return plain, tuple(f"{count} of {len(tensors)} weights are {kind} in the file: read as float32" for count, kind in kinds)


def as_float32(tensor: Tensor) -> Tensor:
    if tensor.dtype == torch.bfloat16:  # the upper half of a float32; by integers, since not every processor has bfloat16
        return (tensor.contiguous().view(torch.int16).to(torch.int32) << 16).view(torch.float32)
    return tensor.to(torch.float32)


def is_finite(tensor: Tensor) -> bool:
    """Whether no number is NaN or infinite: the smallest and the largest tell, at a tenth of the time of `isfinite`."""
    if not tensor.numel():
        return True
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))
