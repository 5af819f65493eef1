"""How well images of test sets are restored, as a record in the layout of benchmarks/results/.

    vitrail train --task restore --data BSDS500_train --degrade sr2 --out runs/sr2
    vitrail eval runs/sr2 --data Set5/HR --out scored/Set5
    python benchmarks/restorations.py runs/sr2 scored/Set5 --out FOLDER

--out gets PSNR and SSIM of every image, restored and as it was given (for super-resolution: enlarged bicubically), and two rows of
results.csv a test set, as benchmarks/recompute.py reads them.
"""

import argparse
import statistics
from pathlib import Path

from records import append, read_rows, read_run, write_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("scored", type=Path, nargs="+", help="what `vitrail eval --out` wrote, named as the test set is")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    trained, _, facts = read_run(options.run)
    degradation = trained.degrade
    for folder in options.scored:
        rows = read_rows(folder / "predictions.csv")
        for who, column in ((options.run.name, ""), (f"given-{degradation}", "_given")):
            name = f"predictions-{who}-{folder.name}.csv"
            kept = [
                {"picture": Path(row["picture"]).name, "psnr": row[f"psnr{column}"], "ssim": row[f"ssim{column}"]}
                for row in rows
            ]
            write_rows(options.out / name, kept)
            psnr, ssim = (statistics.fmean(float(row[what]) for row in kept) for what in ("psnr", "ssim"))
            row = {
                "model": f"{who} {folder.name}",
                "degradation": degradation,
                "test_psnr": f"{psnr:.2f}",
                "ssim": f"{ssim:.4f}",
            }
            append(
                options.out / "results.csv", {**row, **(facts if not column else dict.fromkeys(facts, "")), "predictions": name}
            )
            print(f"{who} {folder.name}: {psnr:.2f} dB, SSIM {ssim:.4f}")


if __name__ == "__main__":
    main()
