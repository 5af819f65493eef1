"""Parts that any model takes by name: positions and attention kernels."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vitrail.errors import check_choice
from vitrail.nn.attention.kernel import Kernel
from vitrail.nn.attention.softmax import SoftmaxKernel
from vitrail.nn.positions.learned import Learned1d, Learned2d
from vitrail.nn.positions.position import Position
from vitrail.nn.positions.sinusoidal import Sinusoidal1d, Sinusoidal2d
from vitrail.tokens import Grid

PositionBuilder = Callable[[int, Grid, int], Position]  # width, grid, prefix tokens that own rows

POSITIONS: Mapping[str, PositionBuilder] = MappingProxyType(
    {
        "none": lambda width, grid, prefix: Position(),
        "sinusoidal_1d": lambda width, grid, prefix: Sinusoidal1d(width, prefix=prefix),
        "sinusoidal_2d": lambda width, grid, prefix: Sinusoidal2d(width, axes=len(grid), prefix=prefix),
        "learned_1d": lambda width, grid, prefix: Learned1d(width, grid=grid, prefix=prefix),
        "learned_2d": lambda width, grid, prefix: Learned2d(width, grid=grid, prefix=prefix),
    }
)
POSITION_ALIASES: Mapping[str, str] = MappingProxyType({"learned": "learned_1d", "sinusoidal": "sinusoidal_2d"})

KERNELS: Mapping[str, Callable[[float], Kernel]] = MappingProxyType({"softmax": lambda dropout: SoftmaxKernel(dropout=dropout)})


def position_name(name: str) -> str:
    """The full name of a position scheme; "learned" and "sinusoidal" mean the form that published models use."""
    check_choice("position", name, (*POSITIONS, *POSITION_ALIASES))
    return POSITION_ALIASES.get(name, name)


def build_position(name: str, *, width: int, grid: Grid, prefix: int) -> Position:
    return POSITIONS[position_name(name)](width, grid, prefix)


def build_kernel(name: str, *, dropout: float = 0.0) -> Kernel:
    return KERNELS[check_choice("attention", name, KERNELS)](dropout)
