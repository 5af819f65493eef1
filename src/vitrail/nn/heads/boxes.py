"""The head that says where: four numbers before their sigmoid.

b batch, n queries, d width
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class BoxHead(nn.Module):
    """Three linear layers with ReLU between  [Carion+ 2020, section 3.2, prediction feed-forward networks]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.output = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 4)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n 4"]:
        return self.output(F.relu(self.second(F.relu(self.first(x)))))
