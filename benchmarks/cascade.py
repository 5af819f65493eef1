"""A cascade against its large model alone: throughput, agreement and accuracy on test.

    python benchmarks/cascade.py SMALL LARGE --data fashion/arrays.npz --out FOLDER

SMALL and LARGE are runs of `vitrail train` on the same data with the same seed, so that the same images validate both. Confidence, measure and
threshold are chosen on validation for each agreement of --agreement; of these, validation chooses one too: the cheapest that loses at most --lose
points of accuracy there. Test is read with that one alone. Throughput is from images in memory to probabilities, by both in turns on all test
images, the best of --rounds each; one thread, unless OMP_NUM_THREADS says otherwise.

--out gets results.csv and the test predictions of the small model, the large one and the cascade, as benchmarks/recompute.py reads them,
config.yaml, validation.csv (what each agreement gives there) and cascade.png.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from records import keep, write_rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="runs, from cheap to dear")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agreement", type=float, nargs="+", default=[0.995, 0.99, 0.985, 0.98, 0.975, 0.97])
    parser.add_argument("--lose", type=float, default=0.3, help="points of validation accuracy, at most")
    parser.add_argument("--look", action="store_true", help="stop behind validation.csv, before test is read")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    options = parse()
    from vitrail.models.catalogue import count_parameters
    from vitrail.rendering import to_png
    from vitrail.tasks.classify.cascade import draw_points, time_both
    from vitrail.tasks.classify.cascade_making import choose, images_of, make_stages, open_division, try_stages
    from vitrail.tasks.classify.cascade_report import Point, draw_cascade
    from vitrail.tasks.classify.data import match_labels

    options.out.mkdir(parents=True, exist_ok=True)
    if (options.out / "results.csv").exists():
        raise SystemExit(f"{options.out}: has results.csv already")
    words = [
        Path(word).name if Path(word).exists() else word for word in sys.argv[1:]
    ]  # where things lie here says nothing elsewhere
    (options.out / "config.yaml").write_text(f"# python benchmarks/cascade.py {shlex.join(words)}\n")
    stages = make_stages(options.models)
    data = match_labels(open_division(options.models, options.data, None), stages[-1].classify.model)
    trial = try_stages(stages, images_of(data["val"], stages), batch=options.batch)
    rows, found = [], {}
    for agreement in options.agreement:
        made, table = choose(stages, trial, agreement=agreement, sure=None, cost="seconds", data=data.name)
        curve, point = draw_points(table, made.thresholds, data["val"].labels)
        lost = 100 * (float((trial.answers[-1] == data["val"].labels).mean()) - point.accuracy)
        found[agreement] = (made, curve, point, lost)
        rows.append({"stated": agreement, "agreement": f"{point.agreement:.4f}", "accuracy": f"{point.accuracy:.4f}",
                     "points_lost": f"{lost:.2f}", "cost": f"{point.cost:.4f}", "measure": made.measure,
                     "thresholds": " ".join(f"{threshold:.6f}" for threshold in made.thresholds)})  # fmt: skip
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    write_rows(options.out / "validation.csv", rows)
    if options.look:
        return
    fitting = {agreement: one for agreement, one in found.items() if one[3] <= options.lose}
    if not fitting:
        raise SystemExit(f"no agreement of {options.agreement} loses at most {options.lose} points on validation")
    stated = min(fitting, key=lambda agreement: fitting[agreement][2].cost)
    made, curve, chosen, _ = fitting[stated]

    test = data["test"]
    alone = try_stages(stages, images_of(test, stages), batch=options.batch)
    said, where = made.scores(images_of(test, stages), batch=options.batch)
    answers = said.argmax(1).numpy()
    cascade, large = time_both(made, test, batch=options.batch, rounds=options.rounds, most=len(test))
    truth = test.labels.tolist()
    for number, stage in enumerate(stages):
        keep(options.out, stage.name, 0, truth, alone.answers[number].tolist(), stated="", agreement="", early="",
             parameters=count_parameters(stage.classify.model), milliseconds=f"{1000 * alone.seconds[number]:.4f}", speedup="")  # fmt: skip
    agreement = float((answers == alone.answers[-1]).mean())
    keep(options.out, "cascade", 0, truth, answers.tolist(), stated=stated, agreement=f"{100 * agreement:.2f}",
         early=f"{100 * float((where < len(stages) - 1).double().mean()):.2f}", parameters="", milliseconds=f"{1000 * cascade:.4f}",
         speedup=f"{large / cascade:.2f}")  # fmt: skip
    print(f"throughput {1 / cascade:,.0f} images per second, {stages[-1].name} alone {1 / large:,.0f}: {large / cascade:.2f}x")
    point = Point(cascade / large, agreement, float((answers == test.labels).mean()))
    (options.out / "cascade.png").write_bytes(to_png(draw_cascade(curve, chosen, point)))
    made.save(options.out / "runs" / "cascade")


if __name__ == "__main__":
    main()
