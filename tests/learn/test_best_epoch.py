"""Which epoch is kept: by the paired difference on the same samples, and never one that says the same of everything for one that does not."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_toys import Fuse, Line, Pieces, drive

from vitrail.learn.training.best_epoch import consider, describe_choice, is_as_good, pack, unpack
from vitrail.learn.training.state import Progress
from vitrail.tasks.classify.objective import Predictions

HITS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=97)


@given(pairs=HITS)
def test_of_hits_the_rule_is_a_standard_error_of_the_paired_difference(pairs):
    later, earlier = (np.array(side) for side in zip(*pairs, strict=True))
    difference = later.astype(float) - earlier
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    if not math.isclose(-difference.mean(), error):  # a tie is decided in whole numbers
        assert is_as_good(later, earlier) == (-difference.mean() <= error)
    assert is_as_good(later, later)
    assert is_as_good(later, earlier) or is_as_good(earlier, later)


@pytest.mark.parametrize(
    "lost, gained, expected", [(1, 0, True), (2, 0, False), (3, 1, True), (4, 1, False), (6, 3, True), (7, 3, False)]
)
def test_how_many_images_may_be_lost(lost, gained, expected):
    earlier = np.ones(180, bool)
    later = earlier.copy()
    later[:lost] = False
    earlier[lost : lost + gained] = False
    assert is_as_good(later, earlier) is expected


@given(hits=st.lists(st.booleans(), min_size=1, max_size=97))
def test_what_is_packed_is_unpacked(hits):
    assert unpack(pack(np.array(hits))).tolist() == hits
    values = np.linspace(-1, 40, len(hits), dtype=np.float32)
    assert unpack(pack(values)).tolist() == values.tolist()
    assert len(pack(np.zeros(10_000, bool))) < 1_700


def run_through(epochs, *, error=0.0, collapsed=(), sign=1.0):
    """The epochs that were kept, of rows of what each sample adds to the score."""
    progress, kept = Progress(), []
    for number, each in enumerate(epochs, 1):
        each = np.array(each)
        found = SimpleNamespace(metrics={}, error=error, per_sample=each, collapsed=number in collapsed)
        if consider(progress, found, epoch=number, score=sign * float(each.mean()), sign=sign):
            kept.append(number)
    return kept, progress


def test_small_losses_do_not_add_up():
    """Each is within an error of the one before it, the third no more of the highest."""
    full = np.ones(50, bool)
    one, two, three = (np.where(np.arange(50) < lost, False, full) for lost in (1, 2, 3))
    assert run_through([full, one, two, three])[0] == [1, 2]


def test_a_noisy_pair_is_compared_by_what_changed_alone():
    """Both have half of the images wrong. That they are wrong about the same ones makes a loss of ten a real one."""
    half = np.arange(200) % 2 == 0
    less = half & (np.arange(200) >= 20)
    assert run_through([half, less])[0] == [1]
    swapped = ~half & (np.arange(200) >= 20)
    assert run_through([half, swapped])[0] == [1, 2], "ten fewer, but of two hundred that changed"


def test_numbers_are_compared_by_their_paired_error():
    generator = np.random.default_rng(0)
    hard = generator.normal(30.0, 5.0, size=97)
    assert run_through([hard, hard - 0.5])[0] == [1], "five decibels of spread between images say nothing of epochs"
    noise = generator.normal(0.0, 1.0, size=97)
    assert run_through([hard, hard - 0.05 + noise - noise.mean()])[0] == [1, 2]
    assert run_through([-hard, -hard + 0.5], sign=-1.0)[0] == [1], "where lower is better"
    assert run_through([-hard, -hard - 0.5], sign=-1.0)[0] == [1, 2]


def test_one_class_for_everything_never_replaces_several():
    some, more = np.arange(50) < 20, np.arange(50) < 30
    assert run_through([some, more, some], collapsed={2})[0] == [1, 3]
    assert run_through([more, some, more], collapsed={1})[0] == [1, 2, 3], "and is replaced by them, whatever its score"
    kept, progress = run_through([some, more], collapsed={1, 2})
    assert kept == [1, 2]
    assert "one class for everything" in describe_choice(progress, unit="images")


def test_another_number_of_samples_is_compared_by_the_error_of_the_score():
    full = np.ones(50, bool)
    assert run_through([full, full[:49] & (np.arange(49) > 3)], error=0.1)[0] == [1, 2]
    assert run_through([full, full[:49] & (np.arange(49) > 3)], error=0.01)[0] == [1]


def test_the_rule_is_said():
    full = np.ones(50, bool)
    _, progress = run_through([full, np.arange(50) > 0])
    expected = "the latest within one standard error of the highest validation score, epoch 1's (by the paired difference over 50 images)"
    assert describe_choice(progress, unit="images") == f"best/ is epoch 2, {expected}"
    assert describe_choice(run_through([full[:3], full])[1], unit="images").startswith("best/ is epoch 2, the latest")


class Paired(Line):
    """Hits that are written down beforehand."""

    def __init__(self, rows) -> None:
        super().__init__()
        self.rows = iter(rows)

    def evaluate(self, batches):
        hits = next(self.rows)
        return SimpleNamespace(metrics={"loss": 0.1, "closeness": hits.mean()}, error=0.5, per_sample=hits)


def test_a_resumed_run_chooses_alike(tmp_path):
    generator = np.random.default_rng(1)
    rows = [generator.random(97) < 0.9 for _ in range(9)]
    progress, notes = drive(Paired(rows), tmp_path, epochs=9)
    path = tmp_path / "parts"
    path.mkdir()
    with pytest.raises(ZeroDivisionError):
        drive(Paired(rows), path, epochs=9, train=Pieces(5, Fuse(23)))
    resumed, more = drive(Paired(rows[4:]), path, epochs=9)
    assert (resumed.kept, resumed.highest, resumed.best) == (progress.kept, progress.highest, progress.best)
    assert len(more.saved["best"]) <= len(notes.saved["best"])


def test_a_classifier_says_what_each_image_adds():
    logits = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    found = Predictions(logits=logits, truth=np.array([0, 1, 0]))
    assert found.per_sample.tolist() == [True, False, True]
    assert found.collapsed
    assert not Predictions(logits=logits, truth=np.array([0, 0, 0])).collapsed, "there is but one class"
    assert not Predictions(logits=logits * [[1], [-1], [1]], truth=np.array([0, 1, 0])).collapsed
    several = Predictions(logits=logits, truth=np.array([[True, False]] * 3))
    assert (several.per_sample, several.collapsed) == (None, False)


def test_of_one_epoch_nothing_was_compared():
    _, progress = run_through([np.ones(50, bool)])
    progress.rows = [{"epoch": 1}]
    assert describe_choice(progress, unit="images") == "best/ is epoch 1, the only one"
