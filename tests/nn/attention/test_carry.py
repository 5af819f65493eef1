"""What a kernel passes from layer to layer, shown by one that adds the logits of the layer below."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.models.catalogue import create_model
from vitrail.models.detections import Targets
from vitrail.nn.attention.carry import Carry
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.attention.recording import recording

pytestmark = pytest.mark.usefixtures("toys")
IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
WORDS = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 9, 11]])


def vit(**more):
    return create_model("vit_nano_patch4_32", image_size=16, width=24, heads=3, num_classes=5, **{"depth": 3, **more})


def swin(**more):
    size = {"width": 12, "heads": 2, "window": (4, 4), "num_classes": 5}
    return create_model("swin_nano_patch2_window4_32", **size, **{"image_size": 16, "depths": (3, 2), **more})


def detr(**more):
    size = {"image_size": 64, "width": 24, "heads": 3, "hidden": 29, "depth": 2, "decoder_depth": 2, "queries": 7}
    return create_model("detr_micro", num_classes=5, denoising=8, **size, **more)


def transformer(**more):
    size = {"width": 24, "heads": 3, "hidden": 29, "depth": 2, "decoder_depth": 2, "dropout": 0.0}
    return create_model("transformer_tiny", vocabulary=31, **size, **more)


def sharpen(model):
    """So that attention differs from an even one."""
    for layer in model.modules():
        if isinstance(layer, MultiHeadAttention):
            torch.nn.init.normal_(layer.query.weight, std=0.5)
            torch.nn.init.normal_(layer.key.weight, std=0.5)
    return model


def run_detr(model):
    targets = [Targets(torch.tensor([1]), torch.tensor([[0.5, 0.5, 0.2, 0.3]]))] * 2
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return model(images, targets, generator=torch.Generator().manual_seed(0)).logits


MODELS = {
    "vit": (vit, lambda model: model(IMAGES)),
    "swin": (swin, lambda model: model(IMAGES)),
    "detr": (detr, run_detr),
    "transformer": (transformer, lambda model: model(WORDS, WORDS)),
}


class Kept:
    def __init__(self):
        self.calls = []

    def keep(self, layer, q, k, v, out, scope):
        self.calls.append((layer.kernel.layer, q, k, scope))


def test_a_layer_adds_what_the_layer_below_left():
    model, kept = sharpen(vit(attention="carried", attention_options={"strength": 0.5})).eval(), Kept()
    with recording(kept), torch.no_grad():
        model(IMAGES)
    below = 0.0
    for number, (layer, q, k, scope) in enumerate(kept.calls):
        assert layer == number
        below = q @ k.mT * q.shape[-1] ** -0.5 + 0.5 * below
        assert_close(scope.carry.entries[number], below)


@pytest.mark.parametrize("name", MODELS)
def test_without_strength_it_is_softmax_and_with_it_another_function(name):
    make, run = MODELS[name]
    plain = sharpen(make()).eval()
    none = make(attention="carried", attention_options={"strength": 0.0}).eval()
    full = make(attention="carried").eval()
    for other in (none, full):
        other.load_state_dict(plain.state_dict())
    with torch.no_grad():
        assert_close(run(none), run(plain), atol=1e-5, rtol=1e-4)
        assert not torch.allclose(run(full), run(plain), atol=1e-4)
        assert torch.equal(run(full), run(full))  # a pass begins with nothing


@pytest.mark.parametrize("name", MODELS)
def test_computing_blocks_again_sees_what_was_there(name):
    """Activation checkpointing: the layers above have left their entries when a block is computed again."""
    make, run = MODELS[name]
    model, gradients = sharpen(make(attention="carried")).train(), []
    for again in (False, True):
        for module in model.modules():
            if hasattr(module, "checkpointing"):
                module.checkpointing = again
        model.zero_grad()
        run(model).square().mean().backward()
        gradients.append({path: one.grad.clone() for path, one in model.named_parameters() if one.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for path, gradient in gradients[0].items():
        assert torch.equal(gradient, gradients[1][path]), path


def test_merged_tokens_begin_with_nothing():
    """Every block merges: what is left has other logits than the tokens there were, so nothing is carried."""
    plain = sharpen(vit(merge=2)).eval()
    carried = vit(merge=2, attention="carried").eval()
    carried.load_state_dict(plain.state_dict())
    with torch.no_grad():
        assert_close(carried(IMAGES), plain(IMAGES), atol=1e-5, rtol=1e-4)


def test_windows_of_another_shift_are_other_tokens():
    """Of each stage the first two blocks look at different windows, and carry nothing to each other."""
    plain = sharpen(swin(depths=(2, 2), image_size=32)).eval()
    carried = swin(depths=(2, 2), image_size=32, attention="carried").eval()
    carried.load_state_dict(plain.state_dict())
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert_close(carried(images), plain(images), atol=1e-5, rtol=1e-4)


def test_writing_with_a_cache():
    model = create_model("gpt_tiny", vocabulary=31, width=24, heads=3, hidden=29, depth=3, attention="carried").eval()
    ids = torch.randint(5, 31, (2, 7))
    with torch.no_grad():
        state, expected = model.begin(2), sharpen(model)(ids)
        for end in range(1, 8):
            assert_close(model.step(ids[:, :end], state), expected[:, end - 1], atol=1e-5, rtol=1e-4)


def test_images_in_one_sequence_carry_each_their_own():
    model = sharpen(vit(attention="carried")).eval()
    images = [torch.randn(3, 16, 16), torch.randn(3, 8, 12), torch.randn(3, 16, 16)]
    with torch.no_grad():
        packed = model.forward_packed(images)
        alone = torch.cat([model.forward_packed([image]) for image in images])
    assert_close(packed, alone, atol=1e-5, rtol=1e-4)


def test_recorded_weights_are_those_that_were_used():
    model = sharpen(vit(attention="carried")).eval()
    with vt.explain.record(model) as seen:
        model(IMAGES)
    kept = Kept()
    with recording(kept), torch.no_grad():
        model(IMAGES)
    for number, (_, _, _, scope) in enumerate(kept.calls):
        assert_close(seen.layers[number], scope.carry.entries[number].softmax(-1), atol=1e-5, rtol=1e-4)


def test_nothing_is_made_where_no_kernel_wants_it():
    assert not vit().encoder.carries
    assert vit(attention="carried").encoder.carries


def test_the_nearest_layer_below():
    carry, (one, two) = Carry(), torch.eye(2)
    assert carry.below(5) is None
    carry.leave(0, one)
    carry.leave(3, two)
    assert carry.below(3) is one
    assert carry.below(4) is two
    assert carry.within("a").below(4) is None
    assert carry.within("a") is carry.within("a")
