"""Where a model looks: what is measured for each kind of pooling, and the section that shows it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vitrail as vt
from vitrail.explain import DEFAULT, METHODS, explain_map
from vitrail.tasks.classify.report_attention import Looks, choose_images, look
from vitrail.tasks.classify.report_samples import show_looks

SIZE = (24, 40)  # a grid of 3x5


def model_with(pool, prefix):
    torch.manual_seed(0)
    return vt.create_model(
        "vit_tiny_patch16_224", image_size=SIZE, patch=8, width=24, depth=2, heads=3, num_classes=5, pool=pool, prefix=prefix
    ).train()


def images(count=2):
    return torch.randn(count, 3, *SIZE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("pool", "prefix"), [("class", 3), ("mean", 0), ("attention", 1)])
def test_each_map_is_that_of_the_default_method_with_a_mean_of_one(pool, prefix):
    model = model_with(pool, prefix)
    looks = look(model, images(), [7, 4])
    assert looks.maps.shape == (2, 3, 5)
    np.testing.assert_allclose(looks.maps.mean(axis=(1, 2)), 1, rtol=1e-5)
    np.testing.assert_allclose(looks.maps, 15 * explain_map(model, images()).numpy(), rtol=1e-4)
    assert looks.indices.tolist() == [7, 4]
    assert METHODS[DEFAULT].words in looks.words
    assert DEFAULT in looks.words
    assert model.training


@pytest.mark.parametrize("name", ["resnet8_32", "gcnn_z2_small"])
def test_convolutional_nets_are_explained_too(name):
    model = vt.create_model(name, num_classes=3)
    found = look(model, torch.randn(1, model.preprocessing.channels, *model.image_size), [0])
    assert found.maps.ndim == 3
    assert "(method: occlusion)" in found.words


def test_a_model_without_answers_is_said_in_one_line(make_report):
    found = look(vt.create_model("vit_nano_conv", num_classes=0, image_size=16), torch.randn(1, 3, 16, 16), [0])
    assert isinstance(found, str)
    assert "num_classes is 0" in found
    assert "\n" not in found
    assert "Not shown: " in show_looks(make_report()[1], found).note


@given(wrong=st.lists(st.booleans(), max_size=60))
@settings(max_examples=50)
def test_the_chosen_images_are_different_ones_and_up_to_half_are_mistakes(wrong):
    wrong = np.array(wrong, dtype=bool)
    chosen = choose_images(wrong)
    mistakes = min(6, int(wrong.sum()))
    assert len(set(chosen.tolist())) == len(chosen) == mistakes + min(12 - mistakes, int((~wrong).sum()))
    assert wrong[chosen].tolist() == sorted(wrong[chosen].tolist(), reverse=True)
    assert wrong[chosen].sum() == mistakes


def test_the_scale_covers_nearly_all_patches():
    maps = np.ones((1, 10, 10))
    maps[0, 0, :2] = 40
    looks = Looks(indices=np.array([0]), maps=maps, words="")
    assert looks.highest == 1.5


def test_the_section_shows_both_images_and_the_scale(make_report):
    looks = Looks(indices=np.array([0, 30]), maps=np.ones((2, 2, 3)), words="what was measured")
    text = show_looks(make_report()[1], looks).__html__()
    assert text.count("<img") == 2 * 2 + 1
    assert text.count('class="sample wrong"') == 1  # image 0 is a mistake
    assert "what was measured" in text
    assert "2×3 patches" in text
