import math

import pytest
import torch

from vitrail.errors import VitrailError
from vitrail.learn.metrics import nearest_neighbors as home
from vitrail.learn.metrics.nearest_neighbors import knn_accuracy, knn_votes, nearest_neighbors


def test_a_near_neighbor_outvotes_two_far_ones_if_the_temperature_is_low():
    # Cosines with (1, 0): 1 for class 0; 0.6 twice for class 1. exp(1/T) against 2 exp(0.6/T): equal at T = 0.4 / ln 2.
    known, labels = torch.tensor([[2.0, 0], [0.6, 0.8], [3.0, -4.0]]), torch.tensor([0, 1, 1])
    asked, turn = torch.tensor([[5.0, 0]]), 0.4 / math.log(2)
    assert knn_votes(known, labels, asked, classes=2, k=3, temperature=turn - 0.01).tolist() == [0]
    assert knn_votes(known, labels, asked, classes=2, k=3, temperature=turn + 0.01).tolist() == [1]
    assert knn_votes(known, labels, asked, classes=2, k=1, temperature=turn + 0.01).tolist() == [0]


def test_twenty_neighbors_vote_unless_another_number_is_asked_for():
    """The 20 nearest, all alike, are of class 1; 180 that are hardly farther are of class 0."""
    near, far = torch.tensor([[1.0, 0.1]]).repeat(20, 1), torch.tensor([[1.0, -0.11]]).repeat(180, 1)
    known, labels = torch.cat([far, near]), torch.cat([torch.zeros(180), torch.ones(20)]).long()
    asked = torch.tensor([[1.0, 0.0]])
    assert knn_votes(known, labels, asked, classes=2).tolist() == [1]
    assert knn_votes(known, labels, asked, classes=2, k=200).tolist() == [0]
    assert knn_accuracy(known, labels, asked, torch.tensor([1]), classes=2) == 1.0
    assert knn_accuracy(known, labels, asked, torch.tensor([1]), classes=2, k=200) == 0.0


def test_neighbors_come_nearest_first_and_length_does_not_matter():
    known = torch.tensor([[0.0, 1], [1, 1], [100, 1]])
    nearness, numbers = nearest_neighbors(known, torch.tensor([[1.0, 0]]), k=7)
    assert numbers.tolist() == [[2, 1, 0]]
    assert nearness[0, 1].item() == pytest.approx(1 / math.sqrt(2))


def test_chunks_change_nothing(monkeypatch):
    known, asked = torch.randn(31, 7), torch.randn(23, 7)
    labels, truth = torch.randint(5, (31,)), torch.randint(5, (23,))
    whole = knn_accuracy(known, labels, asked, truth, classes=5, k=3)
    votes = knn_votes(known, labels, asked, classes=5, k=3)
    monkeypatch.setattr(home, "CHUNK", 4)
    assert knn_accuracy(known, labels, asked, truth, classes=5, k=3) == whole == (votes == truth).float().mean().item()


def test_arithmetic_of_bfloat16_around_it_changes_nothing():
    known, labels = torch.randn(40, 6), torch.randint(3, (40,))
    asked = torch.randn(9, 6)
    expected = knn_votes(known, labels, asked, classes=3, k=5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(knn_votes(known, labels, asked, classes=3, k=5), expected)
        assert nearest_neighbors(known, asked, k=5)[0].dtype == torch.float32


def test_every_image_is_its_own_nearest_neighbor():
    features, labels = torch.randn(17, 5), torch.randint(3, (17,))
    assert knn_accuracy(features, labels, features, labels, classes=3, k=1) == 1.0


def test_nothing_overflows_at_a_low_temperature():
    features, labels = torch.randn(17, 5), torch.arange(17) % 3
    assert knn_accuracy(features, labels, features, labels, classes=3, k=5, temperature=1e-3) == 1.0


@pytest.mark.parametrize(
    ("settings", "words"), [({"k": 0}, "k must be at least 1, got 0"), ({"temperature": 0.0}, "above 0, got 0.0")]
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(VitrailError, match=words):
        knn_votes(torch.randn(3, 2), torch.zeros(3, dtype=torch.long), torch.randn(1, 2), classes=2, **settings)
