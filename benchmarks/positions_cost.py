"""What each position scheme costs: time of a forward pass beside that of the same model without positions.

    python benchmarks/positions_cost.py                        # ViT-S/16, 224 px, batch 8, inference; about five minutes on two cores
    python benchmarks/positions_cost.py --rounds 2 --size tiny --image 96

All schemes run in one process in turns, and `none` runs between any two of them. A ratio is that of a pass to the mean of the passes of `none` right
before and after it; the median over the rounds counts, so that a slow moment of the machine does not look like a slow scheme.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> None:
    import torch

    import vitrail as vt
    from vitrail.models.parts import POSITIONS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=["tiny", "small", "base"])
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--schemes", nargs="+", default=list(POSITIONS), choices=list(POSITIONS))
    parser.add_argument("--where", default="auto", choices=["auto", "layers", "layers_apart"])
    options = parser.parse_args()

    torch.manual_seed(0)
    images = torch.randn(options.batch, 3, options.image, options.image)

    def build(name: str) -> torch.nn.Module:
        return vt.create_model(
            f"vit_{options.size}_patch16_224", image_size=options.image, position=name, position_where=options.where
        ).eval()

    def seconds(model: torch.nn.Module) -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            model(images)
        return time.perf_counter() - start

    plain, models = build("none"), {name: build(name) for name in options.schemes}
    for model in (plain, *models.values()):
        seconds(model)
    ratios: dict[str, list[float]] = {name: [] for name in models}
    before = base = seconds(plain)
    for _ in range(options.rounds):
        for name, model in models.items():
            taken, after = seconds(model), seconds(plain)
            ratios[name].append(2 * taken / (before + after))
            before, base = after, min(base, after)
    print(
        f"ViT-{options.size}/16 {options.image} px, batch {options.batch}, inference, {torch.get_num_threads()} threads, "
        f"median of {options.rounds} rounds; none takes {1e3 * base:.1f} ms at best"
    )
    for name, found in sorted(ratios.items(), key=lambda row: statistics.median(row[1])):
        print(f"{name:28} {statistics.median(found):6.3f} x none")


if __name__ == "__main__":
    main()
