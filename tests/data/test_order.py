"""Which samples form a batch: every one once, no batch too large, a function of (seed, epoch)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.data.order import (
    COPY,
    BucketOrder,
    PackedOrder,
    PlainOrder,
    balanced_order,
    bucket_by_length,
    first_fit_decreasing,
    fixed_bucket,
    make_buckets,
    next_fit,
)
from vitrail.errors import VitrailError

LENGTHS = st.lists(st.integers(1, 30), max_size=60)

# Plain


def test_the_order_is_a_golden_value():
    """Resuming a run of an older version depends on it."""
    order = PlainOrder(11, batch=4, shuffle=True, seed=5)
    assert list(order.batches(2)) == [[4, 2, 5, 6], [0, 3, 9, 8]]


def test_an_epoch_has_its_length_and_part_of_the_images():
    """11 images, each 3 times, are 4 images, the last of them twice: a golden value, for resumption."""
    order = PlainOrder(11, batch=33, shuffle=True, seed=5, repeats=3)
    (batch,) = order.batches(2)
    assert batch == [index + COPY * copy for index in (4, 2, 5, 6) for copy in range(3)][:11]
    assert COPY == 2**40


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 9))
def test_a_balanced_order_has_every_class_equally_often(labels, seed):
    labels = np.array(labels)
    order = balanced_order(labels, np.random.default_rng(seed))
    assert len(order) == len(labels)
    counts = np.bincount(labels[order])[np.unique(labels)]
    assert counts.max() - counts.min() <= 1
    for label in np.unique(labels):
        times = np.bincount(order[labels[order] == label], minlength=len(labels))[labels == label]
        assert times.max() - times.min() <= 1, "within a class none comes twice before all came once"


def test_a_balanced_order_of_several_labels():
    labels = np.zeros((100, 3), dtype=bool)
    labels[:80, 0] = labels[75:85, 1] = labels[84, 2] = True
    order = balanced_order(labels, np.random.default_rng(0))
    assert len(order) == 100
    assert labels[order].sum(0).min() >= 25, "even the label that one image has"
    assert 20 <= (~labels[order].any(1)).sum() <= 30, "those without labels count as a class"


# Packed


def flat(bins):
    return [number for one in bins for number in one]


@given(lengths=LENGTHS, budget=st.integers(30, 90))
def test_first_fit_decreasing(lengths, budget):
    bins = first_fit_decreasing(lengths, budget)
    assert sorted(flat(bins)) == list(range(len(lengths)))
    sums = [sum(lengths[number] for number in one) for one in bins]
    assert all(total <= budget for total in sums)
    for one in bins:
        assert [lengths[number] for number in one] == sorted((lengths[number] for number in one), reverse=True)
    for place, one in enumerate(bins):  # whatever stands in a later bin had no room in an earlier one when it came
        for before in range(place):
            for number in one:
                earlier = [other for other in bins[before] if (-lengths[other], other) < (-lengths[number], number)]
                assert sum(lengths[other] for other in earlier) + lengths[number] > budget
    least = math.ceil(sum(lengths) / budget)
    assert least <= len(bins) <= max(least, 2 * least - 1) + (not lengths)


def test_first_fit_decreasing_by_hand():
    assert first_fit_decreasing([3, 7, 5, 2, 5, 6], 10) == [[1, 0], [5, 3], [2, 4]]
    assert first_fit_decreasing([], 10) == []
    for pack in (first_fit_decreasing, next_fit):
        with pytest.raises(VitrailError, match="items of 3 to 11 tokens do not fit into bins of 10"):
            pack([3, 11], 10)


def test_first_fit_decreasing_is_quick():
    lengths = np.random.default_rng(0).integers(16, 197, 50_000).tolist()
    assert len(first_fit_decreasing(lengths, 64 * 197)) == math.ceil(sum(lengths) / (64 * 197))


@given(lengths=LENGTHS, budget=st.integers(30, 90))
def test_next_fit_keeps_the_order(lengths, budget):
    bins = next_fit(lengths, budget)
    assert flat(bins) == list(range(len(lengths)))
    sums = [sum(lengths[number] for number in one) for one in bins]
    assert all(total <= budget for total in sums)
    assert all(sums[i] + lengths[bins[i + 1][0]] > budget for i in range(len(bins) - 1))


def packed(lengths, **options):
    return PackedOrder(np.array(lengths), **{"budget": 50, "batch": 2, "seed": 3, **options})


@settings(max_examples=30)
@given(lengths=st.lists(st.integers(1, 25), min_size=1, max_size=80), seed=st.integers(0, 9))
def test_every_epoch_has_as_many_batches_and_its_own_order(lengths, seed):
    made = packed(lengths, shuffle=True, seed=seed)
    for epoch in (0, 1, 5):
        batches = made.deal(epoch)
        assert len(batches) == len(made) == max(1, sum(lengths) // 50)
        numbers = np.concatenate(batches)
        assert len(set(numbers.tolist())) == len(numbers)  # none twice
        assert all(made.lengths[one].sum() <= 50 for one in batches)
        assert all(np.array_equal(one, other) for one, other in zip(batches, made.deal(epoch), strict=True))
    start = len(made) // 2
    assert list(made.batches(5, start)) == [one.tolist() for one in made.deal(5)[start:]]


def test_batches_of_alike_images_are_those_of_the_plain_loader():
    plain = PlainOrder(37, batch=4, shuffle=True, seed=3)
    alike = PackedOrder(np.full(37, 10), budget=40, batch=4, shuffle=True, seed=3)
    assert list(alike.batches(0)) == list(plain.batches(0))


@pytest.mark.parametrize("drawn", [{"balance": np.array([0] * 30 + [1] * 2)}, {"repeats": 2}])
def test_balanced_and_repeated_images(drawn):
    made = PackedOrder(np.array([25] * 30 + [3] * 2), budget=50, batch=2, shuffle=True, seed=1, **drawn)
    for epoch in range(3):
        assert len(made.deal(epoch)) == len(made)


def test_processes_share_every_packed_batch():
    lengths = np.random.default_rng(0).integers(5, 25, 40).tolist()
    shares = [list(packed(lengths, shuffle=True, rank=rank, world=2).batches(0)) for rank in (0, 1)]
    whole = list(packed(lengths, shuffle=True).batches(0))
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for one, other, both in zip(*shares, whole, strict=True):
        assert (one, other) == (both[::2], both[1::2])


# By length and by shape


@settings(max_examples=50)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(60, 400), st.integers(1, 5))
def test_buckets_hold_everything_once_and_no_batch_is_too_large(lengths, tokens, batches):
    numbers = np.array(lengths)
    buckets = make_buckets(numbers, tokens, batches=batches)
    order = BucketOrder(buckets, shuffle=True, seed=1)
    for dealt in (order.deal(epoch) for epoch in range(3)):
        assert sorted(np.concatenate(dealt).tolist()) == list(range(len(lengths)))
        assert all(len(batch) and len(batch) * numbers[batch].max() <= tokens for batch in dealt)
        assert len(dealt) == len(order) == sum(bucket.count for bucket in buckets)


def test_every_choice_of_buckets_keeps_to_what_is_kept():
    buckets = bucket_by_length(np.array([9, 4, 5, 90]), np.array([0, 1, 2]), tokens=10, shuffle=True, world=1)
    assert sorted(np.concatenate([bucket.members for bucket in buckets]).tolist()) == [0, 1, 2]


def test_passes_are_copies_and_each_is_shuffled_anew():
    order = BucketOrder([fixed_bucket(np.arange(7), 2, full=True), fixed_bucket(np.arange(7, 10), 3, full=True)],
                        shuffle=True, seed=4, passes=3)  # fmt: skip
    dealt = order.deal(2)
    assert len(dealt) == len(order) == 3 * 4
    once = BucketOrder(order.buckets, shuffle=True, seed=4)
    for number in range(3):
        assert [whole.tolist() for whole in dealt[4 * number : 4 * number + 4]] == [
            (whole + COPY * number).tolist() for whole in once.deal(2 * 3 + number)
        ]
    assert {len(whole) for whole in dealt} == {2, 3}, "never of two buckets"
