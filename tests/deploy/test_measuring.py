"""Timing in turns."""

from types import SimpleNamespace

import pytest

from vitrail.deploy import measuring
from vitrail.deploy.measuring import Timing, interleaved, matmul_peak, peak_runner


def test_percentiles_are_nearest_ranks():
    timing = Timing(tuple(float(number) for number in range(100, 0, -1)))  # 1 to 100, in any order
    assert (timing.best, timing.p50, timing.p99, timing.percentile(100.0)) == (1, 50, 99, 100)
    assert Timing((3.0,)).p50 == Timing((3.0,)).p99 == Timing((3.0,)).best == 3
    assert Timing((4.0, 2.0, 3.0)).p50 == 3


def test_runners_take_turns_after_one_call_each_to_warm_up():
    calls: list[str] = []
    timings = interleaved({name: (lambda name=name: calls.append(name)) for name in "abc"}, rounds=3)
    assert calls == list("abc") * 4
    assert [len(timing.seconds) for timing in timings.values()] == [3, 3, 3]


def test_untimed_calls_stand_before_each_timed_one():
    calls: list[str] = []
    timings = interleaved({name: (lambda name=name: calls.append(name)) for name in "ab"}, rounds=2, warm=1)
    assert "".join(calls) == "ab" + "aabb" * 2
    assert [len(timing.seconds) for timing in timings.values()] == [2, 2]


def test_a_clock_counts_the_calls_alone():
    ticks = iter(range(100))
    timings = interleaved({"a": lambda: None, "b": lambda: next(ticks)}, rounds=2, clock=lambda: float(next(ticks)))
    assert timings["a"].seconds == (1, 1)
    assert timings["b"].seconds == (2, 2)  # its own tick, too


def test_rounds_go_on_until_the_seconds_are_over(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def run() -> None:
        now[0] += 0.5

    timings = interleaved({"a": run}, rounds=1, seconds=5.0, clock=lambda: now[0])
    assert timings["a"].seconds == (0.5,) * 10
    assert len(interleaved({"a": run}, rounds=12, seconds=5.0)["a"].seconds) == 12


def test_the_peak_is_work_over_time():
    run, work = peak_runner(8)
    assert work == 2 * 8**3
    assert run()[0, 0] == 8  # a product of ones
    assert matmul_peak(rounds=2, side=64) > 0


def test_an_interruption_goes_through():
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleaved({"a": stop}, rounds=1)
