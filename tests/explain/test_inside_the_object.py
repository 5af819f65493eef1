"""A model that has learned the shapes looks at the shape that gives an image its class."""

import pytest
import torch

import vitrail as vt
from vitrail.data.transforms import prepare
from vitrail.explain import DEFAULT, explain_map, share_inside


@pytest.mark.slow
def test_at_least_three_times_chance(tmp_path):
    """About a minute and a half on one core."""
    run = vt.train(data="shapes", model="vit_nano_conv", image_size=32, batch=64, epochs=6, workers=0, seed=0,
                   out=tmp_path / "run", quiet=True)  # fmt: skip
    test = vt.open_data("shapes", image_size=(32, 32))["test"]
    scenes = [test.scene(index) for index in range(60)]
    images = prepare([test.read(index) for index in range(60)], run.model.preprocessing)
    masks = torch.stack([torch.from_numpy(scene.instances == 1) for scene in scenes])
    for method in (DEFAULT, "relevance"):
        found = share_inside(explain_map(run.model, images, method), masks)
        assert float(found.share.mean()) > 3 * float(found.chance.mean()), method
    torch.manual_seed(0)
    found = share_inside(explain_map(run.model, images, "random"), masks)
    assert float(found.share.mean()) == pytest.approx(float(found.chance.mean()), rel=0.1)
