"""Maps laid on images of any shape: over what the model saw, the hottest cell the brightest, the image's own pixels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.transforms import fit_image
from vitrail.explain.figures.placing import crop_seen, draw_frame, fit_between, lay_colors, lay_over, seen_box
from vitrail.preprocessing import neutral

CROP = neutral((16, 16), 3)
SQUASH = type(CROP)(size=(16, 16), fit="squash")


def gray(height, width, channels=3):
    return np.full((height, width, channels), 100, dtype=np.uint8)


def brightness(pixels):
    return pixels.astype(float).sum(axis=-1)


@given(height=st.integers(1, 300), width=st.integers(1, 300), rows=st.integers(1, 40), columns=st.integers(1, 40))
@settings(max_examples=80)
def test_what_is_seen_lies_in_the_middle_and_has_the_models_shape(height, width, rows, columns):
    left, top, right, bottom = seen_box((height, width), neutral((rows, columns), 3))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    assert abs(left - (width - right)) <= 1
    assert abs(top - (height - bottom)) <= 1
    assert left == 0 or top == 0  # one side is seen whole
    if min(right - left, bottom - top) > 20 * max(rows / columns, columns / rows):
        assert (right - left) / (bottom - top) == pytest.approx(columns / rows, rel=0.11)


def test_squashed_images_are_seen_whole():
    assert seen_box((50, 200), SQUASH) == (0, 0, 200, 50)


def test_the_part_is_the_one_that_preprocessing_takes():
    """Against `fit_image`: columns are numbered, and what comes out are those of the middle."""
    from PIL import Image

    image = np.zeros((16, 48, 3), dtype=np.uint8) + np.arange(48, dtype=np.uint8)[None, :, None] * 5
    assert (crop_seen(image, CROP) == fit_image(Image.fromarray(image), CROP)).all()


@pytest.mark.parametrize("shape", [(120, 300), (300, 120), (200, 200), (9, 31)])
@pytest.mark.parametrize("preprocessing", [CROP, SQUASH], ids=["crop", "squash"])
@pytest.mark.parametrize("cell", [(0, 0), (1, 2), (3, 3)])
def test_the_brightest_place_is_the_hottest_cell(shape, preprocessing, cell):
    shares = np.full((4, 4), 0.2)
    shares[cell] = 3.0
    drawn = lay_over(gray(*shape), shares, 4.0, preprocessing)
    factor = drawn.shape[0] // shape[0]
    assert drawn.shape == (factor * shape[0], factor * shape[1], 3)  # not squashed; small ones enlarged by a whole number
    left, top, right, bottom = seen_box(drawn.shape[:2], preprocessing)
    row, column = np.unravel_index(brightness(drawn).argmax(), drawn.shape[:2])
    assert (int((row - top) * 4 / (bottom - top)), int((column - left) * 4 / (right - left))) == cell


def test_an_image_of_many_pixels_keeps_all_of_them_and_what_was_not_seen_is_darker():
    drawn = lay_over(gray(200, 500), np.zeros((4, 4)), 1.0, CROP)
    assert drawn.shape == (200, 500, 3)
    assert brightness(drawn[:, 150:350]).min() > brightness(drawn[:, :150]).max()
    assert brightness(drawn[:, 150:350]).min() > brightness(drawn[:, 350:]).max()


def test_the_frame_is_around_the_patch_and_leaves_the_rest_alone():
    shares = np.ones((4, 5))
    plain, framed = (lay_over(gray(160, 200), shares, 2.0, SQUASH, query=query) for query in (None, (2, 1)))
    different = (plain != framed).any(axis=-1)
    rows, columns = np.flatnonzero(different.any(axis=1)), np.flatnonzero(different.any(axis=0))
    assert (rows[0], rows[-1], columns[0], columns[-1]) == (80, 119, 40, 79)
    assert not different[90:110, 50:70].any()
    assert framed[80, 60].tolist() == [255, 255, 255]


def test_the_frame_of_a_cell_that_is_thinner_than_its_line_stays_in_the_cell():
    pixels = np.zeros((400, 400, 3), dtype=np.uint8)  # a line of two pixels
    draw_frame(pixels, (0, 0), (400, 400))
    assert pixels[0, 0].all()
    pixels[0, 0] = 0
    assert not pixels.any()


def test_colors_stand_where_their_cells_are():
    colors = np.zeros((2, 2, 3))
    colors[1, 0] = (1, 0, 0)
    drawn = lay_colors(gray(200, 400, 1), colors, CROP)
    assert drawn.shape == (200, 400, 3)
    assert drawn[150, 150].tolist() == [255, 0, 0]
    assert drawn[150, 250].tolist() == [0, 0, 0]
    assert drawn[50, 50].min() > 0  # outside: the image, dark


def test_sizes_are_brought_between_their_bounds():
    assert fit_between(gray(8, 4)).shape == (128, 64, 3)
    assert fit_between(gray(400, 200, 1), largest=160).shape == (160, 80, 1)
    assert fit_between(gray(150, 130), largest=160).shape == (150, 130, 3)
