"""A share of the training images: of every class alike, at least one, and a smaller share inside a larger one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.dataset import ArraySplit, DataSet
from vitrail.data.label_share import choose_labelled, keep_share
from vitrail.errors import VitrailError


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=80),
    shares=st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)),
    seed=st.integers(0, 2**63 - 1),
)
@settings(max_examples=60)
def test_every_class_has_its_share_and_shares_are_nested(labels, shares, seed):
    labels = np.array(labels)
    small, large = (choose_labelled(labels, share, seed=seed) for share in sorted(shares))
    assert set(small) <= set(large)
    assert (np.diff(small) > 0).all()
    for label in np.unique(labels):
        assert (labels[small] == label).sum() == max(1, round(min(shares) * (labels == label).sum()))


def test_the_seed_decides_and_nothing_else():
    labels = np.arange(200) % 5
    assert (choose_labelled(labels, 0.1, seed=1) == choose_labelled(labels, 0.1, seed=1)).all()
    assert (choose_labelled(labels, 0.1, seed=1) != choose_labelled(labels, 0.1, seed=2)).any()
    assert (choose_labelled(labels, 1.0, seed=1) == np.arange(200)).all()


def test_several_labels_per_image_have_at_least_their_share_each():
    generator = np.random.default_rng(0)
    labels = generator.random((400, 6)) < np.array([0.5, 0.3, 0.1, 0.05, 0.01, 0.0])
    labels[0, 4] = True  # at least one image has it
    small, large = (choose_labelled(labels, share, seed=3) for share in (0.05, 0.2))
    assert set(small) <= set(large)
    for part, share in ((small, 0.05), (large, 0.2)):
        wanted = np.maximum(labels.any(axis=0), np.round(share * labels.sum(axis=0)))
        assert (labels[part].sum(axis=0) >= wanted).all()
        assert len(part) < 1.8 * share * len(labels) + 2  # the choices of the labels mostly coincide
    assert (~labels[large].any(axis=1)).any()  # images of nothing are learned from too


def test_validation_and_test_are_untouched_and_a_note_says_how_many_are_left():
    splits = {name: ArraySplit(np.zeros((50, 4, 4), dtype=np.uint8), np.arange(50) % 5) for name in ("train", "val", "test")}
    data = DataSet(name="dots", classes=tuple("abcde"), splits=splits)
    few = keep_share(data, 0.2, seed=0)
    assert len(few["train"]) == 10
    assert few["val"] is data["val"]
    assert few["test"] is data["test"]
    assert few.notes == ("learning from 10 of 50 training images: 20 % of every class (seed 0)",)
    assert keep_share(data, 1.0, seed=0) is data


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_is_above_nothing_and_at_most_all(share):
    with pytest.raises(VitrailError, match="above 0 and at most 1"):
        choose_labelled(np.arange(4), share, seed=0)


@pytest.mark.parametrize("share", ["0", "1.01", "-0.5", "nan"])
def test_shares_out_of_range_are_one_line(command, share):
    code, _, err = command("train", "--data", "digits", "--labels", share)
    assert code == 2
    assert "--labels" in err
    assert len(err.strip().splitlines()) == 1


def test_a_run_learns_from_the_share_and_says_so(command, arrays, tmp_path, quick_report):
    words = ("--data", arrays, "--labels", "0.25", "--epochs", "2", "--model", "vit_nano_conv", "--out", tmp_path / "run")
    code, out, err = command("train", *words)
    assert code == 0, err
    assert "learning from 24 of 96 training images: 25 % of every class (seed 0)" in out + err
    assert "batch 3," in out + err  # eight steps an epoch of what is left
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(rows) == 2 * 8
