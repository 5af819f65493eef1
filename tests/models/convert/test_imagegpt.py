"""Image GPT against transformers', with copied weights."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.models.convert.imagegpt import config_from_imagegpt, from_imagegpt, to_imagegpt
from vitrail.models.igpt import build_igpt

SIZES = {"vocab_size": 14, "n_positions": 25, "n_embd": 24, "n_layer": 3, "n_head": 2}


@pytest.fixture(scope="module")
def theirs():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.ImageGPTForCausalImageModeling(transformers.ImageGPTConfig(**SIZES)).eval()
    for parameter in model.parameters():  # theirs begin with zero biases and equal norms, which would hide a mistake
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
def test_logits(theirs, activation):
    from transformers.activations import ACT2FN

    for block in theirs.transformer.h:
        block.mlp.act = ACT2FN[activation]
    record = {**theirs.config.to_dict(), "activation_function": activation}
    ours = build_igpt(config_from_imagegpt(record)).eval()
    colors = torch.randint(0, 256, (13, 3), dtype=torch.uint8)
    ours.load_state_dict(from_imagegpt(theirs.state_dict(), clusters=colors / 127.5 - 1))
    ids = torch.randint(0, 13, (3, 25))
    start = torch.full((3, 1), 13)  # theirs is given the sequence already moved on by one place
    with torch.inference_mode():
        expected = theirs(torch.cat([start, ids[:, :-1]], dim=1)).logits
        assert_close(ours(ids), expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1  # not a comparison of zeros
    assert torch.equal(ours.palette, colors)


def test_there_and_back(theirs):
    before = theirs.state_dict()
    after = to_imagegpt(from_imagegpt(before))
    assert after.keys() == before.keys()
    for name in before:
        assert torch.equal(after[name], before[name])


def test_what_we_do_not_compute_is_refused(theirs):
    record = theirs.config.to_dict()
    with pytest.raises(VitrailError, match="square image, got 26"):
        config_from_imagegpt({**record, "n_positions": 26})
    with pytest.raises(VitrailError, match="scale_attn_by_inverse_layer_idx must be False"):
        config_from_imagegpt({**record, "scale_attn_by_inverse_layer_idx": True})
    with pytest.raises(VitrailError, match='unknown activation_function "silu"'):
        config_from_imagegpt({**record, "activation_function": "silu"})
