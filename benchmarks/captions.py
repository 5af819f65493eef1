"""The test captions of runs whose pictures decide their captions, as a record in the layout of docs/results/.

    vitrail train --task caption --data shapes --out runs/caption
    python benchmarks/captions.py runs/caption --out FOLDER

--out gets what each picture shows and what the model says of it, and a row of results.csv, as benchmarks/recompute.py reads them.
"""

import argparse
from pathlib import Path

from records import keep, read_rows

import vitrail as vt
from vitrail.jobs.stored import read_options
from vitrail.models.catalogue import count_parameters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for run in options.runs:
        trained, rows, epochs = (
            read_options(run / "config.yaml"),
            read_rows(run / "predictions.csv"),
            read_rows(run / "results.csv"),
        )
        facts = {"parameters": count_parameters(vt.load(run)), "epochs": len(epochs), "seconds": epochs[-1]["seconds"]}
        said, shown = [row["caption"] for row in rows], [row["reference"] for row in rows]
        keep(options.out, trained.model, trained.seed, shown, said, **facts, beams=trained.beams)


if __name__ == "__main__":
    main()
