"""What holds for every model of the catalogue that takes images: a new family joins these tests by being in it.

Each preset is made small (a few tokens, two blocks, two classes, images that are not square unless the model insists), and those
that differ in size alone are one. The first Vision Transformer also comes with every position scheme.
"""

from dataclasses import fields

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import attention_map, explain_map, look, methods_for, received_map, record
from vitrail.explain.methods import METHODS
from vitrail.models.catalogue import ARCHITECTURES, PRESETS, build_model, image_models, model_config
from vitrail.models.parts import POSITIONS
from vitrail.nn.attention.recording import recording
from vitrail.nn.initialization import shapes_only

SMALL = {"num_classes": 2, "width": 24, "depth": 2, "heads": 2, "mlp_ratio": 2.0}
LONG, SQUARE = (32, 48), (16, 16)


def shrink(name, size=LONG, **changes):
    config = next(presets[name] for presets in PRESETS.values() if name in presets)
    known = [field.name for field in fields(config)]
    options = {option: value for option, value in SMALL.items() if option in known} | {"image_size": size} | changes
    if "depths" in known:
        options["depths"] = [min(2, depth) for depth in config.depths]
    if getattr(config, "tokenizer", None) == "patch":
        options["patch"] = 8
    if "window" in known:  # every stage's grid has the image's aspect ratio
        options["patch"] = 2
    return model_config(name, **options)


def every_model():
    found = {}
    for name in image_models():
        for size in (LONG, SQUARE):
            architecture, config = shrink(name, size)
            try:
                with shapes_only():
                    build_model(architecture, config)
            except vt.VitrailError:
                assert size == LONG  # a square image suits all
                continue
            found.setdefault((architecture, config), name)
            break
    for scheme in POSITIONS:
        architecture, config = shrink(next(iter(PRESETS["vit"])), position=scheme, prefix=2)
        found.setdefault((architecture, config), scheme)
    return {name: key for key, name in found.items()}


MODELS = every_model()


@pytest.fixture(params=MODELS)
def case(request):
    """A model whose attention is not even, and two images for it."""
    torch.manual_seed(0)
    architecture, config = MODELS[request.param]
    model = build_model(architecture, config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query" in name or "key" in name or "position" in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model, torch.randn(2, config.in_channels, *config.image_size)


class Scopes:
    """A recorder of scopes alone."""

    def __init__(self):
        self.found = []

    def keep(self, layer, q, k, v, out, scope, windows=None):
        self.found.append(scope)


def is_attention_model(model):
    return "attention" in methods_for(model)


def test_every_architecture_is_here():
    images = {name for name, architecture in ARCHITECTURES.items() if architecture.takes == "images"}
    assert {architecture for architecture, _ in MODELS.values()} == images
    assert all(config.image_size == LONG for architecture, config in MODELS.values() if architecture in ("vit", "resnet"))


def test_recording_changes_nothing_and_explains_the_output(case):
    model, images = case
    if not is_attention_model(model):
        with pytest.raises(vt.VitrailError, match=f"{type(model).__name__} has no attention layers"), record(model):
            pass
        return
    scopes = Scopes()
    with torch.no_grad():
        before = model(images)
        with record(model) as seen:
            assert torch.equal(model(images), before)
        with record(model, layers=[-1], heads=[1], queries=[3, 0]) as some:
            assert torch.equal(model(images), before)
        with recording(scopes):
            model(images)
        assert len(seen.layers) == len(scopes.found) > 0
        for weights, values, outputs, scope in zip(seen.layers, seen.values, seen.outputs, scopes.found, strict=True):
            assert (weights >= 0).all()
            assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
            read = weights @ values
            if scope.position is not None and scope.position.reads:
                read = read + scope.position.read(weights, scope)
            assert_close(read, outputs, atol=1e-5, rtol=1e-4)
    assert_close(some.layers[0], seen.layers[-1][:, [1]][:, :, [3, 0]], atol=1e-6, rtol=1e-4)
    assert_close(some.outputs[0], seen.outputs[-1][:, [1]][:, :, [3, 0]])
    assert_close(some.values[0], seen.values[-1][:, [1]])


def test_maps_have_the_aspect_ratio_of_the_image(case):
    model, images = case
    if not is_attention_model(model):
        return
    seen = look(model, images)
    (rows, columns), (height, width) = seen.grid, images.shape[2:]
    assert rows * width == columns * height
    assert seen.logits.shape == (2, 2)
    for layer in range(len(seen.seen.layers)):
        for found in (
            attention_map(seen, layer=layer),
            attention_map(seen, layer=layer, head=-1, query=(rows - 1, 0)),
            received_map(seen, layer=layer, reduce="max"),
        ):
            assert found.shape[1] * width == found.shape[2] * height
            assert (found >= 0).all()
    read = attention_map(seen, query=(0, 1)).sum((1, 2))
    assert (read <= 1 + 1e-5).all()
    if not seen.prefix:
        assert_close(read, torch.ones(2))


def test_every_method_that_is_offered_works_and_the_others_say_why_not(case):
    model, images = case
    offered, height, width = methods_for(model), images.shape[2], images.shape[3]
    assert {"occlusion", "gradient"} <= set(offered)
    for name, method in METHODS.items():
        if name not in offered and not method.hidden:
            with pytest.raises(vt.VitrailError, match=f"{name} does not work here"):
                explain_map(model, images, name)
            continue
        found = explain_map(model, images, name)
        assert found.shape[1] * width == found.shape[2] * height
        assert (found >= 0).all()
        assert_close(found.sum((1, 2)), torch.ones(2))
        assert not found.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    assert_close(explain_map(model, images).sum((1, 2)), torch.ones(2))
