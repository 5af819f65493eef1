"""Pixels and objects of `shapes` that a model has never seen: what was learned holds for new images. Minutes each."""

import pytest

from vitrail import train


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({"task": "segment", "epochs": 4}, "miou"),
        ({"task": "detect", "epochs": 8}, "ap50"),
    ],
    ids=["pixels", "objects"],
)
def test_new_images_are_recognized(tmp_path, options, score):
    run = train(data="shapes", workers=0, out=tmp_path / "run", **options)
    assert run.metrics[score] > 0.8
