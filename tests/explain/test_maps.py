"""Looks and their maps: which row is shown, of which head, on which grid."""

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.explain import attention_map, look, pooling_map, received_map, reduce_heads, to_cells

SIZE = (24, 40)  # a grid of 3x5


def model_with(pool, prefix):
    torch.manual_seed(0)
    model = vt.create_model(
        "vit_tiny_patch16_224", image_size=SIZE, patch=8, width=24, depth=3, heads=3, num_classes=5, pool=pool, prefix=prefix
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "query" in name or "key" in name or "pool" in name:
                parameter.normal_()
    return model


def images(count=2):
    return torch.randn(count, 3, *SIZE, generator=torch.Generator().manual_seed(1))


def test_a_look_is_the_models_own_pass_and_leaves_no_trace():
    model = model_with("class", 2).train()
    model.encoder.blocks[1].eval()
    found = look(model, images(), layers=[-1], heads=[0, 2], queries=[0])
    assert model.training
    assert not model.encoder.blocks[1].training
    assert found.seen.layers[0].shape == (2, 2, 1, 17)
    assert (found.grid, found.prefix, found.image_size, found.class_token) == ((3, 5), 2, SIZE, True)
    assert not found.logits.requires_grad
    model.eval()
    assert_close(found.logits, model(images()).detach())
    assert_close(found.tokens.x, model.forward_features(images()).x.detach())


def test_heads_together():
    weights = torch.tensor([[[[0.9, 0.1]], [[0.3, 0.7]]]])
    assert_close(reduce_heads(weights), torch.tensor([[[0.6, 0.4]]]))
    assert_close(reduce_heads(weights, "max"), torch.tensor([[[0.9, 0.7]]]))
    assert_close(reduce_heads(weights, "min"), torch.tensor([[[0.3, 0.1]]]))


def test_the_row_that_was_asked_for():
    found = look(model_with("class", 2), images())
    weights = found.seen.layers
    assert_close(attention_map(found), weights[2].mean(1)[:, 0, 2:].reshape(2, 3, 5))
    assert_close(attention_map(found, layer=0, head=-1), weights[0][:, 2, 0, 2:].reshape(2, 3, 5))
    assert_close(attention_map(found, layer=-2, query=(1, 4), reduce="max"), weights[1].amax(1)[:, 2 + 9, 2:].reshape(2, 3, 5))
    assert_close(received_map(found, layer=1), weights[1].mean((1, 2))[:, 2:].reshape(2, 3, 5))
    row = torch.rand(2, 17)
    assert_close(to_cells(row, found), row[:, 2:].reshape(2, 3, 5))
    assert_close(found.reading, torch.eye(17)[:1].expand(2, -1))


def test_a_look_at_a_part_finds_what_it_has_by_the_models_own_numbers():
    whole, part = look(model_with("class", 2), images()), look(model_with("class", 2), images(), [1], [2], [11, 0])
    assert_close(attention_map(part, layer=1, head=2), attention_map(whole, layer=1, head=2))
    assert_close(attention_map(part, layer=-2, head=-1, query=(1, 4)), attention_map(whole, layer=1, head=2, query=(1, 4)))
    for options, why in (
        ({"layer": 0}, "layer 0 was not recorded; recorded: 1"),
        ({"layer": 3}, "layer 3 does not exist: the model has 3"),
        ({"layer": 1, "head": 0}, "head 0 was not recorded; recorded: 2"),
        ({"layer": 1, "head": 3}, "head 3 does not exist"),
        ({"layer": 1, "query": (0, 0)}, "query 2 was not recorded; recorded: 11, 0"),
        ({"layer": 1, "query": (3, 0)}, "not on the grid of 3 rows and 5 columns"),
    ):
        with pytest.raises(vt.VitrailError, match=why):
            attention_map(part, **options)
    with pytest.raises(vt.VitrailError, match="only some were recorded"):
        received_map(part, layer=1)


@pytest.mark.parametrize(("pool", "prefix"), [("mean", 0), ("mean", 2), ("attention", 1)])
def test_without_a_class_token_it_is_what_patches_receive(pool, prefix):
    found = look(model_with(pool, prefix), images())
    assert not found.class_token
    assert_close(attention_map(found), found.seen.layers[-1].mean((1, 2))[:, prefix:].reshape(2, 3, 5))
    assert_close(found.reading.sum(1), torch.ones(2))
    assert (found.reading[:, :prefix] == 0).all()


def test_what_the_head_reads():
    model = model_with("attention", 1)
    found = look(model, images())
    cells = found.tokens.x[:, 1:]
    expected = (cells @ model.head.pool.score.weight[0]).softmax(-1).detach()
    assert_close(pooling_map(model, images()), expected.reshape(2, 3, 5))
    assert_close(found.reading[:, 1:], expected)
    for pool in ("class", "mean"):
        with pytest.raises(vt.VitrailError, match=f"pools by {pool}"):
            pooling_map(model_with(pool, 1), images())


def test_convolutional_nets_have_the_maps_of_their_own():
    soft, plain = (vt.create_model(name, num_classes=3).eval() for name in ("resnet20_soft_32", "resnet8_32"))
    images = torch.randn(2, 3, 16, 24)
    assert_close(pooling_map(soft, images), soft.attention_maps(images).mean(1).detach())
    with pytest.raises(vt.VitrailError, match="no attention over places"):
        pooling_map(plain, images)
    with pytest.raises(vt.VitrailError, match="ResNet has no attention layers"):
        look(soft, images)


def test_on_a_group_cells_have_what_all_elements_read_and_queries_are_averaged():
    model = vt.create_model("gsa_p4_small", image_size=8, depths=(1,), windows=(0,), patch=2, overlap=0, num_classes=2)
    found = look(model, torch.randn(2, 1, 8, 8))
    weights = found.seen.layers[0].mean(1).reshape(2, 4, 4, 4, 4, 4, 4)  # b, element row column, the same of keys
    assert found.grid == (4, 4)
    assert_close(attention_map(found, query=(1, 3)), weights[:, :, 1, 3].mean(1).sum(1))
    assert_close(attention_map(found), weights.mean((1, 2, 3)).sum(1))
