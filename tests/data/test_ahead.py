"""One batch ahead: same answers, same order, same errors; made by one thread while the caller works."""

import threading

import pytest
import torch

from vitrail.data.ahead import ahead
from vitrail.errors import VitrailError


def test_the_same_in_the_same_order() -> None:
    assert list(ahead(lambda x: x * x, range(7))) == [x * x for x in range(7)]
    assert list(ahead(lambda x: x, [])) == []


def test_the_next_is_made_while_this_one_is_used() -> None:
    made = threading.Event()

    def make(x: int) -> int:
        if x == 1:
            made.set()
        return x

    for x in ahead(make, range(2)):
        if x == 0:
            assert made.wait(timeout=60.0)  # by another thread: this one waits


def test_no_more_than_one_ahead() -> None:
    asked: list[int] = []
    for x in ahead(asked.append, iter(range(100))):
        assert x is None
        break
    assert len(asked) <= 2


def test_an_error_comes_at_its_turn() -> None:
    def make(x: int) -> int:
        if x == 2:
            raise VitrailError("two")
        return x

    found = ahead(make, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(VitrailError, match="two"):
        next(found)


def test_an_error_of_the_first_one() -> None:
    def make(x: int) -> int:
        raise VitrailError("none")

    with pytest.raises(VitrailError, match="none"):
        list(ahead(make, range(2)))


def test_threads_of_the_rest_of_the_program_stay() -> None:
    before, inside, later = torch.get_num_threads(), [], []
    torch.set_num_threads(2)
    try:
        for _ in ahead(lambda x: inside.append(torch.get_num_threads()), range(3)):
            assert torch.get_num_threads() == 2
        other = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        other.start()
        other.join()
    finally:
        torch.set_num_threads(before)
    assert inside == [1, 1, 1]
    assert later == [2]
