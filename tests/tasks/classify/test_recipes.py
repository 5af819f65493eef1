"""Which recipe and which model a dataset gets."""

import pytest

from vitrail.tasks.classify.options import LARGE_PHOTOGRAPHS, PHOTOGRAPHS, RECIPES, TUNED_PHOTOGRAPHS, TUNED_STEM, recipe_for
from vitrail.tasks.classify.task import choose_model
from vitrail.tasks.image_task import choose_recipe


@pytest.mark.parametrize(
    "images, expected",
    [(10, "tiny"), (10_000, "tiny"), (10_001, "small"), (100_000, "small"), (10**6, "medium"), (14_197_122, "large")],
)
def test_the_number_of_images_chooses(images, expected):
    assert choose_recipe(images) == expected
    assert choose_recipe(images, pretrained=True) == "finetune"


def test_small_photographs_have_values_of_their_own():
    for name in ("tiny", "small"):
        changed = recipe_for(name, size=(32, 32), channels=3)
        assert {key: changed[key] for key in PHOTOGRAPHS} == dict(PHOTOGRAPHS)
        assert changed["epochs"] == RECIPES[name]["epochs"]
        assert recipe_for(name, size=(32, 32), channels=1) == RECIPES[name], "a drawing"
        larger = recipe_for(name, size=(224, 224), channels=3)
        assert {key: larger[key] for key in LARGE_PHOTOGRAPHS} == dict(LARGE_PHOTOGRAPHS)
    for name in ("medium", "large", "finetune", "plain"):
        assert recipe_for(name, size=(32, 32), channels=3) == RECIPES[name]
    tuned = recipe_for("finetune", size=(64, 64), channels=3)
    assert tuned == {**RECIPES["finetune"], **TUNED_PHOTOGRAPHS}
    of_stem = recipe_for("finetune", size=(64, 64), channels=3, stem=True)
    assert of_stem == {**RECIPES["finetune"], **TUNED_STEM}
    assert recipe_for("finetune", size=(64, 64), channels=1) == RECIPES["finetune"]


@pytest.mark.parametrize(
    "size, images, expected",
    [
        ((8, 8), 1437, "vit_nano_conv"),
        ((64, 64), 4000, "vit_nano_conv"),
        ((16, 16), 9000, "vit_micro_conv"),
        ((28, 28), 60_000, "vit_micro_hybrid"),
        ((32, 32), 9000, "vit_micro_hybrid"),
        ((64, 96), 200, "vit_micro_hybrid"),
        ((224, 224), 100_000, "vit_micro_hybrid"),
        ((224, 224), 100_001, "vit_tiny_patch16_224"),
    ],
)
def test_the_model_is_chosen_by_size_and_number(size, images, expected):
    assert choose_model(size, images) == expected
