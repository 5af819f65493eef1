"""Image, boxes and mask move together: on scenes whose boxes and masks are known, under every transform and any chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vitrail.data import joint
from vitrail.data.annotations import annotate
from vitrail.data.augmentation import Augmentation, augment
from vitrail.data.joint import Movement, Sample, move
from vitrail.data.shapes import draw_scene
from vitrail.data.transforms import to_unit
from vitrail.errors import VitrailError

SIZES = st.tuples(st.integers(16, 60), st.integers(16, 60))
ANGLES, ZOOMS, SHIFTS = st.floats(-180, 180), st.floats(0.5, 2), st.floats(-0.4, 0.4)


def scene_sample(index=0, size=(40, 56)):
    scene = draw_scene(index, size=size)
    return Sample(Image.fromarray(scene.image), annotate(scene.boxes, scene.kinds, mask=scene.mask))


def mask_sample(mask, boxes=(), classes=()):
    """An image that is its own mask, so that the two must stay equal."""
    return Sample(Image.fromarray(mask), annotate(boxes, classes, mask=mask))


def rectangle_sample(size, box):
    mask = np.zeros(size, dtype=np.uint8)
    mask[box[1] : box[3], box[0] : box[2]] = 1
    return mask_sample(mask, [box], [0])


TRANSFORMS = {
    "resize": lambda s: joint.resize(s, (31, 83), interpolation="nearest"),
    "crop": lambda s: joint.crop(s, 3, 7, 29, 31),
    "pad": lambda s: joint.pad(s, 1, 2, 3, 4, fill=255),
    "flip_horizontal": joint.flip_horizontal,
    "flip_vertical": joint.flip_vertical,
    "quarter_turn": lambda s: joint.quarter_turn(s, 1),
    "affine": lambda s: joint.affine(s, angle=25.0, zoom=1.3, shift=(0.1, -0.2), fill=255, interpolation="nearest"),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("kind", [np.uint8, np.int32])
def test_an_image_that_is_its_mask_stays_equal_to_it(name, kind):
    mask = draw_scene(3, size=(40, 56), shapes=4).mask
    sample = Sample(Image.fromarray(mask), annotate(mask=mask.astype(kind)))
    moved = TRANSFORMS[name](sample)
    expected = np.where(moved.annotations.mask == (255 if kind == np.uint8 else -1), 255, moved.annotations.mask)
    assert moved.annotations.mask.dtype == kind
    assert (np.asarray(moved.image) == expected).all()
    assert len(np.unique(expected)) > 2


@settings(max_examples=60)
@given(angle=ANGLES, zoom=ZOOMS, right=SHIFTS, down=SHIFTS, size=SIZES, index=st.integers(0, 50))
def test_so_it_does_under_any_affine_map(angle, zoom, right, down, size, index):
    sample = mask_sample(draw_scene(index, size=size).mask)
    moved = joint.affine(sample, angle=angle, zoom=zoom, shift=(right, down), fill=255, interpolation="nearest")
    assert (np.asarray(moved.image) == moved.annotations.mask).all()


@st.composite
def rectangles(draw):
    height, width = draw(SIZES)
    x0, y0 = draw(st.integers(0, width - 4)), draw(st.integers(0, height - 4))
    return (height, width), (x0, y0, draw(st.integers(x0 + 3, width)), draw(st.integers(y0 + 3, height)))


def hull(mask):
    rows, columns = np.nonzero(mask)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


@settings(max_examples=100)
@given(rectangle=rectangles(), data=st.data())
def test_a_box_is_the_hull_of_its_rectangle_in_the_mask(rectangle, data):
    size, box = rectangle
    sample = rectangle_sample(size, box)
    name = data.draw(st.sampled_from(["flip_horizontal", "flip_vertical", "turn", "resize", "pad", "crop", "affine"]))
    near = 1e-3
    if name == "turn":
        moved = joint.quarter_turn(sample, data.draw(st.integers(-5, 5)))
    elif name == "resize":
        moved, near = joint.resize(sample, data.draw(SIZES)), 1
    elif name == "pad":
        moved = joint.pad(sample, *data.draw(st.tuples(*[st.integers(0, 9)] * 4)))
    elif name == "crop":
        top, left = data.draw(st.integers(0, size[0] - 8)), data.draw(st.integers(0, size[1] - 8))
        moved = joint.crop(sample, top, left, 8, 8, visible=0.0)
    elif name == "affine":
        angle, zoom = data.draw(ANGLES), data.draw(st.floats(0.5, 1.2))
        # a hull that is clipped is not the hull of what is left, so the image gets room first
        sample = joint.pad(sample, *[max(size)] * 4)
        moved, near = joint.affine(sample, angle=angle, zoom=zoom, visible=0.0), 1.01
        if len(moved.annotations.boxes) and (
            moved.annotations.boxes.min() <= 0 or (moved.annotations.boxes[0, 2:] >= moved.image.size).any()
        ):
            return
    else:
        moved = getattr(joint, name)(sample)
    covered = moved.annotations.mask == 1
    if covered.any():
        assert np.abs(moved.annotations.boxes[0] - hull(covered)).max() <= near
    elif name == "resize":  # less than a pixel wide, it may lie between the pixels that are read
        x0, y0, x1, y1 = moved.annotations.boxes[0]
        assert min(x1 - x0, y1 - y0) < 1
    else:
        assert name == "crop"
        assert len(moved.annotations.boxes) == 0


def same(first, second):
    assert (np.asarray(first.image) == np.asarray(second.image)).all()
    assert (first.annotations.mask == second.annotations.mask).all()
    np.testing.assert_allclose(first.annotations.boxes, second.annotations.boxes, atol=1e-4)
    assert first.annotations.classes.tolist() == second.annotations.classes.tolist()


def test_what_is_done_twice_or_four_times_is_undone():
    sample = scene_sample()
    same(joint.flip_horizontal(joint.flip_horizontal(sample)), sample)
    same(joint.flip_vertical(joint.flip_vertical(sample)), sample)
    same(joint.flip_horizontal(joint.flip_vertical(sample)), joint.quarter_turn(sample, 2))
    turned = sample
    for _ in range(4):
        turned = joint.quarter_turn(turned, 1)
    same(turned, sample)
    same(joint.quarter_turn(joint.quarter_turn(sample, 1), -1), sample)
    same(joint.crop(joint.pad(sample, 3, 5, 7, 2), 3, 5, 40, 56), sample)
    same(joint.affine(sample), sample)


def test_a_quarter_turn_is_counterclockwise_as_numpys():
    sample = scene_sample()
    assert (np.asarray(joint.quarter_turn(sample, 1).image) == np.rot90(np.asarray(sample.image))).all()
    assert (joint.affine(mask_sample(np.eye(8, dtype=np.uint8)), angle=90.0, interpolation="nearest").annotations.mask
            == np.rot90(np.eye(8))).all()  # fmt: skip


def test_by_hand():
    sample = rectangle_sample((10, 20), (2, 3, 8, 9))
    assert joint.flip_horizontal(sample).annotations.boxes.tolist() == [[12, 3, 18, 9]]
    assert joint.flip_vertical(sample).annotations.boxes.tolist() == [[2, 1, 8, 7]]
    assert joint.quarter_turn(sample, 1).annotations.boxes.tolist() == [[3, 12, 9, 18]]
    assert joint.resize(sample, (20, 10)).annotations.boxes.tolist() == [[1, 6, 4, 18]]
    assert joint.crop(sample, 4, 1, 6, 5).annotations.boxes.tolist() == [[1, 0, 5, 5]]
    assert joint.pad(sample, 1, 2, 3, 4).annotations.boxes.tolist() == [[4, 4, 10, 10]]
    assert joint.affine(sample, shift=(0.1, 0.0)).annotations.boxes.tolist() == [[0, 3, 6, 9]]  # the window moves right by 2
    padded = joint.pad(sample, 1, 0, 0, 2, fill=7)
    assert (padded.annotations.mask[0] == 255).all()
    assert (np.asarray(padded.image)[:, -2:] == 7).all()


@pytest.mark.parametrize("visible, left", [(0.1, 1), (0.26, 0), (0.0, 1)])
def test_an_object_goes_when_too_little_of_it_is_left(visible, left):
    sample = rectangle_sample((10, 10), (0, 0, 8, 2))
    assert len(joint.crop(sample, 0, 6, 10, 4, visible=visible).annotations.boxes) == left  # a quarter of it
    assert len(joint.crop(sample, 5, 0, 5, 5, visible=visible).annotations.boxes) == 0


def test_the_affine_map_is_that_of_the_augmentation():
    """The same turn, zoom and shift, drawn for the same sample, move an image to the same place."""
    scene = draw_scene(1, size=(48, 64))
    how = Augmentation(shift=0.1, rotate=30.0, zoom=0.2)
    indices = np.array([5])
    reference = augment(to_unit(scene.image[None]), how, seed=1, epoch=2, indices=indices)[0].permute(1, 2, 0).numpy()
    signed = 2 * joint.uniforms(1, 2, indices, count=7)[0] - 1
    sample = Sample(Image.fromarray(scene.image), annotate())
    moved = joint.affine(
        sample, angle=30 * signed[1], zoom=1.2 ** signed[2], shift=(0.1 * signed[3], 0.1 * signed[4]), interpolation="bicubic"
    )
    inner = (slice(14, -14), slice(14, -14))  # what lies outside is of another color
    assert np.abs(reference[inner] - np.asarray(moved.image)[inner] / 255).mean() < 0.01


EVERYTHING = Movement(flip=True, flip_vertical=True, quarter_turns=True, shift=0.1, rotate=20.0, zoom=0.2, color=0.4)


def test_chance_is_a_function_of_seed_epoch_and_index_alone():
    sample = scene_sample()
    first = move(sample, EVERYTHING, seed=1, epoch=2, index=3)
    move(sample, EVERYTHING, seed=9, epoch=9, index=9)
    same(move(sample, EVERYTHING, seed=1, epoch=2, index=3), first)
    others = [move(sample, EVERYTHING, seed=s, epoch=e, index=i) for s, e, i in ((0, 2, 3), (1, 0, 3), (1, 2, 0))]
    assert all(other.image.tobytes() != first.image.tobytes() for other in others)
    same(move(sample, Movement(), seed=1, epoch=2, index=3), sample)


def test_each_kind_of_movement_happens_as_often_as_it_says():
    sample = rectangle_sample((8, 8), (0, 0, 3, 2))
    places = {name: [] for name in ("flip", "flip_vertical", "quarter_turns")}
    for name, index in ((name, index) for name in places for index in range(200)):
        places[name].append(
            tuple(move(sample, Movement(**{name: True}), seed=0, epoch=0, index=index).annotations.boxes[0].tolist())
        )
    assert {name: len(set(found)) for name, found in places.items()} == {"flip": 2, "flip_vertical": 2, "quarter_turns": 4}
    for found in places.values():
        counts = np.unique(found, axis=0, return_counts=True)[1]
        assert counts.min() > 0.7 * 200 / len(counts)


@pytest.mark.parametrize("index", range(6))
def test_boxes_and_masks_of_moved_scenes_agree(index):
    """Each box still holds the visible pixels of its shape's class that the mask has in it."""
    moved = move(scene_sample(index, (64, 64)), EVERYTHING, seed=0, epoch=1, index=index)
    mask, boxes = moved.annotations.mask, moved.annotations.boxes
    for number in set(np.unique(mask)) - {0, 255}:
        inside = np.zeros(mask.shape, dtype=bool)
        for x0, y0, x1, y1 in boxes[moved.annotations.classes == number - 1]:
            inside[max(0, int(y0) - 1) : int(y1) + 2, max(0, int(x0) - 1) : int(x1) + 2] = True
        assert ((mask == number) & ~inside).sum() <= 0.1 * (mask == number).sum()


