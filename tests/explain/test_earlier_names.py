"""Earlier public names still work, with a warning that names the present one."""

import pytest
import torch

from vitrail import explain
from vitrail.explain import Filters


def test_functions():
    with pytest.warns(DeprecationWarning, match="picture_weights is now image_weights"):
        assert explain.picture_weights is explain.image_weights
    with pytest.raises(AttributeError, match="no attribute 'wall_weights'"):
        _ = explain.wall_weights


def test_fields():
    filters = Filters(images=torch.ones(1, 3, 2, 2), shares=torch.ones(1), words="kernels")
    with pytest.warns(DeprecationWarning, match=r"Filters\.pictures is now Filters\.images"):
        assert filters.pictures is filters.images
