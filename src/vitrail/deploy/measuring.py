"""How long things take, measured in turns, and what the machine can do at best."""

import math
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

SIDE = 2048  # of the matrices whose product is the peak: large enough that nothing but arithmetic counts


class Timing(NamedTuple):
    """Seconds of every timed call, in their order."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def p50(self) -> float:
        return self.percentile(50.0)

    @property
    def p99(self) -> float:
        return self.percentile(99.0)

    def percentile(self, percent: float) -> float:
        """The smallest time that `percent` of the calls do not exceed (nearest rank)."""
        rank = math.ceil(percent / 100 * len(self.seconds))
        return sorted(self.seconds)[max(rank, 1) - 1]


def interleaved(
    runners: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    seconds: float = 0.0,
    warm: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Each runner once a round, in turns, so that a noisy moment hits all of them; one call of each before the first round.

    At least `rounds` rounds, and more until `seconds` of wall clock are over. `warm` calls that are not timed stand before each that is: a
    model finds caches, memory and threads as it leaves them, not as the runner before it does. `clock` may be `time.process_time` where other work
    shares the processor.
    """
    for run in runners.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runners}
    end, done = time.perf_counter() + seconds, 0
    while done < rounds or time.perf_counter() < end:
        for name, run in runners.items():
            for _ in range(warm):
                run()
            start = clock()
            run()
            taken[name].append(clock() - start)
        done += 1
    return {name: Timing(tuple(times)) for name, times in taken.items()}


def peak_runner(side: int = SIDE) -> tuple[Callable[[], object], float]:
    """A large matrix product on torch's threads, and its floating-point operations 2 n^3, to stand in a loop beside what is measured."""
    matrix = torch.ones(side, side)
    return lambda: matrix @ matrix, 2.0 * side**3


def matmul_peak(*, rounds: int = 5, side: int = SIDE) -> float:
    """GFLOP/s of the best of some large matrix products: what a model's work is compared with."""
    run, work = peak_runner(side)
    return work / interleaved({"peak": run}, rounds=rounds)["peak"].best / 1e9
