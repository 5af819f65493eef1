"""vitrail eval"""

import json
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import EvalOptions

EXAMPLES = """Examples:

  vitrail eval runs/classify/digits
  vitrail eval runs/classify/digits --split val --json
  vitrail eval runs/translate/multi30k --beams 1
  vitrail eval runs/restore/photos --data Set5/HR
  vitrail eval some/model/folder --data pictures/ --out scores/
"""


def evaluate(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")], /, options: EvalOptions | None = None
) -> None:
    """Score a trained model on a split of its own data, or of other data."""
    from vitrail.jobs.evaluate import headline, run_evaluation

    options = options or EvalOptions()
    metrics = run_evaluation(run, options, quiet=options.json)
    if options.json:
        print(json.dumps({"split": options.split, **metrics}))
    else:
        for name, value in metrics.items():
            print(f"{name:<18} {value:.4f}")
        print(headline(options.split, metrics))
