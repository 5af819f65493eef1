import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.mask_predict import MaskPredictConfig
from vitrail.special_tokens import MASK, PAD

SMALL = {"vocabulary": 53, "width": 16, "heads": 2, "hidden": 24, "depth": 2, "decoder_depth": 2, "longest": 30}


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return vt.create_model("cmlm_tiny", **SMALL).eval()


def test_every_place_sees_all_words_before_and_behind(model):
    source, target = torch.randint(5, 53, (1, 4)), torch.tensor([[7, MASK, 9, 11]])
    words, _ = model(source, target)
    for place in (0, 2, 3):
        changed = target.clone()
        changed[0, place] = 13
        assert (model(source, changed)[0][0, 1] - words[0, 1]).abs().max() > 1e-4


def test_padding_changes_neither_words_nor_lengths(model):
    source, target = torch.randint(5, 53, (2, 4)), torch.tensor([[7, MASK, 9], [MASK, MASK, 6]])
    words, lengths = model(source, target)
    padded = model(torch.nn.functional.pad(source, (0, 3), value=PAD), torch.nn.functional.pad(target, (0, 2), value=PAD))
    assert_close(padded[0][:, :3], words, atol=1e-5, rtol=1e-5)
    assert_close(padded[1], lengths, atol=1e-5, rtol=1e-5)


def test_shapes_and_config(model):
    words, lengths = model(torch.randint(5, 53, (3, 4)), torch.full((3, 6), MASK))
    assert words.shape == (3, 6, 53)
    assert lengths.shape == (3, 30)
    assert isinstance(model.config, MaskPredictConfig)
    assert model.architecture == "mask_predict"
    assert not model.transformer.decoder.causal


def test_a_causal_one_is_refused():
    with pytest.raises(VitrailError, match="causal must be False, got True"):
        vt.create_model("cmlm_tiny", causal=True)
