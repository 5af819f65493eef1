"""Boxes and masks on images that carry an EXIF orientation, and the rule that tells stored pixels from upright ones."""

import io

import numpy as np
import pytest
from PIL import Image

from vitrail.data.annotations import Frame, annotate, ignore_index, mask_type, read_frame
from vitrail.data.images import ImageError, read_image
from vitrail.errors import VitrailError


def photo(pixels, orientation):
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    image.save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def hull(mask):
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_and_masks_turn_as_the_image_does(orientation):
    """A rectangle drawn on the stored pixels is found where the reader shows it."""
    pixels = np.zeros((5, 11), dtype=np.uint8)
    pixels[1:3, 2:9] = 200
    content = photo(pixels, orientation)
    upright, frame = np.asarray(read_image(content)), read_frame(content, name="x")
    assert frame == Frame((5, 11), orientation)
    assert upright.shape == frame.size == (11, 5)
    assert frame.turned((5, 11))
    assert not frame.turned((11, 5))
    box = np.array([[2, 1, 9, 3]], dtype=np.float32)
    assert frame.turn_boxes(box).tolist() == [hull(upright == 200)]
    assert (frame.turn_mask((pixels > 0).astype(np.uint8)) == (upright > 0)).all()


@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 9])
def test_sizes_cannot_tell_the_other_orientations_which_count_as_upright(orientation):
    frame = read_frame(photo(np.zeros((5, 11), dtype=np.uint8), orientation), name="x")
    assert frame.size == (5, 11)
    assert not frame.turned((5, 11))
    assert not frame.turned(None)


def test_annotations_of_another_size_are_refused():
    with pytest.raises(VitrailError, match="made for 22x10 pixels, it has 11x5"):
        Frame((5, 11)).turned((10, 22))


def test_a_square_photo_that_was_turned_counts_as_upright():
    assert not Frame((7, 7), 6).turned((7, 7))


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_no_image(content, tmp_path):
    with pytest.raises(ImageError, match=r"^name: "):
        read_frame(content, name="name")
    with pytest.raises(ImageError, match="no such file"):
        read_frame(tmp_path / "a.png")


def test_selecting_objects():
    found = annotate([[0, 0, 1, 1], [2, 2, 5, 5], [1, 1, 9, 9]], [4, 5, 6], crowd=[False, True, False])
    kept = found.select(np.array([False, True, True]))
    assert kept.boxes.tolist() == [[2, 2, 5, 5], [1, 1, 9, 9]]
    assert (kept.classes.tolist(), kept.crowd.tolist(), kept.difficult.tolist()) == ([5, 6], [True, False], [False, False])
    assert annotate().boxes.shape == (0, 4)


def test_masks_are_bytes_as_long_as_255_stays_free():
    assert (mask_type(255), mask_type(256)) == (np.uint8, np.int32)
    assert ignore_index(np.zeros((1, 1), dtype=np.uint8)) == 255
    assert ignore_index(np.zeros((1, 1), dtype=np.int32)) == -1


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_a_frame_is_that_of_the_image_whatever_the_format(kind):
    image = Image.new("L", (11, 5))
    exif = image.getexif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    image.save(buffer, kind, exif=exif)
    frame, upright = read_frame(buffer.getvalue()), read_image(buffer.getvalue())
    assert frame == Frame((5, 11), 6)
    assert frame.size == (upright.height, upright.width) == (11, 5)
