"""vitrail pretrain"""

from collections.abc import Set
from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.cli.train import train
from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions

EXAMPLES = """Examples:

  vitrail pretrain --method igpt --data digits
  vitrail pretrain --method igpt --data pictures/ --image-size 16 --colors 128 --minutes 30
  vitrail pretrain --method igpt --data digits --masked --out runs/masked
"""


def pretrain(
    options: TrainOptions,
    *,
    method: Annotated[
        Literal["igpt"], Parameter(help="igpt: predict a picture's pixels, as colors of a palette, one after the other.")
    ] = "igpt",
    config: Annotated[
        str | None, Parameter(help="A YAML file with any of these options; the command line wins over it.")
    ] = None,
    given: Annotated[Set[str], Parameter(parse=False)],
) -> int:
    """Learn from pictures without their labels.

    Everything is as with `vitrail train`, whose --task is the method here. Labels, where the data has them, are only used to see
    what the model's layers know of them.
    """
    if "task" in given and options.task != method:
        raise VitrailError(f"--task {options.task}: vitrail pretrain takes --method, and does not learn from labels")
    return train(replace(options, task=method), config=config, given=given)