def test_color_leaves_everything_in_its_place():
    sample = scene_sample()
    changed = joint.jitter_color(sample, 0.5, 1.5, 0.0)
    assert changed.annotations is sample.annotations
    pixels = np.asarray(changed.image)
    assert (pixels[..., 0] == pixels[..., 2]).all()  # no saturation: gray
    dark = np.asarray(joint.jitter_color(sample, brightness=0.5).image).astype(int)
    assert np.abs(dark - np.asarray(sample.image) / 2).max() <= 1


@pytest.mark.parametrize(
    "call, reason",
    [
        (lambda s: joint.resize(s, (0, 5)), "at least 1 pixel"),
        (lambda s: joint.crop(s, 0, 0, 41, 5), "does not lie in an image of 56x40"),
        (lambda s: joint.crop(s, -1, 0, 5, 5), "does not lie"),
        (lambda s: joint.pad(s, 0, 0, -1, 0), "0 or more pixels"),
        (lambda s: joint.affine(s, zoom=0.0), "a factor above 0"),
        (lambda s: joint.jitter_color(s, brightness=-1.0), "0 or more"),
        (lambda s: Sample(s.image, annotate(mask=np.zeros((2, 2), dtype=np.uint8))), "a mask of shape"),
    ],
)
def test_what_is_refused(call, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        call(scene_sample())
    assert isinstance(caught.value, VitrailError) or "mask" in reason
