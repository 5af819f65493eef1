"""vitrail eval"""

import json
import sys
from typing import Annotated

from cyclopts import Parameter

from vitrail.jobs.options import EvalOptions

EXAMPLES = """Examples:

  vitrail eval runs/classify/digits
  vitrail eval runs/classify/digits --split val --json
  vitrail eval runs/translate/multi30k --beams 1
  vitrail eval runs/restore/photos --data Set5/HR
  vitrail eval some/model/folder --data pictures/ --out scores/
  vitrail eval runs/mae/digits --protocol knn,linear --labels 0.1,1
  vitrail eval runs/dino/pictures --data labelled/ --protocol knn,linear,finetune,scratch --labels 0.01,0.1,1 --seeds 3 --out few/
"""


def evaluate(
    run: Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")], /, options: EvalOptions | None = None
) -> int:
    """Score a trained model on a split of its own data, or of other data.

    With --protocol: how well labels are told from the features of a model of pictures, with some shares of the labels. A table,
    protocol.csv, protocol.png, report.html and all predictions are written to --out, by default RUN/protocol/; the same command goes on
    where it was stopped.
    """
    from vitrail.jobs.evaluate import headline, run_evaluation

    options = options or EvalOptions()
    if options.protocol is not None:
        return evaluate_protocols(run, options)
    metrics = run_evaluation(run, options, quiet=options.json)
    if options.json:
        print(json.dumps({"split": options.split, **metrics}))
    else:
        for name, value in metrics.items():
            print(f"{name:<18} {value:.4f}")
        print(headline(options.split, metrics))
    return 0


def evaluate_protocols(run: str, options: EvalOptions) -> int:
    from vitrail.jobs.evaluate import check_options
    from vitrail.jobs.protocols import describe_cells, run_protocols
    from vitrail.learn.training.interruption import Interrupted

    check_options(options)
    try:
        cells = run_protocols(run, options, quiet=options.json)
    except (Interrupted, KeyboardInterrupt) as stop:
        print("stopped; what was finished is kept: the same command goes on", file=sys.stderr)
        return stop.exit_code if isinstance(stop, Interrupted) else 130
    if options.json:
        print(json.dumps({"split": "test", "cells": [cell._asdict() for cell in cells]}))
        return 0
    print()
    for line in describe_cells(cells):
        print(line)
    return 0
