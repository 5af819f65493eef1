"""Which number of a mask is which class: what is said, what names say, and what the masks themselves show."""

import numpy as np
import pytest

from vitrail.data.formats.numbering import (
    Numbering,
    check_ignored,
    is_void,
    number_named,
    number_unnamed,
)
from vitrail.errors import VitrailError


def named(seen, names, ignore=None):
    numbering, classes = number_named([seen], names.split(), ignore)
    return numbering.values, classes


def unnamed(seen, ignore=None):
    numbering, classes = number_unnamed(seen, ignore)
    return numbering.values, classes


@pytest.mark.parametrize(
    ("seen", "ignore", "values"),
    [
        ([0, 1, 2], None, (0, 1, 2)),
        ([0, 1, 2], (2,), (0, 1)),  # the highest: the others keep their numbers
        ([0, 1, 2], (0,), (1, 2)),
        ([0, 3], (1,), (0, 2, 3)),  # a gap is a class that nobody has drawn
        ([1, 2, 3], None, (1, 2, 3)),
        ([1, 2, 3], (), (0, 1, 2, 3)),  # somebody says that nothing is ignored
        ([1, 2, 255], None, (1, 2)),
        ([2, 3], None, (0, 1, 2, 3)),  # no set counts from 2
        ([1], None, (0, 1)),
        ([0, 255, 300], None, tuple(range(301))),
        ([0, 255], (77,), (0, 255)),
        ([0, 1], (255,), (0, 1)),
    ],
)
def test_without_names_classes_are_called_as_their_numbers(seen, ignore, values):
    found, classes = unnamed(seen, ignore)
    assert found == values
    assert classes == (("0", "1") if values == (0, 255) else tuple(map(str, values)))


@pytest.mark.parametrize(
    ("seen", "names", "ignore", "expected"),
    [
        ([0, 1, 2], "sky road void", None, {0: "sky", 1: "road"}),
        ([0, 1, 2], "Unlabelled sky road", None, {1: "sky", 2: "road"}),
        ([0, 1, 2], "sky void road", None, {0: "sky", 2: "road"}),
        ([0, 1, 2], "sky road void", (255,), {0: "sky", 1: "road", 2: "void"}),  # said to be a class
        ([0, 1, 2], "sky road", (2,), {0: "sky", 1: "road"}),  # the highest needs no line
        ([0, 1, 2], "sky road", (0,), {1: "sky", 2: "road"}),  # only classes have lines
        ([0, 1, 2], "none sky road", (0,), {1: "sky", 2: "road"}),  # every number has a line
        ([1, 2, 3], "pet ground border", None, {1: "pet", 2: "ground", 3: "border"}),
        ([1, 2], "ground pet border", None, {0: "ground", 1: "pet", 2: "border"}),
        ([0, 1, 9], "none sky road", (0,), {1: "sky", 2: "road"}),  # 9 fits neither way
        ([0, 255], "no yes", None, {0: "no", 255: "yes"}),
    ],
)
def test_names_have_a_line_for_each_number_or_for_each_class(seen, names, ignore, expected):
    values, classes = named(seen, names, ignore)
    assert dict(zip(values, classes, strict=True)) == expected


def test_names_that_say_no_class():
    assert all(map(is_void, ("void", "Void", "un-labelled", "unlabeled", "don't care", "ignore")))
    assert not any(map(is_void, ("background", "other", "unknown car", "avoid", "0")))


@pytest.mark.parametrize("number", [-1, 65536])
def test_numbers_that_no_mask_can_hold(number):
    with pytest.raises(VitrailError, match=f"--ignore-index takes numbers of masks, from 0 to 65535, got {number}"):
        check_ignored((3, number))


def test_applied_to_a_mask():
    numbering = Numbering(values=(1, 3), ignored=(0, 2))
    assert numbering.apply(np.array([[0, 1, 2, 3, 255, -1]])).tolist() == [[255, 0, 255, 1, 255, 255]]
    with pytest.raises(VitrailError, match="class number 7, and there are 2 classes"):
        numbering.apply(np.array([[1, 7]]))
    many = Numbering(values=tuple(range(1, 301)), ignored=(0,), nothing=65535)
    assert many.apply(np.array([[0, 300, 65535]])).tolist() == [[-1, 299, -1]]
