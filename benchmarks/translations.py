"""The test translations of a run as a record, in the layout of docs/results/.

    vitrail train --task translate --data multi30k --source de --target en --lower --out runs/translate
    python benchmarks/translations.py runs/translate --out FOLDER

--out gets the translations, each with what it adds to BLEU, and a row of results.csv, as benchmarks/recompute.py reads them.
"""

import argparse
from pathlib import Path

from records import keep_translations, read_rows

import vitrail as vt
from vitrail.jobs.stored import read_options
from vitrail.learn.metrics.bleu import corpus_bleu
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
        hypotheses = [row["hypothesis"] for row in rows]
        bleu = corpus_bleu(hypotheses, [row["reference"] for row in rows], lower=trained.lower)
        facts = {"parameters": count_parameters(vt.load(run)), "epochs": len(epochs), "seconds": epochs[-1]["seconds"]}
        keep_translations(options.out, trained.model, trained.seed, bleu, hypotheses, **facts, beams=trained.beams)
        print(f"{trained.model}: {bleu.score:.2f} BLEU, {bleu.signature}")


if __name__ == "__main__":
    main()
