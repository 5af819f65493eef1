"""How fast Swin is beside timm's, in one process, interleaved, best of several; how its time grows with the area; and what stays in memory.

    PYTHONPATH=src /path/to/python benchmarks/swin.py --site LIB     # a Python that has timm; LIB has jaxtyping
    PYTHONPATH=src python benchmarks/swin.py                         # ours alone

Swin-T's forward pass at 224 pixels with the same weights (the difference of the logits is printed: it is a parity check with timm, too),
four times the area, and 100 images of different sizes with the memory that is held behind them. (torch itself keeps a kernel for each
new shape of a matrix product, a bounded number of them: nn.Linear alone grows by as much.)
"""

import argparse
import ctypes
import gc
import importlib.util
import itertools
import platform
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from speed import add_site, race

NAMES = {1: "swin_tiny_patch4_window7_224", 2: "swinv2_tiny_window8_256"}


def held() -> int:
    """Bytes of memory that the process has now, once the allocator has given back what is free."""
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--batches", nargs="*", type=int, default=[8, 1])
    parser.add_argument("--versions", nargs="*", type=int, default=[1, 2], choices=list(NAMES))
    parser.add_argument("--site", type=Path, help="lib folder of an environment with jaxtyping")
    parser.add_argument("--skip", nargs="+", default=[], choices=["area", "sizes"])
    options = parser.parse_args()
    add_site(options.site)
    warnings.filterwarnings("ignore")
    import torch

    import vitrail as vt
    from vitrail.models.convert.swin import to_swin

    torch.manual_seed(0)
    has_timm = importlib.util.find_spec("timm") is not None
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}; best of {options.rounds}, interleaved"
        + ("" if has_timm else "; timm is not in this environment")
    )
    for version in options.versions:
        name = NAMES[version]
        models = {"vitrail": vt.create_model(name).eval()}
        ours = models["vitrail"]
        if has_timm:
            import timm

            models["timm"] = timm.create_model(name).eval()
            models["timm"].load_state_dict(to_swin(ours.state_dict(), ours.config, style="timm"))
        with torch.inference_mode():
            for batch in options.batches:
                images = torch.randn(batch, 3, *ours.image_size)
                best = race(
                    {who: (lambda model=model, images=images: model(images)) for who, model in models.items()}, options.rounds
                )
                line = "  ".join(f"{who} {1e3 * seconds:.1f} ms" for who, seconds in best.items())
                if has_timm:
                    apart = (ours(images) - models["timm"](images)).abs().max()
                    line += f"  timm/ours {best['timm'] / best['vitrail']:.3f}  largest difference {apart:.1e}"
                print(f"{name} batch {batch:<3} {line}", flush=True)
    ours = vt.create_model(NAMES[1]).eval()
    with torch.inference_mode():
        if "area" not in options.skip:
            for side in (224, 448):  # 112 would not fill a window in its last stage
                by_size = {edge: torch.randn(1, 3, edge, edge) for edge in (side, 2 * side)}
                best = race({str(edge): (lambda x=x: ours(x)) for edge, x in by_size.items()}, options.rounds)
                ratio = best[str(2 * side)] / best[str(side)]
                print(f"from {side} to {2 * side} pixels, four times the area: {ratio:.2f} times the time", flush=True)
        if "sizes" not in options.skip:
            ours = vt.create_model("swin_nano_patch2_window4_32").eval()
            memory = []
            for number in [
                *range(300),
                *range(200, 300),
            ]:  # of one range; the first hundred fill caches, the last are sizes seen before
                ours(torch.randn(1, 3, 33 + 37 * number % 97, 40 + 53 * number % 89))
                if number % 100 == 99:
                    memory.append(held())
            grown = [f"{(later - before) / 2**20:+.1f}" for before, later in itertools.pairwise(memory)]
            print(
                f"memory behind 100 more sizes, 100 more, and 100 that it has seen: {', '.join(grown)} MiB of {memory[0] / 2**20:.0f}"
            )


if __name__ == "__main__":
    main()
