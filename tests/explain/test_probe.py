"""The linear probe: against scikit-learn, on planted layers, and on models of both kinds."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.explain.figures.probe import draw_probe
from vitrail.explain.probe import Labelled, Probe, fit_logistic, layer_features, probe_layers
from vitrail.models.igpt import IGPTConfig, build_igpt


def clouds(count: int, classes: int = 3, width: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    middles = torch.eye(classes, width, dtype=torch.float64) * 2
    return middles[labels] + torch.randn(count, width, generator=generator, dtype=torch.float64), labels


def fit_by_newton(x: np.ndarray, labels: np.ndarray, classes: int, *, penalty: float) -> np.ndarray:
    """The same minimum by Newton's method: all second derivatives, written out  [Boehning 1992]."""
    x = np.hstack([x, np.ones((len(x), 1))])
    truth, pull = np.eye(classes)[labels], penalty * np.ones((classes, x.shape[1]))
    pull[:, -1] = 1e-12  # the biases are not pulled; all of them moved alike change nothing, so the matrix needs a little
    weights = np.zeros((classes, x.shape[1]))
    for _ in range(50):
        shares = np.exp(x @ weights.T)
        shares /= shares.sum(axis=1, keepdims=True)
        slope = (shares - truth).T @ x / len(x) + pull * weights
        curves = np.einsum("pk,kl->pkl", shares, np.eye(classes)) - shares[:, :, None] * shares[:, None, :]
        matrix = np.einsum("pkl,pi,pj->kilj", curves, x, x).reshape(slope.size, -1) / len(x) + np.diag(pull.ravel())
        weights -= np.linalg.lstsq(matrix, slope.ravel(), rcond=None)[0].reshape(slope.shape)
    return weights


@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-4])
def test_regression_against_newtons_method(penalty):
    x, labels = clouds(120)
    ours = fit_logistic(x, labels, penalty=penalty, start=x.new_zeros(3, 6))
    theirs = fit_by_newton(x.numpy(), labels.numpy(), 3, penalty=penalty)
    np.testing.assert_allclose(ours[:, :-1].numpy(), theirs[:, :-1], atol=2e-4)


def test_the_layer_that_knows_is_found():
    """Layer 0 is noise, layer 1 tells the class but for some noise, layer 2 tells it surely; one feature is constant."""
    splits = {}
    for seed, (name, count) in enumerate([("train", 90), ("val", 60), ("test", 61)]):
        x, labels = clouds(count, seed=seed)
        noise = torch.randn(count, 5, generator=torch.Generator().manual_seed(9 + seed), dtype=torch.float64)
        noise[:, 4] = 7.0
        sure = torch.nn.functional.one_hot(labels, 5).double() * 100 + noise
        splits[name] = Labelled(torch.stack([noise, x, sure]), labels)
    probe = probe_layers(splits, 3)
    assert probe.best == 2
    assert probe.test[2] == 1.0
    assert probe.test[0] < 0.55 < probe.test[1] < 1.0
    assert probe.chance == pytest.approx(21 / 61)
    assert probe == probe_layers(splits, 3)
    assert [axis.get_ylabel() for axis in draw_probe(probe).axes] == ["accuracy on test"]


def test_the_scale_of_a_feature_does_not_matter():
    x, labels = clouds(60)
    splits = {name: Labelled(x[None], labels) for name in ("train", "val", "test")}
    scaled = {name: Labelled((x * torch.tensor([1e3, 1.0, 1e-3, 5.0, 2.0]) + 4.0)[None], labels) for name in splits}
    assert probe_layers(splits, 3) == probe_layers(scaled, 3)


def test_features_of_a_model_of_pixels_and_of_one_of_images():
    pixels = build_igpt(IGPTConfig(width=12, depth=3, heads=2, colors=4, image_size=(3, 3))).eval()
    ids = torch.randint(0, 4, (5, 9))
    features = layer_features(pixels, [ids[:2], ids[2:]])
    assert features.shape == (3, 5, 12)
    assert_close(features[-1].float(), pixels.forward_intermediates(ids, [-1])[0].x.mean(1))
    images = vt.create_model("vit_nano_patch4_32", depth=2, image_size=16).eval()
    assert layer_features(images, [torch.randn(3, 3, 16, 16)]).shape == (2, 3, images.config.width)


def test_ties_and_refusals():
    assert Probe(test=(0.1, 0.2, 0.3), validation=(0.5, 0.9, 0.9), penalties=(1.0,) * 3, chance=0.1, answers=()).best == 1
    empty = Labelled(torch.empty(1, 0, 2, dtype=torch.float64), torch.empty(0, dtype=torch.int64))
    with pytest.raises(VitrailError, match="there is none"):
        probe_layers({"train": empty, "val": empty, "test": empty}, 2)
