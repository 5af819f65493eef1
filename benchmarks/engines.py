"""How fast our engines are beside timm's eager ViT with the same weights, in one process, interleaved.

    make bench PEERS=/path/to/python                                   # an environment with timm
    PYTHONPATH=src python benchmarks/engines.py --engines torch openvino --batches 1 8 --json engines.json

Each row is a forward pass of ViT-S/16 at 224 pixels: each call behind an untimed one of the same model, the best and the median time, how many times timm's eager speed that is (best
against best; without timm: ours), the share of the machine's peak (a large matrix product in the same loop, on the same threads), and the
largest difference of an answer from timm's.
"""

import argparse
import importlib.util
import json
import platform
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from speed import SIZES, add_site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", choices=list(SIZES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--engines", nargs="+", help="all that are installed, unless named")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--site", type=Path, help="lib folder of an environment with jaxtyping and the engines")
    parser.add_argument("--json", type=Path, help="a file to write the rows to")
    parser.add_argument("--cpu-time", action="store_true", help="count the processor's time: where other work shares it")
    options = parser.parse_args()
    add_site(options.site)
    warnings.filterwarnings("ignore")
    import torch

    from vitrail.deploy.engines import installed, make_engine
    from vitrail.deploy.measuring import interleaved, peak_runner

    torch.manual_seed(0)
    name = f"vit_{options.size}_patch16_224"
    ours, theirs = build(name)
    calls: dict[str, Any] = {} if theirs is None else {"timm": theirs}
    costs: dict[str, float] = {}
    for engine in options.engines or installed():
        start = time.perf_counter()
        calls[engine] = make_engine(ours, engine)
        costs[engine] = time.perf_counter() - start
    base = "timm" if "timm" in calls else next(iter(calls))
    print(
        f"{name}: torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}; {options.rounds} rounds, interleaved"
    )
    print("ready after  " + "  ".join(f"{engine} {seconds:.1f} s" for engine, seconds in costs.items()))
    print(f"{'batch':<6}{'engine':<13}{'best ms':>9}{'p50 ms':>9}{'p99 ms':>9}{'x ' + base:>9}{'of peak':>9}{'differs':>10}")
    rows: list[dict[str, Any]] = []
    peak, peak_work = peak_runner()
    clock = time.process_time if options.cpu_time else time.perf_counter
    with torch.inference_mode():
        for batch in options.batches:
            images = torch.randn(batch, 3, 224, 224)
            runners = {who: (lambda call=call, images=images: call(images)) for who, call in calls.items()}
            timings = interleaved({"peak": peak, **runners}, rounds=options.rounds, warm=1, clock=clock)
            gigaflops = peak_work / timings["peak"].best / 1e9
            expected = calls[base](images)
            for who, call in calls.items():
                timing = timings[who]
                row = {
                    "batch": batch, "engine": who, "best_ms": 1e3 * timing.best, "p50_ms": 1e3 * timing.p50, "p99_ms": 1e3 * timing.p99,
                    "speedup": timings[base].best / timing.best, "base": base,
                    "peak_share": 2 * SIZES[options.size][2] * batch / timing.best / 1e9 / gigaflops, "peak_gigaflops": gigaflops,
                    "difference": (call(images) - expected).abs().max().item(),
                }  # fmt: skip
                rows.append(row)
                print(f"{batch:<6}{who:<13}{row['best_ms']:>9.2f}{row['p50_ms']:>9.2f}{row['p99_ms']:>9.2f}{row['speedup']:>9.3f}"
                      f"{row['peak_share']:>9.1%}{row['difference']:>10.1e}", flush=True)  # fmt: skip
            print(f"{batch:<6}{'peak':<13}{gigaflops:.0f} GFLOP/s")
    if options.json is not None:
        about = {"model": name, "torch": torch.__version__, "threads": torch.get_num_threads(), "ready_seconds": costs}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


def build(name: str) -> tuple[Any, Any]:
    """Ours, and timm's where it is there, with ours holding timm's weights."""
    import vitrail as vt
    from vitrail.models.convert.vit import from_vit

    ours = vt.create_model(name).eval()
    if importlib.util.find_spec("timm") is None:
        print("timm is not in this environment: make bench PEERS=/path/to/python names one that has it")
        return ours, None
    import timm

    theirs = timm.create_model(name, num_classes=1000).eval()
    ours.load_state_dict(from_vit(theirs.state_dict(), ours.config))
    return ours, theirs


if __name__ == "__main__":
    main()
