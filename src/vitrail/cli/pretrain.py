"""vitrail pretrain"""

from collections.abc import Set
from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from vitrail.cli.train import train
from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions

EXAMPLES = """Examples:

  vitrail pretrain --method mae --data pictures/ --minutes 30
  vitrail pretrain --method mae --data digits --hide 0.6 --out runs/hidden
  vitrail pretrain --method igpt --data digits
  vitrail pretrain --method igpt --data pictures/ --image-size 16 --colors 128 --minutes 30
  vitrail pretrain --method igpt --data digits --masked --out runs/masked
"""


def pretrain(
    options: TrainOptions,
    *,
    method: Annotated[
        Literal["mae", "beit", "dvae", "dino", "moco", "igpt"],
        Parameter(
            help="mae: draw hidden patches. beit: name hidden patches in the words of --tokenizer, which --method dvae makes. "
            "dino: agree with an average of oneself on other crops. moco: tell a picture's crops from others'. "
            "igpt: predict pixels, as colors of a palette, one after the other."
        ),
    ] = "mae",
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
