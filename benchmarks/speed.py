"""How fast our eager models are beside timm's and transformers', in one process, interleaved, best of several.

    make bench PEERS=/path/to/python        # an environment with timm and transformers
    make bench                              # ours alone, beside the matrix-multiply peak

Each row is the time of the same work for every library (the same sizes, random weights and images: the mathematics is the
same, tests/models/test_parity.py), the ratio theirs / ours (above 1: we are faster), and the share that ours has of the
machine's own peak, measured as a large matrix product in the same loop.
"""

import argparse
import importlib.util
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

SIZES = {
    "tiny": (192, 3, 1.26e9),
    "small": (384, 6, 4.61e9),
    "base": (768, 12, 17.58e9),
}  # width, heads, multiply-adds an image


def add_site(site: Path | None) -> None:
    """Let a peers' environment find the few small packages of ours that it lacks (jaxtyping), behind its own."""
    if site is not None:
        sys.path += [str(path) for path in site.glob("python*/site-packages")]


def race(runners: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each, taken in turns so that a noisy moment hits all of them."""
    best = dict.fromkeys(runners, float("inf"))
    for run in runners.values():
        run()
    for _ in range(rounds):
        for name, run in runners.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--batches", nargs="+", type=int, default=[8, 1])
    parser.add_argument("--site", type=Path, help="lib folder of an environment with jaxtyping")
    options = parser.parse_args()
    add_site(options.site)
    warnings.filterwarnings("ignore")
    import torch

    import vitrail as vt

    torch.manual_seed(0)
    peers = [name for name in ("timm", "transformers") if importlib.util.find_spec(name)]
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}; best of {options.rounds}, interleaved"
    )
    if "timm" not in peers:
        print("timm is not in this environment: make bench PEERS=/path/to/python names one that has it")
    matrix = torch.randn(2048, 2048)
    peak_work = 2 * 2048**3

    def peak() -> None:
        matrix @ matrix

    def report(what: str, best: dict[str, float], work: float) -> None:
        share = work / best["vitrail"] / (peak_work / best["peak"])
        ratios = "  ".join(
            f"{name}/ours {best[name] / best['vitrail']:.3f}" for name in best if name not in ("vitrail", "peak")
        )
        times = "  ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in best.items() if name != "peak")
        print(
            f"{what:<28} {times:<60} {ratios:<44} {share:.0%} of peak ({peak_work / best['peak'] / 1e9:.0f} GFLOP/s)",
            flush=True,
        )

    def build(
        size: str, image: int, patch: int, depth: int, classes: int, heads: int, width: int
    ) -> dict[str, torch.nn.Module]:
        models = {"vitrail": vt.create_model(f"vit_{size}_patch16_224", width=width, depth=depth, heads=heads, image_size=image,
                                             patch=patch, num_classes=classes)}  # fmt: skip
        if "timm" in peers:
            import timm

            models["timm"] = timm.models.vision_transformer.VisionTransformer(
                img_size=image, patch_size=patch, embed_dim=width, depth=depth, num_heads=heads, num_classes=classes
            )
        if "transformers" in peers:
            import transformers

            config = transformers.ViTConfig(
                hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=4 * width, image_size=image,
                patch_size=patch, num_labels=classes, attn_implementation="sdpa",
            )  # fmt: skip
            models["transformers"] = transformers.ViTForImageClassification(config)
        return models

    print("\nforward, eager, 224 px patch 16")
    for size in options.sizes:
        width, heads, multiply_adds = SIZES[size]
        models = build(size, 224, 16, 12, 1000, heads, width)
        for batch in options.batches:
            images = torch.randn(batch, 3, 224, 224)

            def forward(model: torch.nn.Module, images: torch.Tensor = images) -> object:
                with torch.inference_mode():
                    return model.eval()(images)

            runners = {name: (lambda model=model: forward(model)) for name, model in models.items()} | {"peak": peak}
            report(
                f"ViT-{size} batch {batch}", race(runners, options.rounds * (3 if batch == 1 else 1)), 2 * multiply_adds * batch
            )

    print("\ntraining step (forward, backward, AdamW), 32 px patch 4, width 192, depth 6, batch 64")
    models = build("tiny", 32, 4, 6, 10, 3, 192)
    images, labels = torch.randn(64, 3, 32, 32), torch.randint(10, (64,))

    def trainer(model: torch.nn.Module) -> Callable[[], object]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        model.train()

        def step() -> None:
            output = model(images)
            loss = torch.nn.functional.cross_entropy(getattr(output, "logits", output), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        return step

    tokens, width = 65, 192
    per_image = 6 * (12 * tokens * width**2 + 2 * tokens**2 * width) + 64 * 48 * width
    report(
        "training step",
        race({name: trainer(m) for name, m in models.items()} | {"peak": peak}, options.rounds),
        3 * 2 * per_image * 64,
    )


if __name__ == "__main__":
    main()
