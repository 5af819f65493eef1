"""Which tokens stay, that they are the very ones of the full sequence, and that every head and position can do with fewer."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.vit import ViTConfig, build_vit
from vitrail.nn.tokenizers.dropping import TokenDropping, select
from vitrail.tokens import Tokens


def sequence(batch=3, grid=(5, 7), prefix=2, width=11, **others):
    cells = grid[0] * grid[1]
    return Tokens(torch.randn(batch, prefix + cells, width), grid=grid, prefix=prefix, **others)


def tiny(**changes):
    return build_vit(
        ViTConfig(**{"width": 12, "depth": 2, "heads": 3, "patch": 2, "image_size": (10, 14), "num_classes": 5} | changes)
    )


@given(st.floats(0.01, 1.0), st.integers(0, 3), st.integers(1, 6), st.integers(1, 6))
def test_kept_tokens_are_those_of_the_full_sequence(keep, prefix, height, width):
    tokens = sequence(grid=(height, width), prefix=prefix)
    out = TokenDropping(keep)(tokens)
    count = max(1, round(keep * height * width))
    assert out.x.shape == (3, prefix + count, 11)
    assert torch.equal(out.x[:, :prefix], tokens.x[:, :prefix]), "the prefix stays"
    assert (out.grid, out.prefix) == (tokens.grid, tokens.prefix)
    index = torch.arange(height * width).expand(3, -1) if out.index is None else out.index
    assert torch.equal(out.cells, tokens.cells.gather(1, index[..., None].expand(-1, -1, 11)))
    assert (index.diff(dim=1) > 0).all(), "in order, none twice"


def test_every_token_is_kept_equally_often_and_images_differ():
    out = TokenDropping(0.4)(sequence(batch=4000, grid=(2, 5), width=1))
    counts = torch.bincount(out.index.ravel())
    assert out.index.shape == (4000, 4)
    assert (counts - 1600).abs().max() < 5 * (4000 * 0.4 * 0.6) ** 0.5
    assert len(out.index.unique(dim=0)) == 210, "all of the 10 choose 4"


def test_evaluation_and_keeping_all_change_nothing_and_draw_nothing():
    tokens, before = sequence(), torch.get_rng_state()
    assert TokenDropping(0.3).eval()(tokens) is tokens
    assert TokenDropping(1.0)(tokens) is tokens
    assert torch.equal(torch.get_rng_state(), before)


def test_the_draws_are_those_of_torchs_generator():
    tokens, found = sequence(), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(TokenDropping(0.5)(tokens).index)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_masks_and_earlier_choices_go_along():
    index = torch.tensor([[3, 4, 8, 20], [0, 1, 2, 30]])
    mask = torch.tensor([[True, True, True, False, True, False], [True, False, True, True, False, False]])
    tokens = Tokens(torch.arange(12.0).view(2, 6, 1), grid=(5, 7), prefix=2, index=index, mask=mask)
    out = select(tokens, torch.tensor([[1, 2], [0, 3]]))
    assert out.x[..., 0].tolist() == [[0, 1, 3, 4], [6, 7, 8, 11]]
    assert out.index.tolist() == [[4, 8], [0, 30]]
    assert out.mask.tolist() == [[True, True, False, True], [True, False, True, False]]


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.01, float("nan")])
def test_shares_that_do_not_exist(keep):
    with pytest.raises(VitrailError, match="above 0 and at most 1"):
        tiny(token_keep=keep)


# In a model


@pytest.mark.parametrize("position", ["none", "sinusoidal_2d", "learned_1d", "learned_2d"])
def test_the_encoder_reads_what_is_kept_with_its_own_positions(position):
    """The tokens come out as if the others were masked."""
    model = tiny(position=position, token_keep=0.4).train()
    images = torch.randn(3, 3, 10, 14)
    out = model.forward_features(images)
    assert out.index.shape == (3, 14)
    full = model.embed(images)
    mask = torch.zeros(3, 36, dtype=torch.bool)
    mask[:, 0] = True
    mask.scatter_(1, out.index + 1, True)
    masked = model.encoder(full._replace(mask=mask), position=model.position)
    expected = masked.x[mask].view(3, 15, 12)
    assert_close(out.x, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("pool", "prefix"), [("class", 1), ("mean", 1), ("mean", 0), ("attention", 0), ("attention", 3)])
@pytest.mark.parametrize("tokenizer", ["patch", "conv"])
def test_every_head_learns_from_fewer_tokens(pool, prefix, tokenizer):
    model = tiny(pool=pool, prefix=prefix, tokenizer=tokenizer, token_keep=0.5, image_size=(8, 12)).train()
    logits = model(torch.randn(4, 3, 8, 12))
    assert logits.shape == (4, 5)
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert all(p.grad.abs().sum() > 0 for name, p in model.named_parameters() if not name.endswith(("key.bias", "score.bias")))


def test_gradients_reach_the_kept_tokens_only():
    tokens = sequence()
    x = tokens.x.requires_grad_()
    out = TokenDropping(0.5)(tokens._replace(x=x))
    out.x.sum().backward()
    assert x.grad[:, :2].eq(1).all()
    assert torch.equal(x.grad[:, 2:, 0].bool(), torch.zeros(3, 35, dtype=torch.bool).scatter(1, out.index, True))


def test_it_changes_neither_weights_nor_evaluation_nor_feature_maps():
    torch.manual_seed(0)
    plain = tiny()
    torch.manual_seed(0)
    dropping = tiny(token_keep=0.5)
    images = torch.randn(2, 3, 10, 14)
    assert plain.state_dict().keys() == dropping.state_dict().keys()
    assert torch.equal(plain.eval()(images), dropping.eval()(images))
    assert not torch.allclose(dropping.train()(images), dropping.eval()(images))
    (last,) = dropping.train().forward_intermediates(images, [-1])
    assert last.cells.shape[1] == 35, "maps need every cell"


def test_it_is_stored_and_folders_without_it_load(tmp_path):
    vt.save(tiny(token_keep=0.25), tmp_path)
    assert vt.load(tmp_path).config.token_keep == vt.load(tmp_path).dropping.keep == 0.25
    config = json.loads((tmp_path / "config.json").read_text())
    del config["config"]["token_keep"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert vt.load(tmp_path).config.token_keep == 1.0
