"""vitrail train"""

import sys
from collections.abc import Set
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import TrainOptions

EXAMPLES = """Examples:

  vitrail train --data digits
  vitrail train --data pictures/ --model vit_micro_conv --epochs 20 --image-size 64
  vitrail train --data arrays.npz --minutes 5 lr=5e-4
  vitrail train --data digits --out runs/mine --resume
  vitrail train --task translate --data pairs/ --source de --target en --lower
  vitrail train --task language --data book.txt --minutes 10
  vitrail train --task segment --data streets/ --minutes 30
  vitrail train --task restore --data photos/ --degrade sr2 --minutes 30
  vitrail train --task detect --data blood/ --turns
  vitrail train --task mri --data brain.nii.gz --acceleration 4 --minutes 30
  vitrail train --task segment3d --data scans/ --minutes 30
  vitrail train --config runs/classify/digits/config.yaml --seed 1
"""


def train(
    options: TrainOptions,
    *,
    config: Annotated[
        str | None, Parameter(help="A YAML file with any of these options; the command line wins over it.")
    ] = None,
    given: Annotated[Set[str], Parameter(parse=False)],
) -> int:
    """Train a model on pictures or text, evaluate it, save it, and write a report.

    A folder of pictures has one subfolder a class, or train/, val/ and test/ with those in them; one of sentences to translate has
    train.de and train.en, say, with val and test alike, whose lines translate each other.
    """
    from vitrail.jobs.evaluate import headline, scored_split
    from vitrail.jobs.train import run_training
    from vitrail.learn.training.interruption import Interrupted

    try:
        run = run_training(options, given=given)
    except Interrupted as stop:
        print(f"{stop}; everything is saved: vitrail train --out {stop.where} --resume goes on", file=sys.stderr)
        return stop.exit_code
    if run.first:
        print(headline(scored_split(run.path), run.metrics))
    return 0
