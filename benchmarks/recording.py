"""What recording costs: ViT-B/16 on one image, a plain forward pass beside one that is recorded.

    python benchmarks/recording.py [--model vit_base_patch16_224] [--rounds 10] [--threads 1]

Plain passes and recorded ones take turns, so that a change of the machine's speed meets all of them; the best of all rounds counts.
Allowed: 1.25 times a plain pass for all layers, 1.05 times for one.
"""

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

import vitrail as vt
from vitrail.explain import record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--position", default="learned_1d")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = vt.create_model(options.model, position=options.position).eval()
    images = torch.randn(1, model.config.in_channels, *model.image_size)
    kinds: dict[str, dict[str, Any] | None] = {
        "plain": None,
        "all layers": {},
        "one layer": {"layers": [-1]},
        "all layers, the class token's rows": {"queries": [0]},
        "one layer, one head, one query": {"layers": [-1], "heads": [0], "queries": [0]},
    }
    best = dict.fromkeys(kinds, float("inf"))
    with torch.inference_mode():
        model(images)
        for _ in range(options.rounds):
            for kind, asked in kinds.items():
                block: AbstractContextManager[Any] = nullcontext() if asked is None else record(model, **asked)
                with block:
                    started = time.process_time()
                    model(images)
                    best[kind] = min(best[kind], time.process_time() - started)
    print(f"{options.model}, position {options.position}, 1 image, {options.threads} thread(s), best of {options.rounds}")
    for kind, seconds in best.items():
        print(f"{kind:<38}{1000 * seconds:>9.1f} ms{seconds / best['plain']:>8.3f}x")


if __name__ == "__main__":
    main()
