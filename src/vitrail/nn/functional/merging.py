"""Token merging: tokens that say the same become one  [Bolya+ 2023, "Token Merging: Your ViT But Faster", section 3].

b batch, h heads, n tokens (prefix included), m tokens that are left, k r those of every second token that stay and that go, d width,
e key width
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from vitrail.tokens import Merge, Tokens


def match(keys: Float[Tensor, "b h n e"], count: int, *, prefix: int = 0) -> Merge:
    """Bipartite soft matching  [ibid., section 3, "Bipartite Soft Matching"].

    Behind the prefix every second token, beginning with the first, looks for the one among the others whose key, the mean over heads, has the
    largest cosine with its own; the `count` pairs with the largest go. The first of equals goes first, and no shape depends on
    what the tokens are. No gradient: which pairs are best is no smooth question.
    """
    cells = keys.shape[2] - prefix
    if not 0 <= count <= cells // 2:
        raise ValueError(f"of {cells} tokens from 0 to {cells // 2} can be merged, got {count}")
    if not count:
        every = torch.arange(cells - cells // 2, device=keys.device).expand(keys.shape[0], -1)
        return Merge(kept=every, gone=every[:, :0], into=every[:, :0])
    keys = F.normalize(keys.detach().mean(1), dim=-1)  # b n e
    cosines = torch.bmm(keys[:, prefix::2], keys[:, prefix + 1 :: 2].mT)  # b first others
    # The largest alone is a fast pass over all rows; where it stands is asked of the rows that go.
    order = cosines.amax(-1).sort(dim=-1, descending=True).indices  # stable on CPUs and in ONNX
    gone, kept = order[:, :count], order[:, count:].sort(dim=-1).values
    return Merge(kept=kept, gone=gone, into=take(cosines, gone).max(-1).indices)


def merge(
    x: Float[Tensor, "b n d"], sizes: Float[Tensor, "b n"], pairs: Merge, *, prefix: int = 0
) -> tuple[Float[Tensor, "b m d"], Float[Tensor, "b m"]]:
    """Tokens that go and those they go into as their mean, weighted by how many tokens each is already; prefix tokens stay.

    Gradients flow through the means.
    """
    kept, gone, into = pairs
    first = torch.arange(prefix, device=x.device).expand(kept.shape[0], -1)
    stay = torch.cat([first, prefix + 2 * kept], dim=1)
    others = sizes[:, prefix + 1 :: 2]  # b o
    numbers = torch.arange(others.shape[1], device=x.device)
    weights = (into[:, None] == numbers[:, None]) * sizes.gather(1, prefix + 2 * gone)[
        :, None
    ]  # b o r: a product is faster than adding rows
    total = others + weights.sum(-1)
    share = (1 / total)[..., None].to(x.dtype)
    joined = torch.baddbmm(
        x[:, prefix + 1 :: 2] * (others[..., None] * share), weights.to(x.dtype) * share, take(x, prefix + 2 * gone)
    )
    return torch.cat([take(x, stay), joined], dim=1), torch.cat([sizes.gather(1, stay), total], dim=1)


def unmerge(tokens: Tokens) -> Tokens:
    """Every token that came in again, with the value of the one it is part of: what maps need."""
    if not tokens.merges:
        return tokens
    source = tokens.places.source()
    first = torch.arange(tokens.prefix, device=source.device).expand(source.shape[0], -1)
    x = take(tokens.x, torch.cat([first, tokens.prefix + source], dim=1))
    return tokens._replace(x=x, sizes=None, merges=())


def take(x: Float[Tensor, "b n d"], index: Int[Tensor, "b k"]) -> Float[Tensor, "b k d"]:
    """Rows of each sequence: whole rows are copied, where `gather` would ask for each number."""
    batch, count = x.shape[:2]
    rows = index + count * torch.arange(batch, device=x.device)[:, None]
    return x.flatten(0, 1).index_select(0, rows.flatten()).view(batch, -1, x.shape[2])
