"""A score that is a mean over samples says what each of them adds: epochs are compared by it. Others say nothing."""

import numpy as np
import pytest

from vitrail.tasks.beit.objective import NamedPatches
from vitrail.tasks.caption.objective import Captions
from vitrail.tasks.classify.objective import Predictions
from vitrail.tasks.dvae.objective import CodedImages
from vitrail.tasks.mae.objective import DrawnPatches
from vitrail.tasks.mri.objective import ReconstructionScores
from vitrail.tasks.restore.objective import Restorations

N = 7
DRAWN = np.random.default_rng(0)
VALUES = DRAWN.normal(30.0, 3.0, (N, 5))
CODES = DRAWN.integers(0, 4, (N, 3))
TEXTS = ("a b c d", "a b c e") * 3 + ("a b d d",)
WORDS = {"indices": np.arange(N), "captions": TEXTS, "references": (("a b c d",),) * N, "loss": 1.0}
PAIRED = {
    "accuracy": Predictions(logits=DRAWN.normal(size=(N, 3)), truth=DRAWN.integers(0, 3, N)),
    "psnr": Restorations(rows=VALUES, indices=np.arange(N)),
    "psnr of codes": CodedImages(losses=VALUES[:, 0], psnr=VALUES[:, 1], codes=CODES, vocabulary=4),
    "psnr of slices": ReconstructionScores(rows=VALUES, indices=np.arange(N)),
    "explained": DrawnPatches(losses=VALUES[:, 0] / 40, flat=VALUES[:, 1]),
    "accuracy of codes": NamedPatches(losses=VALUES[:, 0], right=np.array([0, 1, 2, 3, 3, 1, 0]), codes=CODES),
    "exact": Captions(**WORDS, score="exact"),
}


@pytest.mark.parametrize("name", PAIRED)
def test_the_mean_of_what_each_sample_adds_is_the_score(name):
    found = PAIRED[name]
    assert len(found.per_sample) == N
    assert found.per_sample.mean() == pytest.approx(found.metrics[name.split(" ")[0]])


def test_what_is_no_mean_has_no_pairs():
    assert Captions(**WORDS, score="bleu").per_sample is None
    assert ReconstructionScores(rows=VALUES, indices=np.arange(N), objective="equivariant").per_sample is None
    assert Predictions(logits=np.zeros((N, 2)), truth=np.zeros((N, 2), bool)).per_sample is None
