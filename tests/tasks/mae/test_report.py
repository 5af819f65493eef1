"""Masked patches in the report: what is visible is transparent elsewhere, and the note says whose colors are shown."""

import numpy as np

from vitrail.tasks.mae.report import COLUMNS, DrawnImage, draw_rows, leave, show_drawn


def drawn(channels, hide=0.75):
    image = np.random.default_rng(0).integers(0, 255, (4, 6, channels), dtype=np.uint8)
    there = np.arange(24).reshape(4, 6) % 3 == 0
    return DrawnImage("<a>", hide, image, leave(image, there), image, image, -0.034), there


def test_what_is_left_is_the_image_and_nothing_elsewhere():
    for channels in (1, 3):
        one, there = drawn(channels)
        assert one.left.shape == (4, 6, 4)
        assert (one.left[..., 3] == 255 * there).all()
        assert (one.left[there][:, :3] == one.original[there]).all()
        assert not one.left[~there].any()


def test_rows_have_four_images_and_a_number():
    figure = draw_rows([drawn(3)[0], drawn(1)[0]], show_ratio=True)
    page = figure.axes[0]
    assert len(page.images) == 8
    words = [text.get_text().replace(",\n", ", ") for text in page.texts]
    assert words == [*COLUMNS, "explained", "75 %", "−3 %", "75 %", "−3 %"]


def test_the_note_says_whose_colors_they_are():
    one = drawn(3)[0]
    normalized, plain = (show_drawn([one], [one, drawn(3, 0.9)[0]], normalized=how)[0].__html__() for how in (True, False))
    assert "interpolated from the visible patches" in normalized
    assert "all colors are its own" in plain
    assert "&lt;a&gt; with 75 %, 90 % masked" in plain
    assert "<a>" not in plain.replace("&lt;a&gt;", "")
    assert show_drawn([], [], normalized=True) == []
