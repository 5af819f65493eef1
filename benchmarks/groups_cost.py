"""What a group costs: one attention layer over z2, p4 and p4m by the side of the grid, beside the attention it cannot do without.

    python benchmarks/groups_cost.py [--sides 7 14] [--batch 8] [--train]

A group layer over a grid of n cells is attention over order · n tokens. `bare` is torch's fused scaled_dot_product_attention of
that size alone: no projections, no positions. The last columns are the layer over attention with the same projections: without positions, and with
a bias for every pair that lies ready in memory, which is the least that relative positions in one attention over the group can need. Times are
medians in milliseconds a batch; processor time of one thread, so that a busy machine matters little.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.nn.attention.multi_head import merge_heads, split_heads
from vitrail.nn.groups.attention import GroupAttention
from vitrail.nn.groups.group import find_group
from vitrail.scope import Scope
from vitrail.tokens import Places


def measure(work: Callable[[], Tensor], *, train: bool, repeats: int = 5) -> float:
    def once() -> float:
        started = time.process_time()
        if train:
            work().sum().backward()
        else:
            with torch.inference_mode():
                work()
        return 1000 * (time.process_time() - started)

    once()
    return statistics.median(once() for _ in range(repeats))


def compare(name: str, side: int, window: int, options: argparse.Namespace) -> tuple[float, float, float, float]:
    """Milliseconds of the layer, of the bare attention, and of attention between the layer's projections without and with a bias."""
    group = find_group(name)
    tokens = group.order * side * side
    layer = GroupAttention(options.width, heads=options.heads, group=group, window=window)
    scope = Scope(queries=Places((group.order, side, side)), keys=Places((group.order, side, side)))
    x = torch.randn(options.batch, tokens, options.width, requires_grad=True)
    q, k, v = (
        torch.randn(options.batch, options.heads, tokens, options.width // options.heads, requires_grad=True) for _ in range(3)
    )
    parts = layer.attention

    ready = torch.randn(options.batch, options.heads, tokens, tokens, requires_grad=True)

    def plain(bias: Tensor | None = None) -> Tensor:
        asked, keys, values = (split_heads(part(x), options.heads) for part in (parts.query, parts.key, parts.value))
        return parts.output(merge_heads(F.scaled_dot_product_attention(asked, keys, values, attn_mask=bias)))

    return (
        measure(lambda: layer(x, scope), train=options.train),
        measure(lambda: F.scaled_dot_product_attention(q, k, v), train=options.train),
        measure(plain, train=options.train),
        measure(lambda: plain(ready), train=options.train),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=["z2", "p4", "p4m"])
    parser.add_argument("--sides", type=int, nargs="+", default=[7, 8, 14], help="of the grid")
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 5], help="0: the whole grid")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--train", action="store_true", help="forward and backward; otherwise inference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{'group':<6}{'grid':>7}{'window':>8}{'tokens':>8}{'layer':>9}{'bare':>9}{'to z2':>8}{'to plain':>10}{'to biased':>11}"
    )
    for side in options.sides:
        for window in options.windows:
            first = None
            for name in options.groups:
                layer, bare, plain, biased = compare(name, side, window, options)
                first = first or layer
                tokens = find_group(name).order * side * side
                print(
                    f"{name:<6}{side:>4}x{side:<2}{window or 'all':>8}{tokens:>8}{layer:>9.1f}{bare:>9.1f}"
                    f"{layer / first:>7.1f}x{layer / plain:>9.2f}x{layer / biased:>10.2f}x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
