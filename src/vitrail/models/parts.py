"""Parts that any model takes by name: positions and attention kernels."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import nn

from vitrail.errors import VitrailError, check_choice
from vitrail.nn.attention.build import build_attention
from vitrail.nn.attention.kernel import Feature
from vitrail.nn.attention.spec import AttentionSpec, Role
from vitrail.nn.positions.added import AbsoluteQK, AddedPosition, EveryLayer
from vitrail.nn.positions.alibi import Alibi
from vitrail.nn.positions.conditional import Conditional
from vitrail.nn.positions.learned import Learned1d, Learned2d
from vitrail.nn.positions.position import LayersApart, Position
from vitrail.nn.positions.relative import RelativeProjected, RelativeShaw
from vitrail.nn.positions.relative_table import ContinuousBias, RelativeTable
from vitrail.nn.positions.rotary import Rotary
from vitrail.nn.positions.sinusoidal import Layout, Sinusoidal1d, Sinusoidal2d
from vitrail.tokens import Grid

Where = Literal["auto", "stem", "layers", "layers_apart"]  # once; in every layer, the same; in every layer, each its own


class Setting(NamedTuple):
    """What a position is built for."""

    width: int
    heads: int
    grid: Grid
    prefix: int  # prefix tokens that own rows
    causal: bool = False  # no token may know what comes after it

    @property
    def key_width(self) -> int:
        return self.width // self.heads


class Scheme(NamedTuple):
    """How a position is built, where it acts in the work that published it, and what it asks of an attention kernel."""

    build: Callable[[Setting], Position]
    where: Where
    asks: frozenset[Feature] = frozenset()


BIAS: frozenset[Feature] = frozenset({"bias"})
BIAS_AND_READ: frozenset[Feature] = frozenset({"bias", "read"})


def _sinusoidal_1d(layout: Layout) -> Callable[[Setting], Position]:
    return lambda s: Sinusoidal1d(s.width, prefix=s.prefix, layout=layout)


def _sinusoidal_2d(layout: Layout) -> Callable[[Setting], Position]:
    return lambda s: Sinusoidal2d(s.width, axes=len(s.grid), prefix=s.prefix, layout=layout)


POSITIONS: Mapping[str, Scheme] = MappingProxyType(
    {
        "none": Scheme(lambda s: Position(), "stem"),
        "sinusoidal_1d": Scheme(_sinusoidal_1d("interleaved"), "stem"),
        "sinusoidal_2d": Scheme(_sinusoidal_2d("interleaved"), "stem"),
        "sinusoidal_1d_concatenated": Scheme(_sinusoidal_1d("concatenated"), "stem"),
        "sinusoidal_2d_concatenated": Scheme(_sinusoidal_2d("concatenated"), "stem"),
        "learned_1d": Scheme(lambda s: Learned1d(s.width, grid=s.grid, prefix=s.prefix), "stem"),
        "learned_2d": Scheme(lambda s: Learned2d(s.width, grid=s.grid, prefix=s.prefix), "stem"),
        "absolute_qk": Scheme(lambda s: AbsoluteQK(Learned1d(s.width, grid=s.grid, prefix=s.prefix)), "layers"),
        "absolute_qk_sinusoidal": Scheme(
            lambda s: AbsoluteQK(Sinusoidal2d(s.width, axes=len(s.grid), prefix=s.prefix)), "layers"
        ),
        "relative_shaw_1d": Scheme(
            lambda s: RelativeShaw(s.key_width, grid=s.grid, prefix=s.prefix, line=True), "layers_apart", BIAS_AND_READ
        ),
        "relative_shaw": Scheme(
            lambda s: RelativeShaw(s.key_width, grid=s.grid, prefix=s.prefix), "layers_apart", BIAS_AND_READ
        ),
        "relative_projected_1d": Scheme(
            lambda s: RelativeProjected(s.width, grid=s.grid, prefix=s.prefix, line=True), "layers_apart", BIAS
        ),
        "relative_projected": Scheme(lambda s: RelativeProjected(s.width, grid=s.grid, prefix=s.prefix), "layers_apart", BIAS),
        "relative_table": Scheme(lambda s: RelativeTable(s.heads, grid=s.grid, prefix=s.prefix), "layers_apart", BIAS),
        "continuous_bias": Scheme(lambda s: ContinuousBias(s.heads, grid=s.grid), "layers_apart", BIAS),
        "rotary_1d": Scheme(lambda s: Rotary(s.key_width, axes=len(s.grid), line=True), "layers"),
        "rotary": Scheme(lambda s: Rotary(s.key_width, axes=len(s.grid)), "layers"),
        "alibi_1d": Scheme(lambda s: Alibi(s.heads, line=True), "layers", BIAS),
        "alibi": Scheme(lambda s: Alibi(s.heads), "layers", BIAS),
        "conditional": Scheme(lambda s: Conditional(s.width, axes=len(s.grid), causal=s.causal), "stem"),
    }
)
POSITION_ALIASES: Mapping[str, str] = MappingProxyType({"learned": "learned_1d", "sinusoidal": "sinusoidal_2d"})


def position_name(name: str) -> str:
    """The full name of a position scheme; "learned" and "sinusoidal" mean the form that published models use."""
    check_choice("position", name, (*POSITIONS, *POSITION_ALIASES))
    return POSITION_ALIASES.get(name, name)


def position_where(name: str, where: Where) -> Where:
    """Where the scheme acts; `auto` is as its authors have it. What acts inside attention has no stem to act at."""
    published = POSITIONS[position_name(name)].where
    if where == "stem" and published != "stem":
        raise VitrailError(
            f'position_where="stem": {position_name(name)} acts inside attention; choose "auto", "layers" or "layers_apart"'
        )
    return published if where == "auto" else where


def build_position(
    name: str,
    *,
    width: int,
    heads: int,
    depth: int,
    grid: Grid,
    prefix: int = 0,
    where: Where = "auto",
    causal: bool = False,
) -> Position:
    """The scheme `name`, acting once, or in each of `depth` layers with shared parameters or with their own."""
    name, where = position_name(name), position_where(name, where)
    setting = Setting(width, heads, grid, prefix, causal)
    first = in_place(POSITIONS[name].build(setting), where, depth)
    if where != "layers_apart" or not list(first.parameters()):  # without parameters there is nothing to keep apart
        return first
    return LayersApart([first, *(in_place(POSITIONS[name].build(setting), where, depth) for _ in range(depth - 1))])


def position_of(config: Any, *, grid: Grid, depth: int | None = None, prefix: int = 0, causal: bool = False) -> Position:
    """The position that a model's config names, for tokens on `grid` and, unless said otherwise, as many layers as it has."""
    return build_position(
        config.position,
        width=config.width,
        heads=config.heads,
        depth=config.depth if depth is None else depth,
        grid=grid,
        prefix=prefix,
        where=config.position_where,
        causal=causal,
    )


def in_place(position: Position, where: Where, depth: int) -> Position:
    """The same, acting where it is asked to: rows that are added at the stem, or in front of every block."""
    if where == "stem":
        if isinstance(position, Conditional):
            position.only = min(1, depth - 1)  # behind the first block, as published; a model of one block has only its front
        return position
    return EveryLayer(position) if isinstance(position, AddedPosition) else position


def attention_of(config: Any, *, layer: int, role: Role = "self", needs: Iterable[Feature] = (), **spec: Any) -> nn.Module:
    """The attention that a model's config names, for block `layer`; `spec` are more fields of `AttentionSpec`.

    Between two sequences the position of neither acts, so cross-attention does not need what it asks for.
    """
    position = getattr(config, "position", "none") if role != "cross" else "none"
    given = {name: getattr(config, name) for name in ("width", "heads", "depth") if name not in spec}
    given |= {"dropout": getattr(config, "attention_dropout", 0.0), **spec}
    return build_attention(
        config.attention,
        AttentionSpec(
            layer=layer,
            role=role,
            needs=frozenset(needs) | POSITIONS[position_name(position)].asks,
            options=config.attention_options,
            **given,
        ),
    )
