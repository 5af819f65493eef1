"""A few images of a split."""

import numpy as np
from PIL import Image

from vitrail.data.dataset import FileSplit
from vitrail.data.examples import read_some, spread
from vitrail.preprocessing import neutral


def test_numbers_are_spread_from_the_first_to_the_last():
    assert spread(11, 3) == [0, 5, 10]
    assert spread(2, 7) == [0, 1]
    assert spread(1, 7) == [0]
    assert spread(0, 7) == []


def test_what_cannot_be_read_is_left_out(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        Image.new("L", (5, 4), 10 * number).save(path)
    split = FileSplit(paths, np.zeros(3, dtype=np.int64))
    paths[1].write_bytes(b"no image")
    some = read_some(split, neutral((4, 5), 1), 3)
    assert some is not None
    assert some.indices == [0, 2]
    assert some.images.shape == (2, 4, 5, 1)
    assert (some.images[1] == 20).all()
    for path in paths:
        path.write_bytes(b"no image")
    assert read_some(split, neutral((4, 5), 1), 3) is None
