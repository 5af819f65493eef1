"""The test translations of a run as a record, in the layout of benchmarks/results/.

    vitrail train --task translate --data multi30k --source de --target en --lower --out runs/translate
    python benchmarks/translations.py runs/translate --out FOLDER

--out gets the translations, each with what it adds to BLEU, and a row of results.csv, as benchmarks/recompute.py reads them.
"""

import argparse
from pathlib import Path

from records import keep_translations, read_run

from vitrail.learn.metrics.bleu import corpus_bleu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for run in options.runs:
        trained, rows, facts = read_run(run)
        hypotheses = [row["hypothesis"] for row in rows]
        bleu = corpus_bleu(hypotheses, [row["reference"] for row in rows], lower=trained.lower)
        keep_translations(options.out, trained.model, trained.seed, bleu, hypotheses, **facts, beams=trained.beams)
        print(f"{trained.model}: {bleu.score:.2f} BLEU, {bleu.signature}")


if __name__ == "__main__":
    main()
