"""vitrail eval"""

import json
import sys
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import Parameter

from vitrail.cli.chosen import from_shown, options_class, shown_class
from vitrail.tasks import registry

EXAMPLES = """Examples:

  vitrail eval runs/classify/digits
  vitrail eval runs/classify/digits --split val --json
  vitrail eval runs/translate/multi30k --num-beams 1
  vitrail eval runs/restore/photos --data Set5/HR
  vitrail eval some/model/folder --data images/ --out scores/
  vitrail eval runs/mae/digits --protocol knn,linear --labels 0.1,1
  vitrail eval runs/dino/images --data labelled/ --protocol knn,linear,finetune,scratch --labels 0.01,0.1,1 --seeds 3 --out few/
"""


ABOUT = """Score a trained model on a split of its own data, or of other data.

RUN decides the options: `vitrail eval RUN --help` shows those of its task. With --protocol: how well labels are predicted from the
features of a model of images, with some shares of the labels. A table, protocol.csv, protocol.png, report.html and all predictions are
written to --out, by default RUN/protocol/; the same command continues where it was stopped.
"""
Run = Annotated[str, Parameter(help="A run folder, a model folder or a hub id.")]


def command_for(task: str | None) -> Callable[..., int]:
    """`vitrail eval` with the options of a task; without one, with those that all tasks share."""
    kind = options_class("eval", task)
    shown = shown_class(kind)

    def command(run: str, /, options: Any = None) -> int:
        return evaluate(run, from_shown(kind, options or shown()), task=task or registry.DEFAULT)

    command.__annotations__ = {"run": Run, "options": shown | None, "return": int}
    command.__doc__ = ABOUT
    return command


def evaluate(run: str, options: Any, *, task: str) -> int:
    if getattr(options, "protocol", None) is not None:
        return evaluate_protocols(run, options)
    from vitrail.run.evaluate import run_evaluation
    from vitrail.tasks.metric import headline

    metrics, split = run_evaluation(run, options, quiet=options.json)
    if options.json:
        print(json.dumps({"split": split, **metrics}))
    else:
        for name, value in metrics.items():
            print(f"{name:<18} {value:.4f}")
        print(headline(registry.metrics_of(task), split, metrics))
    return 0


def evaluate_protocols(run: str, options: Any) -> int:
    from vitrail.learn.training.interruption import Interrupted
    from vitrail.run.protocols import describe_cells, run_protocols
    from vitrail.tasks.options import check

    check(options)
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
