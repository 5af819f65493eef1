"""A teacher that follows its student: not trained, an average of what the student was."""

import torch
from torch import Tensor, nn


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, momentum: float) -> None:
    """teacher <- momentum teacher + (1 - momentum) student, weight by weight  [He+ 2020, MoCo, eq. 2].

    Of 1 nothing changes, not a bit; of 0 it becomes a copy. Buffers, such as the statistics of a batch norm, are the teacher's own: it
    has seen batches too.
    """
    if momentum == 1.0:
        return
    own, others = list[Tensor](teacher.parameters()), list[Tensor](student.parameters())
    if momentum == 0.0:
        torch._foreach_copy_(own, others)
    else:
        torch._foreach_lerp_(own, others, 1.0 - momentum)
