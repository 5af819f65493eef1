"""The logit lens: at the last layer it is the model, at the first the head on the embedding."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain.lens import logit_lens

SIZE = (24, 40)
IMAGES = torch.randn(2, 3, *SIZE, generator=torch.Generator().manual_seed(1))


def model_with(**options):
    torch.manual_seed(0)
    given = {"image_size": SIZE, "patch": 8, "width": 24, "depth": 3, "heads": 3, "num_classes": 5, **options}
    return vt.create_model("vit_tiny_patch16_224", **given)


@pytest.mark.parametrize(
    "options",
    [
        {"pool": "class"},
        {"pool": "mean", "prefix": 0},
        {"pool": "attention", "prefix": 2, "head_hidden": 11},
        {"position": "relative_shaw"},
        {"position": "conditional", "norm": "post"},
    ],
)
def test_the_last_layer_is_the_models_own_answer(options):
    model = model_with(**options).train()
    lens = logit_lens(model, IMAGES)
    assert model.training
    model.eval()
    with torch.no_grad():
        assert torch.equal(lens.whole[-1], model(IMAGES).softmax(-1))
        embedded = model.embed(IMAGES)
        first = model.head(embedded._replace(x=model.encoder.norm(embedded.x))).softmax(-1)
    assert lens.whole.shape == (4, 2, 5)
    assert lens.patches.shape == (4, 2, 3, 5, 5)
    assert torch.equal(lens.whole[0], first)
    assert_close(lens.patches.sum(-1), torch.ones(4, 2, 3, 5))


def test_with_mean_pooling_the_whole_is_the_mean_of_its_patches_logits():
    model = model_with(pool="mean", prefix=0)
    lens = logit_lens(model, IMAGES)
    logits = lens.patches.log()  # up to a constant a patch, which differences of classes do not have
    margins = (logits - logits[..., :1]).mean(dim=(2, 3))
    expected = lens.whole.log() - lens.whole.log()[..., :1]
    assert_close(margins, expected, atol=1e-4, rtol=1e-4)


def test_labels_that_do_not_exclude_each_other_have_probabilities_of_their_own():
    model = model_with()
    model.multi_label = True
    with torch.no_grad():
        assert torch.equal(logit_lens(model, IMAGES).whole[-1], model.eval()(IMAGES).sigmoid())


@pytest.mark.parametrize("name", ["gsa_p4_small", "resnet*", "gcnn*"])
def test_other_families_say_what_they_lack(name):
    model = vt.create_model(vt.list_models(name)[0])
    with pytest.raises(vt.VitrailError, match=f"{model.architecture} has no plain encoder"):
        logit_lens(model, torch.zeros(1, model.config.in_channels, *model.image_size))
    with pytest.raises(vt.VitrailError, match="head with classes"):
        logit_lens(model_with(num_classes=0), IMAGES)
