"""Draw test images of `shapes`, what a trained model says they are, and how much of each patch its attention pooling reads.

vitrail train --data shapes --minutes 7 --out runs/shapes
python examples/where_it_looks.py runs/shapes docs/images/shapes.png
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import vitrail as vt
from vitrail.data.transforms import prepare


def main(run: str = "runs/shapes", out: str = "docs/images/shapes.png", columns: int = 8) -> None:
    model = vt.load(run)
    test = vt.open_data("shapes", image_size=model.image_size)["test"]
    samples = [test[i] for i in range(2 * columns)]
    photos = [image for image, _ in samples]
    images = prepare(photos, model.preprocessing)
    with torch.inference_mode():
        tokens = model.forward_features(images)
        scores = model.forward_head(tokens).softmax(-1)
        weights = model.head.pool.weights(tokens).reshape(len(samples), *tokens.grid)  # b gh gw, each sums to 1
    chance = 1 / weights[0].numel()
    figure = Figure(figsize=(1.35 * columns, 5.9), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.02, w_pad=0.02, hspace=0.02, wspace=0.02)
    axes = figure.subplots(4, columns)
    for number, ((image, label), score, look) in enumerate(zip(samples, scores, weights, strict=True)):
        row, column = 2 * (number // columns), number % columns
        best = int(score.argmax())
        axes[row, column].imshow(image)
        color = "black" if best == label else "crimson"
        axes[row, column].set_title(f"{model.labels[best]} {100 * score[best]:.0f} %", fontsize=9, color=color)
        share = (look / chance).numpy()
        axes[row + 1, column].imshow(image.convert("L"), cmap="gray", vmin=-200, vmax=400)  # faint, so that the colors tell
        mapped = axes[row + 1, column].imshow(
            share, cmap="magma", alpha=(share / 4).clip(0.15, 0.9), vmin=0, vmax=8, interpolation="nearest",
            extent=(-0.5, image.width - 0.5, image.height - 0.5, -0.5),
        )  # fmt: skip
    for axis in axes.flat:
        axis.set_axis_off()
    bar = figure.colorbar(mapped, ax=axes, location="right", shrink=0.5, aspect=30, extend="max")
    bar.set_label("share of the pooled reading, 1 = an even share", fontsize=9)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
