"""Tokens as colors: what a model takes for the same has the same color.

b images, gh gw grid, c cells, d width
"""

import torch
from jaxtyping import Float
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.explain.cells import spatial
from vitrail.explain.evaluating import check_finite
from vitrail.explain.filters import principal_directions
from vitrail.nn.functional.merging import unmerge
from vitrail.tokens import Tokens

LOW, HIGH = 0.01, 0.99  # percentiles that are drawn as 0 and as 1


def token_colors(tokens: Tokens | list[Tokens]) -> Float[Tensor, "b gh gw 3"]:
    """The first three principal components of the patch tokens, as red, green and blue in [0, 1]  [Oquab+ 2024, DINOv2, fig. 1].

    Over all images given together, so that colors mean the same in each. A component's sign is free, and fixed so that its
    largest weight is positive. Its 1st percentile over all patches becomes 0, its 99th 1; one that does not vary is 0.5
    everywhere. Prefix tokens are left out; on a group, the elements at a cell are averaged.
    """
    together = [tokens] if isinstance(tokens, Tokens) else tokens
    grids = {tuple(some.grid) for some in together}
    if len(grids) != 1:
        raise VitrailError(f"colors need images of one grid, got {', '.join(map(str, sorted(grids))) or 'none'}")
    if any(some.index is not None or some.mask is not None for some in together):
        raise VitrailError("colors need every patch of every image: some were dropped or padded")
    rows, columns = spatial(grids.pop())
    cells = torch.cat([unmerge(some).cells.detach() for some in together]).double()  # b c d
    cells = cells.view(len(cells), -1, rows * columns, cells.shape[2]).mean(1)  # the elements of a group averaged
    flat = cells.flatten(0, 1)  # (b c) d
    check_finite(flat)
    directions, shares = principal_directions(flat)
    values = (flat - flat.mean(0)) @ directions[:3].T
    ends = torch.quantile(values, torch.tensor([LOW, HIGH], dtype=values.dtype, device=values.device), dim=0)  # 2 k
    span = ends[1] - ends[0]
    varies = (span > 1e-9 * values.abs().max()) & (shares[:3] > 1e-12)
    scaled = torch.where(varies, (values - ends[0]) / torch.where(varies, span, torch.ones_like(span)), 0.5).clamp(0, 1)
    colors = torch.full((len(flat), 3), 0.5, dtype=torch.float32, device=flat.device)
    colors[:, : scaled.shape[1]] = scaled.float()
    return colors.view(len(cells), rows, columns, 3)
