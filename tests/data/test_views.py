"""Views: cut and resized as Pillow does, colors as written down, and functions of (seed, epoch, index, view) alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

from vitrail.data.color_views import LIGHT, TO_HUE, change_colors, solarize, turn_hue
from vitrail.data.dataset import ArraySplit, FileSplit
from vitrail.data.digits import open_digits
from vitrail.data.transforms import to_unit
from vitrail.data.views import NUMBERS, Look, boxes, draw_view, half_size, looks, make_views, reading, view_loader
from vitrail.errors import VitrailError
from vitrail.preprocessing import neutral

RANDOM = np.random.default_rng(0)


def some_images(count: int = 5, size: tuple[int, int] = (19, 23)) -> np.ndarray:
    return RANDOM.integers(0, 256, (count, *size, 3), dtype=np.uint8)


@pytest.mark.parametrize(("target", "box"), [((11, 7), (2.25, 3.5, 20.0, 18.75)), ((29, 31), (1.0, 2.0, 9.5, 12.25))])
def test_a_crop_is_read_as_pillow_resizes_a_box(target, box):
    left, top, right, bottom = box
    [image] = some_images(1)
    none = np.zeros(1)
    rows = reading(19, target[0], np.array([top]), np.array([bottom - top]), none, none.astype(bool))[0]
    columns = reading(23, target[1], np.array([left]), np.array([right - left]), none, none.astype(bool))[0]
    for channel in range(3):
        gray = image[..., channel].astype(np.float32)
        mine = rows @ gray @ columns.T
        # Pillow leaves out pixels beyond the box; ours, like torchvision's crop before that, would too: only inner ones are compared.
        theirs = np.asarray(Image.fromarray(gray).resize(target[::-1], Image.Resampling.BICUBIC, box=box))
        assert np.abs(mine - theirs)[3:-3, 3:-3].max() < 0.05


def test_rows_of_a_reading_sum_to_one_and_a_mirrored_one_is_backwards():
    start, length, blur = np.array([0.0, 3.5]), np.array([19.0, 9.0]), np.array([0.0, 1.5])
    plain = reading(19, 8, start, length, blur, np.array([False, False]))
    assert_close(plain.sum(2), np.ones((2, 8), np.float32), rtol=0, atol=1e-5)
    assert (reading(19, 8, start, length, blur, np.array([True, True])) == plain[:, ::-1]).all()
    assert (reading(8, 8, np.zeros(1), np.array([8.0]), np.zeros(1), np.array([False]))[0] == np.eye(8)).all()


@settings(max_examples=40)
@given(
    st.tuples(st.integers(4, 60), st.integers(4, 60)),
    st.floats(0.05, 1.0),
    st.lists(st.floats(0, 0.999), min_size=4, max_size=4),
)
def test_boxes_have_the_area_and_lie_inside(size, area, draws):
    (height, width), (top, left) = boxes(size, Look(size=(8, 8), area=(area, area), blur=0.0), np.array([draws]))
    assert top[0] >= 0
    assert left[0] >= 0
    assert top[0] + height[0] <= size[0] + 1e-9
    assert left[0] + width[0] <= size[1] + 1e-9
    assert height[0] * width[0] == pytest.approx(area * size[0] * size[1], rel=1e-6)


def test_colors_by_hand():
    image = torch.tensor([0.2, 0.4, 0.6])[None, :, None, None].expand(1, 3, 2, 2)
    never = np.array([[0.9, 0.0, 0.0, 0.0, 0.0, 0.9]])
    assert_close(change_colors(image, never, jitter=0.8, gray=0.2), image, rtol=0, atol=1e-6)
    gray = change_colors(image, np.array([[0.9, 0, 0, 0, 0, 0.1]]), jitter=0.8, gray=0.2)
    assert_close(gray, torch.full((1, 3, 2, 2), float(LIGHT @ [0.2, 0.4, 0.6])), rtol=0, atol=1e-6)
    # Brightness 1.4 alone, the others at their middle, which changes nothing.
    bright = change_colors(image, np.array([[0.0, 1.0, 0.5, 0.5, 0.5, 0.9]]), jitter=0.8, gray=0.2)
    assert_close(bright, 1.4 * image, rtol=0, atol=1e-6)
    # One channel: contrast 0.6 about the mean 0.5 of 0 and 1.
    two = torch.tensor([0.0, 1.0])[None, None, None]
    assert_close(
        change_colors(two, np.array([[0.0, 0.5, 0.0, 0.9, 0.9, 0.0]]), jitter=0.8, gray=1.0),
        torch.tensor([0.2, 0.8])[None, None, None],
    )


def test_hue_turns_leave_gray_and_light_and_come_back():
    turns = np.array([0.1, -0.37])
    gray = np.full(3, 0.7)
    assert np.allclose(turn_hue(turns) @ gray, gray)
    assert np.allclose(LIGHT @ turn_hue(turns), LIGHT)
    assert np.allclose(turn_hue(turns) @ turn_hue(-turns), np.eye(3))


def test_a_hue_is_an_angle_and_a_whole_one_is_a_full_turn():
    """A quarter turn takes the first of the two axes of color to the second; three of them are a quarter turn back; a twelfth is 30 degrees."""
    axes = TO_HUE @ turn_hue(np.array([0.25, 0.75, 1.0, 1 / 12])) @ np.linalg.inv(TO_HUE)
    quarter = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    twelfth = np.array([[1, 0, 0], [0, 3**0.5 / 2, -0.5], [0, 0.5, 3**0.5 / 2]])
    assert np.allclose(axes, [quarter, quarter.T, np.eye(3), twelfth])


def test_hues_change_by_a_tenth_of_a_turn_at_most():
    """[Grill+ 2020, table 6]. All else stands at its middle, which changes nothing."""
    image = torch.tensor([0.2, 0.4, 0.9])[None, :, None, None].expand(1, 3, 2, 2)
    for draw, turn in ((1.0, 0.1), (0.0, -0.1), (0.75, 0.05)):
        found = change_colors(image, np.array([[0.0, 0.5, 0.5, 0.5, draw, 0.9]]), jitter=0.8, gray=0.2)
        expected = torch.from_numpy(turn_hue(np.array([turn]))[0] @ np.array([0.2, 0.4, 0.9])).float()
        assert_close(found, expected[None, :, None, None].expand(1, 3, 2, 2), rtol=0, atol=1e-6)


def test_solarized_values_are_complements():
    x = torch.tensor([0.25, 0.75])[None, None, None].expand(2, 3, 1, 2)
    found = solarize(x, np.array([True, False]))
    assert found[0, 0, 0].tolist() == [0.25, 0.25]
    assert (found[1] == x[1]).all()


def test_a_view_depends_on_seed_epoch_index_and_number_alone():
    images, indices = to_unit(some_images(6)), np.array([3, 9, 4, 100, 7, 2])
    wanted = looks((16, 16), (8, 8), 3, mirror=True, area=0.3)
    every = make_views(images, wanted, seed=5, epoch=2, indices=indices)
    assert [tuple(view.shape) for view in every] == [(6, 3, 16, 16)] * 2 + [(6, 3, 8, 8)] * 3
    fewer = make_views(images, wanted[:3], seed=5, epoch=2, indices=indices)
    assert all((one == other).all() for one, other in zip(fewer, every, strict=False))
    some = make_views(images[[4, 1]], wanted, seed=5, epoch=2, indices=indices[[4, 1]])
    assert_close(some[2], every[2][[4, 1]], rtol=0, atol=1e-6)
    assert not (every[2] == every[3]).all()  # views of one look differ
    for changed in ({"seed": 6}, {"epoch": 3}, {"indices": indices + 1}):
        others = make_views(images, wanted, **{"seed": 5, "epoch": 2, "indices": indices, **changed})
        assert (others[0] - every[0]).abs().max() > 0.1
    assert all(view.min() >= 0 and view.max() <= 1 for view in every)


def test_only_what_may_be_mirrored_is():
    ramp = torch.linspace(0, 1, 20).expand(64, 1, 20, 20)
    draws = np.random.default_rng(1).random((64, NUMBERS))
    for mirror, least in ((False, 64), (True, 10)):
        view = draw_view(ramp, Look(size=(20, 20), area=(0.5, 1.0), blur=0.0, mirror=mirror), draws)
        rising = (view[:, 0, 0, -1] > view[:, 0, 0, 0]).sum()
        assert rising >= least
        assert mirror or rising == 64
        assert not mirror or rising < 54


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_nothing(workers, tmp_path):
    paths = []
    for number, image in enumerate(some_images(12, (16, 16))):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(image).save(paths[-1])
    split, wanted = FileSplit(paths, np.arange(12)), looks((8, 8), (4, 4), 2, mirror=True, area=0.4)
    loader = view_loader(split, neutral((8, 8), 3), wanted=wanted, batch=4, seed=3, workers=workers)
    found = list(loader.batches(epoch=1, start=1))
    plain = view_loader(split, neutral((8, 8), 3), wanted=wanted, batch=4, seed=3)
    for one, other in zip(found, list(plain.batches(epoch=1))[1:], strict=True):
        assert all((mine == its).all() for mine, its in zip(one, other, strict=True))
    assert found[0].large.shape == (4, 2, 3, 8, 8)
    assert found[0].small.shape == (4, 2, 3, 4, 4)
    assert (found[0].labels == found[0].indices).all()


def test_processes_share_a_batch_and_gray_images_have_views():
    split = open_digits()["train"]
    options = {"wanted": looks((8, 8), (4, 4), 0, mirror=False, area=0.5), "batch": 10, "seed": 1}
    [whole, *_] = view_loader(split, neutral((8, 8), 1), **options).batches()
    assert whole.small.shape[1] == 0
    assert whole.large.shape == (10, 2, 1, 8, 8)
    for rank in (0, 1):
        [share, *_] = view_loader(split, neutral((8, 8), 1), **options, rank=rank, world=2).batches()
        assert (share.indices == whole.indices[rank::2]).all()
        assert_close(share.large, whole.large[rank::2], rtol=0, atol=1e-5)


def test_a_broken_image_is_left_out_and_reported(tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    Image.fromarray(some_images(1, (8, 8))[0]).save(good)
    bad.write_bytes(b"no image")
    reported = []
    loader = view_loader(
        FileSplit([good, bad], np.zeros(2, int)), neutral((8, 8), 3), wanted=looks((8, 8), (4, 4), 1, mirror=False, area=0.5),
        batch=2, on_bad=reported.append,
    )  # fmt: skip
    [batch] = loader.batches()
    assert batch.indices.tolist() == [0]
    assert len(reported) == 1


def test_half_a_side_is_whole_patches():
    assert half_size((32, 32), 4) == (16, 16)
    assert half_size((224, 160), 16) == (112, 80)
    assert half_size((40, 8), 8) == (24, 8)
    assert half_size((8, 8), 8) == (8, 8)


def test_wrong_views_are_refused():
    with pytest.raises(VitrailError, match="cannot have -1 small views"):
        looks((8, 8), (4, 4), -1, mirror=False, area=0.5)
    with pytest.raises(VitrailError, match="from above 0 to 1, got 0 to 1"):
        looks((8, 8), (4, 4), 1, mirror=False, area=0.0)


def test_arrays_are_not_read_one_by_one():
    split = ArraySplit(some_images(8, (8, 8)), np.arange(8))
    [batch, *_] = view_loader(
        split, neutral((8, 8), 3), wanted=looks((8, 8), (4, 4), 1, mirror=True, area=0.5), batch=4
    ).batches()
    assert torch.isfinite(batch.large).all()
    assert len(batch.indices) == 4
