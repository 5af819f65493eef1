"""What training costs on many machines (predicted), and whether the prediction holds on this one (measured).

    python benchmarks/scaling.py --table          # the tables of docs/scale.md
    python benchmarks/scaling.py                  # peak, one configuration to calibrate, two to predict
    python benchmarks/scaling.py --processes 2    # the same work on 1 and on 2 gloo processes

The cost model is src/vitrail/run/cost.py. Its utilization is measured on one configuration and then used for two others.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402

from vitrail.learn.training.world import World  # noqa: E402
from vitrail.models.vit import ViTConfig, build_vit  # noqa: E402
from vitrail.models.vit_presets import SIZES  # noqa: E402
from vitrail.run.cost import (  # noqa: E402
    Forecast,
    Machine,
    activation_bytes,
    all_reduce_seconds,
    parameter_count,
    predict,
    state_bytes,
    training_flops,
)

ACCELERATOR = Machine(
    name="accelerator of 312 TFLOP/s, eight a host",
    peak=312e12,
    utilization=0.4,
    memory=80e9,
    memory_bandwidth=2e12,
    host=8,
    inside=200e9,
    between=20e9,
    overlap=0.7,
    read=1500.0,
    block_seconds=1.5e-3,
)
DATA = {"ImageNet-1k": (1_281_167, 1000, 300), "ImageNet-21k": (14_197_122, 21_841, 90)}  # images, classes, epochs
NAMES = {"small": "ViT-S/16", "base": "ViT-B/16", "large": "ViT-L/16"}
WORLDS = (8, 64, 256, 1024)

CALIBRATION = ViTConfig(width=256, depth=6, heads=4, patch=8, image_size=(96, 96), num_classes=100)
PREDICTED = {
    "narrow and deep, few tokens": ViTConfig(width=192, depth=12, heads=3, patch=16, image_size=(128, 128), num_classes=100),
    "wide and shallow, many tokens": ViTConfig(width=384, depth=4, heads=6, patch=8, image_size=(112, 112), num_classes=100),
}
BATCH = 8


def batch_for(processes: int) -> int:
    return 1024 if processes < 128 else 4096


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [header, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def spell_time(hours: float) -> str:
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} d"


def cost_table() -> str:
    """One row per training: hours, accelerator-hours and what limits it."""
    rows = list[list[str]]()
    for data, (images, classes, epochs) in DATA.items():
        for size, name in NAMES.items():
            config = replace(SIZES[size], num_classes=classes)
            for processes in WORLDS:
                batch = batch_for(processes)
                found = predict(config, ACCELERATOR, images=images, epochs=epochs, processes=processes, batch=batch)
                rows.append(
                    [
                        f"{data}, {epochs} epochs",
                        name,
                        f"{processes:,}",
                        f"{batch:,}",
                        f"{found.flops / 1e18:,.0f}",
                        f"{1000 * found.step_seconds:.0f} ms",
                        spell_time(found.hours),
                        f"{found.hours * processes:,.0f}",
                        f"{found.memory / 1e9:.1f} GB",
                        found.limit,
                    ]
                )
    header = [
        "data",
        "model",
        "accelerators",
        "batch",
        "EFLOP",
        "a step",
        "in all",
        "accelerator-hours",
        "memory",
        "limited by",
    ]
    return markdown(header, rows)


def memory_table() -> str:
    """Bytes a parameter and an image."""
    rows = list[list[str]]()
    for size, name in NAMES.items():
        config = SIZES[size]
        count = parameter_count(config)
        rows.append(
            [
                name,
                f"{count / 1e6:.1f}",
                *(f"{count * state_bytes(precision, averaged=True) / 1e9:.2f} GB" for precision in ("fp32", "bf16")),
                f"{count * state_bytes('bf16', averaged=True, shards=8) / 1e9:.2f} GB",
                *(f"{activation_bytes(config, precision) / 1e6:.0f} MB" for precision in ("fp32", "bf16")),
            ]
        )
    header = ["model", "million parameters", "fp32", "bf16", "bf16, sharded over 8", "per image, fp32", "per image, bf16"]
    return markdown(header, rows)


def tables() -> dict[str, str]:
    """What docs/scale.md contains, by name; tests/run/test_cost.py compares."""
    return {"memory": memory_table(), "cost": cost_table()}


def race(works: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The best time of each, taken in turns so that a busy moment hits all of them.

    One thread and its own time: a machine that others use too still gives the same numbers.
    """
    torch.set_num_threads(1)
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, work in works.items():
            begin = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def stepper(config: ViTConfig, batch: int, world: World) -> Callable[[], object]:
    """One training step on random images, as a function to time."""
    torch.manual_seed(0)
    model = build_vit(config)
    wrapped, optimizer = world.wrap(model), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images, labels = torch.randn(batch, config.in_channels, *config.image_size), torch.randint(config.num_classes, (batch,))

    def step() -> object:
        loss = torch.nn.functional.cross_entropy(wrapped(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return optimizer.step()

    return step


def step_forecast(config: ViTConfig, machine: Machine) -> Forecast:
    return predict(config, machine, images=BATCH, epochs=1, batch=BATCH, precision="fp32")


def calibrate(machine: Machine, measured: float) -> Machine:
    """The machine with the utilization that explains the step time of CALIBRATION."""
    compute = measured - step_forecast(CALIBRATION, machine).optimizer_seconds
    return replace(machine, utilization=BATCH * training_flops(CALIBRATION) / compute / machine.peak)


def compare(seconds: float) -> None:
    """Peak and copying rate of this machine, the utilization of one configuration, and what they say of two others."""
    a, b, source, target = torch.randn(1536, 1536), torch.randn(1536, 1536), torch.randn(2**24), torch.empty(2**24)
    configs = {"calibration": CALIBRATION, **PREDICTED}
    steps = {name: stepper(config, BATCH, World()) for name, config in configs.items()}
    found = race({"product": lambda: a @ b, "copy": lambda: target.copy_(source), **steps}, seconds)
    machine = Machine(
        name="this machine", peak=2 * 1536**3 / found["product"], utilization=1.0, memory=0.0,
        memory_bandwidth=2 * source.nbytes / found["copy"], host=1, inside=1.0, between=1.0, overlap=0.0, read=1e9,
    )  # fmt: skip
    print(f"one thread, best of the times taken in turns for {seconds:g} s, {BATCH} images a step")
    print(f"matrix product {machine.peak / 1e9:,.0f} GFLOP/s, copy {machine.memory_bandwidth / 1e9:.1f} GB/s")
    machine = calibrate(machine, found["calibration"])
    print(f"calibration: {1000 * found['calibration']:.0f} ms, {machine.utilization:.0%} of the peak")
    for name, config in PREDICTED.items():
        expected = step_forecast(config, machine).step_seconds
        off = expected / found[name] - 1
        print(f"{name}: predicted {1000 * expected:.0f} ms, measured {1000 * found[name]:.0f} ms ({off:+.0%})")


def one_process(seconds: float) -> None:
    """What each of the processes of `efficiency` does: one thread, a fixed share of images, the same number of steps."""
    torch.set_num_threads(1)
    world = World.join(timeout=120.0)
    step = stepper(CALIBRATION, BATCH, world)
    step()
    end, best, rate = time.perf_counter() + seconds, float("inf"), 0.0
    while not world.any(time.perf_counter() > end):  # all of them stop together
        begin = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - begin)
    if world.size > 1:
        gradient = torch.zeros(parameter_count(CALIBRATION))
        machine = replace(ACCELERATOR, inside=1.0, between=1.0)  # a byte a second: the time is then the bytes that are sent
        for _ in range(10):
            world.wait()
            begin = time.perf_counter()
            torch.distributed.all_reduce(gradient)
            taken = time.perf_counter() - begin
            rate = max(rate, all_reduce_seconds(float(gradient.nbytes), machine=machine, processes=world.size) / taken)
    if world.first:
        print(json.dumps({"step": best, "rate": rate}))
    world.leave()


def launch(processes: int, seconds: float) -> dict[str, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, __file__, "--child", "--seconds", str(seconds)]
    where = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            words, env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(processes)
    ]
    try:
        texts = [process.communicate(timeout=60 + 10 * seconds)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    return json.loads(texts[0])


def efficiency(processes: int, seconds: float) -> None:
    """Steps a second of one process over those of several that each do as much: 100 % would be perfect."""
    one, several = launch(1, seconds), launch(processes, seconds)
    print(f"1 process, {BATCH} images a step, one thread: {1000 * one['step']:.0f} ms")
    print(
        f"{processes} processes, {BATCH} images each: {1000 * several['step']:.0f} ms, efficiency {one['step'] / several['step']:.0%}"
    )
    sent = 4 * parameter_count(CALIBRATION)
    print(f"exchange of {sent / 1e6:.1f} MB of gradients alone: {several['rate'] / 1e9:.2f} GB/s each way")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the tables of docs/scale.md")
    parser.add_argument("--processes", type=int, help="compare 1 with so many gloo processes")
    parser.add_argument("--seconds", type=float, default=20.0, help="to spend on measuring")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        print("\n\n".join(tables().values()))
    elif options.child:
        one_process(options.seconds)
    elif options.processes:
        efficiency(options.processes, options.seconds)
    else:
        compare(options.seconds)


if __name__ == "__main__":
    main()
