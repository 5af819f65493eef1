"""The test captions of runs whose images decide their captions, as a record in the layout of benchmarks/results/.

    vitrail train --task caption --data shapes --out runs/caption
    python benchmarks/captions.py runs/caption --out FOLDER

--out gets what each image shows and what the model says of it, and a row of results.csv, as benchmarks/recompute.py reads them.
"""

import argparse
from pathlib import Path

from records import keep, read_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for run in options.runs:
        trained, rows, facts = read_run(run)
        said, shown = [row["caption"] for row in rows], [row["reference"] for row in rows]
        keep(options.out, trained.model, trained.seed, shown, said, **facts, beams=trained.beams)


if __name__ == "__main__":
    main()
