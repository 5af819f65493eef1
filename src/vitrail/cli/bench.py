"""vitrail bench"""

import json
from typing import Annotated

from cyclopts import Parameter

from vitrail.cli.tables import print_table
from vitrail.run.bench_options import BenchOptions

EXAMPLES = """Examples:

  vitrail bench vit_small_patch16_224
  vitrail bench vit_small_patch16_224 --engines all --batches 1,8 --threads 1
  vitrail bench vit_small_patch16_224 --against timm,transformers
  vitrail bench runs/classify/pets --data pets/ --merge 0,8,13
  vitrail bench runs/classify/small runs/classify/large --data images/ --json

Content of the images takes no time: without --data they are the built-in shapes. A model by name has random weights.
"""


def bench(
    models: Annotated[list[str], Parameter(help="Run folders, model folders, hub ids, or names from `vitrail models`.")],
    /,
    options: BenchOptions | None = None,
) -> int:
    """Measure how fast models of images are, by every engine, and what that costs in accuracy.

    Images per second, latency, floating-point operations, tokens, share of the machine's matrix-multiply peak and memory; all
    engines run in turns in one loop. bench.json, bench.csv and bench.png are written to --out.
    """
    from vitrail.learn.training.progress_bar import ProgressBar
    from vitrail.report.bench import count_threads, row_table, subject_table
    from vitrail.run.bench import run_bench

    options = options or BenchOptions()
    found, folder = run_bench(models, options, bar=ProgressBar(quiet=options.json))
    if options.json:
        print(json.dumps(found.to_json()))
    else:
        for part in (subject_table(found), row_table(found)):
            print()
            print_table(*part)
        print()
        for line in found.notes:
            print(line)
        print(f"{count_threads(found.threads)}; peak {max(found.peaks.values()) / 1e9:.0f} GFLOP/s; written to {folder}")
    return 130 if found.stopped else 0
