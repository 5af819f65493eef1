"""Recording attention: with record(model) as seen: model(images), then look at seen.layers.

b batch, h heads, n queries, m keys, e value width; heads and queries are those that were asked for
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.nn.attention.kernel import Part
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording
from vitrail.scope import Scope
from vitrail.tokens import Places, Windows


class Kept(NamedTuple):
    """Which heads and queries of a layer were kept, of how many, and where all of its queries and keys stand."""

    heads: list[int]
    queries: list[int]
    head_count: int
    query_count: int
    query_places: Places | None = None
    key_places: Places | None = None
    windows: Windows | None = (
        None  # the layer attends within windows: the batch is windows, and places are those of the whole image
    )

    def head(self, number: int) -> int:
        """Where the head `number` (negative: from the end) is among those that were kept."""
        [head] = choose([number], self.head_count, "head", "the layer")
        if head not in self.heads:
            raise VitrailError(f"head {head} was not recorded; recorded: {', '.join(map(str, self.heads))}")
        return self.heads.index(head)

    def rows(self, tokens: Sequence[int]) -> list[int]:
        """Where these tokens are among the queries that were kept."""
        if not set(tokens) <= set(self.queries):
            raise VitrailError(f"query {tokens[0]} was not recorded; recorded: {', '.join(map(str, self.queries))}")
        return [self.queries.index(token) for token in tokens]


class Seen:
    """What the recorded layers did in the last forward pass, one entry a layer, in the order they ran.

    `layers[i] @ values[i]` equals `outputs[i]`, the layer's output before its last projection (plus the position's read
    term, where a scheme has one). A layer that attends within windows has a row of the batch for each window, image by image, and
    its queries and keys are those of a window: `explain.windows` puts them back into the image.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        *,
        numbers: Mapping[str, int] | None = None,
        heads: Sequence[int] | None = None,
        queries: Sequence[int] | None = None,
    ) -> None:
        """`names` of the layers to record by the id of their module, `numbers` of all that the model has by name."""
        self._names, self._numbers, self._heads, self._queries = names, numbers, heads, queries
        self.clear()

    def clear(self) -> None:
        """Forget what was seen; a new forward pass adds to the lists."""
        self.names: list[str] = []
        self.layers: list[Float[Tensor, "b h n m"]] = []  # weights, each row sums to 1
        self.values: list[Float[Tensor, "b h m e"]] = []
        self.outputs: list[Float[Tensor, "b h n e"]] = []
        self.kept: list[Kept] = []

    def keep(
        self, layer: nn.Module, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scope: Scope, windows: Windows | None = None
    ) -> None:
        name = self._names.get(id(layer))
        if name is None:  # a layer of another model, or one that was not asked for
            return
        if self.names and name == self.names[0]:  # a new pass through the same model replaces the last one
            self.clear()
        assert isinstance(layer, MultiHeadAttention)
        heads = choose(self._heads, q.shape[1], "head", name)
        queries = choose(self._queries, q.shape[2], "query", name)
        part = Part(
            None if self._heads is None else torch.tensor(heads, device=q.device),
            None if self._queries is None else torch.tensor(queries, device=q.device),
        )
        with torch.no_grad():
            self.layers.append(layer.kernel.weights(q, k, scope, part))
            self.values.append(part.of_heads(v.detach()))
            self.outputs.append(part.of(out.detach()))
        self.names.append(name)
        places, keys = scope.queries, scope.queries if scope.keys is None else scope.keys
        if windows is not None:
            places = keys = Places(windows.grid)
        self.kept.append(Kept(heads, queries, q.shape[1], q.shape[2], places, keys, windows))

    @property
    def depth(self) -> int:
        """How many attention layers the model has."""
        return len(self.layers) if self._numbers is None else len(self._numbers)

    def find(self, layer: int) -> int:
        """The entry of the model's layer `layer` (negative: from the end) in the lists above."""
        [number] = choose([layer], self.depth, "layer", "the model")
        if self._numbers is None:
            return number
        numbers = [self._numbers[name] for name in self.names]
        if number not in numbers:
            raise VitrailError(f"layer {number} was not recorded; recorded: {', '.join(map(str, numbers)) or 'none'}")
        return numbers.index(number)

    def about(self, entry: int) -> Kept:
        """What an entry holds; all that it has, where nothing else was said."""
        if entry < len(self.kept):
            return self.kept[entry]
        _, heads, queries, _ = self.layers[entry].shape
        return Kept(list(range(heads)), list(range(queries)), heads, queries)


@contextmanager
def record(
    model: nn.Module,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
) -> Iterator[Seen]:
    """Within the block, forward passes of `model` in this thread are recorded, or some of their layers, heads and queries.

    All are numbers, from the end where they are negative; queries are tokens, prefix tokens counted. What is not asked for is
    not kept. The model is not changed and its fused attention stays on: each kernel is asked for its weights beside its output.
    """
    found = attention_layers(model)
    chosen = (
        list(found) if layers is None else [list(found)[n] for n in sorted(choose(layers, len(found), "layer", "the model"))]
    )
    for name in chosen:
        refuse_without_weights(name, found[name])
        choose(heads, found[name].heads, "head", name)
    seen = Seen(
        {id(found[name]): name for name in chosen},
        numbers={name: number for number, name in enumerate(found)},
        heads=heads,
        queries=queries,
    )
    with recording(seen):
        yield seen


def attention_layers(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """The layers of a model that can be recorded, by name, in order."""
    if getattr(model, "_orig_mod", model) is not model:
        raise VitrailError(
            "a compiled model cannot be recorded, its graph holds no such step: record the model it was made from"
        )
    found = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    if not found:
        raise VitrailError(f"{type(model).__name__} has no attention layers to record")
    return found


def check_weights(model: nn.Module) -> None:
    """Refuse a model whose attention cannot be recorded in every layer."""
    for name, layer in attention_layers(model).items():
        refuse_without_weights(name, layer)


def refuse_without_weights(name: str, layer: MultiHeadAttention) -> None:
    if "weights" not in layer.kernel.supports:
        raise VitrailError(f"{name}: {layer.kernel.name} attention has no weights to record")


def choose(numbers: Sequence[int] | None, count: int, what: str, owner: str) -> list[int]:
    """The numbers counted from the beginning, each once; all where none are given."""
    if numbers is None:
        return list(range(count))
    for number in numbers:
        if not -count <= number < count:
            raise VitrailError(f"{what} {number} does not exist: {owner} has {count}, 0 to {count - 1}")
    return list(dict.fromkeys(number % count for number in numbers))
