"""What a run of image GPT is worth, as a record: bits a pixel of every test image, and what a linear probe reads from each block.

    vitrail pretrain --method igpt --data digits --out runs/igpt
    python benchmarks/pixels.py runs/igpt --out FOLDER

--out gets bits.csv (one row per test image), means.csv, results.csv (one row per block, and one for the raw pixels) and the probe's answers, as
benchmarks/recompute.py reads them.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from records import keep, write_rows

import vitrail as vt
from vitrail.data.palette import Palette
from vitrail.data.transforms import read_fitted
from vitrail.explain.probe import Labelled, layer_features, probe_layers
from vitrail.run.stored import read_options

AT_ONCE = 128  # images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    trained, model = read_options(options.run / "config.yaml"), vt.load(options.run)
    data = vt.open_data(trained.data, seed=trained.seed, image_size=trained.image_size)  # what is drawn is drawn at its size
    palette, probed, pixels = Palette(model.palette.numpy()), {}, {}
    for name in ("train", "val", "test"):
        split = data[name]
        images = np.stack([read_fitted(split, index, model.preprocessing) for index in range(len(split))])
        ids, labels = torch.from_numpy(palette.encode(images)), torch.from_numpy(np.asarray(split.labels)).long()
        probed[name] = Labelled(layer_features(model, ids.split(AT_ONCE)), labels)
        pixels[name] = Labelled(torch.from_numpy(images).flatten(1)[None].double(), labels)
    with torch.inference_mode():  # the last split is test
        nats = torch.cat([model.log_likelihood(part) for part in ids.split(AT_ONCE)]) / ids.shape[1]
    bits = [{"bits": f"{-value / math.log(2):.4f}"} for value in nats.tolist()]
    write_rows(options.out / "bits.csv", bits)
    mean = sum(float(row["bits"]) for row in bits) / len(bits)
    row = {"table": "bits a pixel", "row": trained.model, "column": "bits", "files": "bits.csv", "mean": f"{mean:.3f}"}
    write_rows(options.out / "means.csv", [row])
    (options.out / "results.csv").unlink(missing_ok=True)
    for what, splits in (("block", probed), ("raw pixels", pixels)):
        for layer, answers in enumerate(probe_layers(splits, len(data.classes)).answers):
            name = what if what == "raw pixels" else f"{what} {layer + 1}"
            keep(options.out, name, trained.seed, splits["test"].labels.tolist(), answers)
    print(f"{mean:.3f} bits a pixel")
    print((options.out / "results.csv").read_text())


if __name__ == "__main__":
    main()
