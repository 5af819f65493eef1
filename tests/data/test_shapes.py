"""No label of the built-in scenes may ever be wrong: every claim is recomputed here from the pixels or from the caption."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

from vitrail.data.shape_drawing import CONTRAST, PAINT, oklab
from vitrail.data.shape_layout import arrange
from vitrail.data.shapes import COLORS, EXTENTS, KINDS, MOST_SHAPES, RELATIONS, Scene, ShapesSplit, draw_scene
from vitrail.errors import VitrailError

SIZES = [16, 17, 32, 64, 128, (16, 53), (61, 19), (37, 96)]
NUMBERS = ("one", "two", "three", "four")
GOLDEN = [
    "a small yellow circle left of an orange diamond, with one more shape",
    "a large blue heart",
    "a small yellow crescent below a pink heart",
    "a small red diamond",
]
CAPTION = re.compile(
    rf"a (?P<extent>{'|'.join(EXTENTS)}) (?P<color>{'|'.join(COLORS)}) (?P<kind>{'|'.join(KINDS)})"
    rf"( (?P<relation>{'|'.join(RELATIONS)}) (?P<article>an?) (?P<color2>{'|'.join(COLORS)}) (?P<kind2>{'|'.join(KINDS)}))?"
    rf"(, with (?P<more>{'|'.join(NUMBERS)}) more shape(?P<plural>s?))?"
)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [draw_scene(i, seed=11, shapes=(1, 4)) for i in range(300)]


def same(first: Scene, second: Scene) -> bool:
    arrays = ("image", "mask", "instances", "boxes", "kinds")
    return first.shapes == second.shapes and all(np.array_equal(getattr(first, a), getattr(second, a)) for a in arrays)


def test_a_scene_depends_on_its_own_numbers_only():
    assert same(draw_scene(23, seed=5, size=41), draw_scene(23, seed=5, size=41))
    assert same(ShapesSplit("val", 29, size=41).scene(23), ShapesSplit("val", 1009, size=41).scene(23))
    other_keys = [{"seed": 1}, {"seed": 0, "split": "val"}, {"seed": 0, "split": "test"}]
    images = [draw_scene(i, **key).image.tobytes() for i in range(20) for key in ({"seed": 0}, *other_keys)]
    assert len(set(images)) == len(images)


def test_a_seed_means_the_same_scenes_in_every_version():
    """By their captions: pixels may differ by rounding from one machine to another."""
    assert [draw_scene(i).caption for i in range(4)] == GOLDEN


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shapes", [(1, 3), MOST_SHAPES])
def test_labels_boxes_and_masks_agree_with_the_pixels(size, shapes):
    for index in range(15):
        scene = draw_scene(index, seed=3, size=size, shapes=shapes)
        height, width = (size, size) if isinstance(size, int) else size
        assert scene.image.shape == (height, width, 3)
        count = len(scene.shapes)
        assert count == shapes if isinstance(shapes, int) else shapes[0] <= count <= shapes[1]
        assert np.array_equal(np.unique(scene.instances), np.arange(count + 1))
        assert np.array_equal(scene.mask, np.array([0, *(scene.kinds + 1)])[scene.instances])

        areas = np.bincount(scene.instances.ravel())[1:]
        assert areas.tolist() == [shape.area for shape in scene.shapes]
        assert scene.kinds[areas.argmax()] == scene.label
        assert count == 1 or areas[0] >= 1.5 * areas[1:].max()
        for number, (box, kind, shape) in enumerate(zip(scene.boxes, scene.kinds, scene.shapes, strict=True), start=1):
            rows, columns = np.nonzero(scene.instances == number)
            assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == list(shape.box)
            assert shape.kind == KINDS[kind]
            longest, short = max(box[2] - box[0], box[3] - box[1]), min(height, width)
            # A pixel at either end is a matter of rounding; a tenth of a large shape's box may be hidden.
            assert longest <= 0.44 * short + 1 if shape.extent == "small" else longest >= 0.9 * (0.54 * short - 2)


def test_every_caption_is_true(scenes):
    seen = set()
    for scene in scenes:
        words = CAPTION.fullmatch(scene.caption)
        assert words, scene.caption
        main, count = scene.shapes[0], len(scene.shapes)
        assert (words["extent"], words["color"], words["kind"]) == (main.extent, main.color, main.kind)
        assert (words["relation"] is None) == (count == 1)
        assert words["more"] == (NUMBERS[count - 3] if count > 2 else None)
        assert words["plural"] == ("s" if count > 3 else "" if count > 2 else None)
        assert len({shape.color for shape in scene.shapes}) == count  # color and kind name one shape only
        if count > 1:
            second = scene.shapes[1]
            assert (words["color2"], words["kind2"]) == (second.color, second.kind)
            assert words["article"] == ("an" if second.color == "orange" else "a")
            x, y = ((scene.boxes[0, i] + scene.boxes[0, i + 2] - scene.boxes[1, i] - scene.boxes[1, i + 2]) / 2 for i in (0, 1))
            signed = {"left of": -x, "right of": x, "above": -y, "below": y}
            assert signed[words["relation"]] >= 2 * min(abs(x), abs(y))
            assert signed[words["relation"]] == max(signed.values())
        if count > 2:
            assert second.area > max(shape.area for shape in scene.shapes[2:])
        seen |= {words["extent"], words["relation"], words["color"], words["kind"]}
    assert seen >= {*EXTENTS, *RELATIONS, *COLORS, *KINDS}


def inner(instances: np.ndarray, steps: int) -> np.ndarray:
    """The map with -1 wherever a pixel within that many steps belongs to something else."""
    clear = np.ones_like(instances, dtype=bool)
    for shift in itertools.product(range(-steps, steps + 1), repeat=2):
        clear &= np.roll(instances, shift, (0, 1)) == instances
    return np.where(clear, instances, -1)


def test_the_named_color_is_what_one_sees(scenes):
    """Away from edges, each pixel of a shape is nearest to its own name, and the ground is far from all names of its scene."""
    names = oklab(np.array(list(PAINT.values())))
    for scene in scenes[:100]:
        lab, alone = oklab(scene.image), inner(scene.instances, 1)
        paints = [COLORS.index(shape.color) for shape in scene.shapes]
        for number, paint in enumerate(paints, start=1):
            distances = np.linalg.norm(lab[alone == number][:, None] - names, axis=-1)
            assert (distances.argmin(axis=1) == paint).all()
        ground = lab[inner(scene.instances, 3) == 0]  # the tip of a star reaches a little further than the mask
        assert np.linalg.norm(ground[:, None] - names[paints], axis=-1).min() >= CONTRAST - 0.005  # pixels are whole numbers


@pytest.mark.parametrize("in_front", [True, False])
def test_nothing_is_hidden_by_more_than_a_third(in_front):
    hidden = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(len(KINDS), size=5).tolist()
        pieces, instances = arrange(rng, kinds, size=(48, 56), main_extent=EXTENTS[seed % 2], in_front=in_front)
        for number, piece in enumerate(pieces, start=1):
            own = np.zeros_like(instances, dtype=bool)
            own[piece.window()] = piece.solid
            assert not (own & (instances == 0)).any()  # what no other shape covers is visible
            hidden.append((own & (instances != number)).sum() / own.sum())
    assert 0 < max(hidden) < 1 / 3


def test_a_split_is_a_balanced_sequence_whose_labels_cost_no_drawing(monkeypatch):
    split = ShapesSplit("test", 47, size=(24, 31), seed=2)
    images, labels = zip(*split, strict=True)
    assert len(split) == 47 == len(images)
    assert images[0].size == (31, 24)
    assert images[0].mode == "RGB"
    assert split.labels.dtype == np.int64
    assert split.labels.tolist() == list(labels)
    assert split.classes == KINDS
    assert np.array_equal(split.scene(-1).image, np.asarray(images[-1]))
    assert np.ptp(np.bincount(split.labels, minlength=len(KINDS))) <= 1
    assert split.labels.tolist() == ShapesSplit("test", 1000, seed=2).labels[:47].tolist()
    with pytest.raises(IndexError):
        split[47]
    monkeypatch.setattr("vitrail.data.shapes.draw_scene", None)
    assert len(ShapesSplit("train", 10_000).labels) == 10_000


def test_a_scene_is_the_same_kind_of_scene_at_every_size():
    for index in range(10):
        words = [{(s.kind, s.color) for s in draw_scene(index, size=size).shapes} for size in (16, 64, 256)]
        assert words[0] == words[1] == words[2]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"size": 15}, "size must be from 16 to 1024 pixels, .*: got 15"),
        ({"size": (64, 1025)}, r"got \(64, 1025\)"),
        ({"shapes": 0}, "shapes must be from 1 to 6.*: got 0"),
        ({"shapes": (3, 2)}, r"got \(3, 2\)"),
        ({"shapes": 7}, "got 7"),
        ({"seed": -1}, "seed must be from 0 .*: got -1"),
    ],
)
def test_bad_values_are_named_in_one_line(options, message):
    with pytest.raises(VitrailError, match=f"^.*{message}$"):
        draw_scene(0, **options)


def test_bad_splits_and_counts_are_named():
    with pytest.raises(VitrailError, match="index must be from 0"):
        draw_scene(-1)
    with pytest.raises(VitrailError, match="count must be at least 1 image: got 0"):
        ShapesSplit("train", 0)


def test_drawing_needs_no_torch():
    code = "import sys, vitrail.data.shapes as s; s.draw_scene(0); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
