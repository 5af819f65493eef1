"""The values that pages are made of, each by itself."""

import numpy as np

from vitrail.report.images import encode_image
from vitrail.report.parts import Cell, Drawing, Label, Poster, SortableTable


def test_a_sortable_table_keeps_the_numbers_beside_the_words():
    text = SortableTable(
        ("Class", "share"), [(Cell("x", '"x"'), Cell("–", float("nan"))), (Cell("y", "y"), Cell("50.0 %", 0.5))]
    ).__html__()
    assert 'data-value="&#34;x&#34;">x</th><td data-value="">–</td>' in text
    assert '<td data-value="0.5">50.0 %</td>' in text
    assert "aria-sort" not in text


def test_long_names_may_break_where_people_would_break_them():
    assert ">scottish_<wbr>terrier</bdi>" in Label("scottish_terrier").__html__()
    assert ">a_</bdi>" in Label("a_").__html__()


def test_photographs_are_small_and_drawings_exact():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert encode_image(noise).startswith(b"\xff\xd8")
    assert encode_image(noise[:32, :32]).startswith(b"\x89PNG")  # small: every pixel is seen
    assert encode_image(np.zeros((64, 64, 1), dtype=np.uint8)).startswith(b"\x89PNG")  # flat: the smaller file


def test_a_drawing_is_at_least_as_wide_as_its_smallest_text_needs():
    svg = '<svg viewBox="0 0 300 100"><text style="font-size: 6px">a</text><text style="font: 700 12px \'DejaVu Sans\'">b</text></svg>'
    assert 'style="--natural: 300px; --readable: 450px"' in Drawing(svg, "two letters").__html__()
    assert 'style="--natural: 300px"' in Drawing('<svg viewBox="0 0 300 100"></svg>', "nothing").__html__()


def test_a_poster_too():
    image = encode_image(np.zeros((7, 140, 1), dtype=np.uint8))
    assert 'style="--readable: 90px"' in Poster(image, "nothing").__html__()
    assert 'style="--readable: 126px"' in Poster(image, "nothing", font=10).__html__()
