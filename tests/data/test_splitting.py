"""Copies stay on one side, and the rest of a split is as if there were none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.splitting import ALONE, list_units, stratified_folds, stratified_split


def make_groups(count, sizes, seed):
    """Some images in groups of these sizes."""
    chosen = np.random.default_rng(seed).permutation(count)[: sum(sizes)]
    groups = np.full(count, ALONE)
    groups[chosen] = np.repeat(np.arange(len(sizes)), sizes)
    return groups


def is_divided(groups, part):
    inside = np.isin(np.arange(len(groups)), part)
    return any(len(np.unique(inside[groups == one])) > 1 for one in np.unique(groups[groups != ALONE]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), several=st.booleans(), share=st.sampled_from([0.1, 0.25]))
def test_no_group_is_divided_and_every_class_keeps_its_share(seed, several, share):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 7, 420) if not several else rng.random((420, 7)) < 0.2
    groups = make_groups(420, [2] * 20 + [3] * 5 + [9], seed)
    rest, part = stratified_split(labels, share, seed=seed, groups=groups)
    assert sorted([*rest, *part]) == list(range(420))
    assert not is_divided(groups, part)
    before = stratified_split(labels, share, seed=seed)[1]
    wide = labels if several else labels[:, None] == np.arange(7)
    difference = np.abs(wide[part].sum(0) - wide[before].sum(0))
    assert difference.max() <= (2 if several else 0)
    assert abs(len(part) - len(before)) <= (6 if several else 0)
    everyone = wide.mean(0)
    assert np.abs(wide[rest].mean(0) - everyone).max() < 0.02


@pytest.mark.parametrize("several", [False, True])
def test_without_copies_the_split_is_what_it_was(several):
    rng = np.random.default_rng(0)
    labels = rng.random((90, 3)) < 0.3 if several else rng.integers(0, 3, 90)
    alone = np.full(90, ALONE)
    for one, other in zip(
        stratified_split(labels, 0.1, seed=4), stratified_split(labels, 0.1, seed=4, groups=alone), strict=True
    ):
        assert np.array_equal(one, other)


def test_few_images_change_sides():
    """One pair among a thousand images: at most itself and two that make up for it."""
    labels = np.arange(1000) % 4
    before = set(stratified_split(labels, 0.1, seed=1)[1].tolist())
    inside, outside = min(before), min(set(range(0, 1000, 4)) - before)
    groups = np.full(1000, ALONE)
    groups[[inside, outside]] = 0
    after = set(stratified_split(labels, 0.1, seed=1, groups=groups)[1].tolist())
    assert len(before ^ after) <= 2
    assert (inside in after) == (outside in after)


def test_a_class_of_groups_alone_is_on_both_sides():
    labels = np.repeat([0, 1], 20)
    groups = np.concatenate([np.repeat(np.arange(10), 2), np.full(20, ALONE)])
    for seed in range(20):
        rest, part = stratified_split(labels, 0.1, seed=seed, groups=groups)
        assert {0, 1} == set(labels[part]) == set(labels[rest]), seed
        assert (labels[part] == 0).sum() == 2


def test_a_class_of_one_image_and_its_copies_stays_in_train():
    labels = np.repeat([0, 1], 20)
    groups = np.concatenate([np.zeros(20, dtype=int), np.full(20, ALONE)])
    for seed in range(20):
        assert set(labels[stratified_split(labels, 0.1, seed=seed, groups=groups)[1]]) == {1}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_folds_are_equal_parts_with_every_class(several, count):
    rng = np.random.default_rng(count)
    labels = rng.random((211, 4)) < np.array([0.5, 0.3, 0.2, 0.1]) if several else np.arange(211) % 5
    groups = make_groups(211, [2] * 10 + [3] * 3, 0)
    folds = stratified_folds(labels, count, seed=3, groups=groups)
    wide = labels if several else labels[:, None] == np.arange(5)
    assert set(folds) == set(range(count))
    for one in range(count):
        assert not is_divided(groups, np.flatnonzero(folds == one))
        assert abs((folds == one).sum() - 211 / count) <= (6 if several else 3)
        assert np.abs(wide[folds == one].sum(0) - wide.sum(0) / count).max() <= 3
    assert np.array_equal(folds, stratified_folds(labels, count, seed=3, groups=groups))
    assert not np.array_equal(folds, stratified_folds(labels, count, seed=4, groups=groups))


def test_a_class_with_as_many_images_as_folds_is_in_each():
    labels = np.array([0] * 50 + [1] * 5)
    folds = stratified_folds(labels, 5, seed=0)
    assert sorted(folds[labels == 1]) == list(range(5))


def test_units_are_groups_and_single_images():
    groups = np.array([ALONE, 3, 1, 3, ALONE])
    assert [unit.tolist() for unit in list_units(5, groups)] == [[2], [1, 3], [0], [4]]
    assert [unit.tolist() for unit in list_units(2, None)] == [[0], [1]]
