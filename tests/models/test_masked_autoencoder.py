"""The masked autoencoder: the hidden stays hidden, what is kept comes back to its place, any grid, parity with transformers."""

import math
import re

import pytest
import torch
import transformers
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.learn.losses.masked_pixels import masked_pixel_losses, normalize_patches
from vitrail.models.catalogue import count_parameters
from vitrail.models.masked_autoencoder import MAEConfig, MaskedAutoencoder, assemble, build_mae
from vitrail.models.parts import POSITIONS, build_position
from vitrail.models.vit import ViTConfig, build_vit
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.masking import draw_kept, hidden_from, keep_lowest
from vitrail.nn.functional.patches import patchify
from vitrail.nn.tokenizers.dropping import select
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.records import from_record, to_record

BACKBONE = {"width": 24, "depth": 2, "heads": 3, "patch": 3, "image_size": (15, 21), "in_channels": 2, "prefix": 1}  # 5x7 cells
DECODER = {"decoder_width": 20, "decoder_depth": 2, "decoder_heads": 5}
CELLS = 35


def tiny(seed: int = 0, backbone: dict = {}, **options) -> MaskedAutoencoder:  # noqa: B006
    torch.manual_seed(seed)
    model = build_mae(MAEConfig(backbone={**BACKBONE, **backbone}, **{**DECODER, **options})).eval()
    for name, parameter in model.named_parameters():  # 0.02 would hide mistakes
        if "position" in name or "token" in name:
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def images():
    return torch.randn(2, 2, 15, 21, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def kept():
    return draw_kept(2, CELLS, 0.7, generator=torch.Generator().manual_seed(2))  # 10 or 11 of 35


def test_what_is_kept_comes_back_to_its_cell_and_mask_tokens_stand_elsewhere(images, kept):
    model = tiny()
    every = model.enter(model.backbone.embed(images).x)
    restored = model.restore(select(model.backbone.embed(images), kept))
    hidden = hidden_from(kept, CELLS)
    assert (restored.grid, restored.prefix, restored.index) == ((5, 7), 1, None)
    assert_close(restored.x[:, 0], every[:, 0])
    assert_close(restored.cells[~hidden], every[:, 1:][~hidden])
    assert torch.equal(restored.cells[hidden], model.mask_token.expand(int(hidden.sum()), -1))


def test_to_keep_everything_is_the_identity(images):
    model = tiny(backbone={"prefix": 0, "pool": "mean"}, decoder_width=24, decoder_heads=3)
    model.enter = nn.Identity()
    kept = torch.arange(CELLS).expand(2, -1)
    tokens = model.backbone.embed(images)
    assert torch.equal(model.restore(select(tokens, kept)).x, tokens.x)


@pytest.mark.parametrize("position", POSITIONS)
def test_only_what_is_kept_is_projected_and_that_is_as_if_all_had_been(position, images, kept):
    model = tiny(backbone={"position": position})
    backbone = model.backbone
    expected = backbone.encoder(select(backbone.embed(images), kept), position=backbone.position)
    found = model.encode(images, kept)
    assert_close(found.x, expected.x, atol=1e-6, rtol=1e-5)
    assert torch.equal(found.index, kept)
    assert found.x.shape == (2, 1 + kept.shape[1], 24)
    assert model(images, kept).shape == (2, CELLS, 18)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("mask_tokens", ["decoder", "encoder"])
def test_hidden_pixels_reach_nothing(position, mask_tokens, images, kept):
    """Not by a rounding error: the gradient is 0."""
    model = tiny(backbone={"position": position}, mask_tokens=mask_tokens)
    pixels = images.clone().requires_grad_()
    gradient = torch.autograd.grad(model(pixels, kept).square().sum(), pixels)[0]
    by_patch, hidden = patchify(gradient, (3, 3)), hidden_from(kept, CELLS)
    assert by_patch[hidden].eq(0).all()
    assert by_patch[~hidden].abs().sum(-1).gt(0).all()


@pytest.mark.parametrize("mask_tokens", ["decoder", "encoder"])
def test_the_loss_has_no_gradient_for_seen_patches_through_the_target(mask_tokens, images, kept):
    model, pixels = tiny(mask_tokens=mask_tokens), images.clone().requires_grad_()
    hidden = hidden_from(kept, CELLS)
    drawn = model(images, kept)
    loss = masked_pixel_losses(drawn, normalize_patches(model.patches(pixels)), hidden).mean()
    by_patch = patchify(torch.autograd.grad(loss, pixels)[0], (3, 3))
    assert by_patch[~hidden].eq(0).all()
    assert by_patch[hidden].abs().sum(-1).gt(0).all()


def test_every_parameter_learns(images, kept):
    """One that did not would stop several processes from training together."""
    for mask_tokens in ("decoder", "encoder"):
        model = tiny(mask_tokens=mask_tokens).train()
        hidden = hidden_from(kept, CELLS)
        masked_pixel_losses(model(images, kept), model.patches(images), hidden).mean().backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_the_control_reads_all_cells_and_has_as_many_parameters_but_for_the_token(images, kept):
    model, control = tiny(), tiny(mask_tokens="encoder")
    assert control.encode(images, kept).x.shape == (2, 1 + CELLS, 24)
    assert control.encode(images, kept).index is None
    assert control.mask_token.shape == (24,)
    assert count_parameters(control) - count_parameters(model) == 24 - 20


def test_the_order_of_what_is_kept_does_not_matter(images, kept):
    model, order = tiny(), torch.randperm(kept.shape[1])
    assert_close(model(images, kept[:, order]), model(images, kept), atol=1e-5, rtol=1e-5)


def test_images_do_not_see_each_other(images, kept):
    model = tiny()
    assert_close(model(images[1:], kept[1:]), model(images, kept)[1:], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("size", [(9, 33), (3, 6), (21, 15)])
def test_other_sizes_than_it_was_built_for(size):
    model = tiny()
    cells = math.prod(size) // 9
    assert model(torch.randn(2, 2, *size), draw_kept(2, cells, 0.6)).shape == (2, cells, 18)


@pytest.mark.parametrize("patch, size", [((5,), (35,)), ((2, 3, 5), (4, 9, 25)), ((3, 5), (9, 35))])
@pytest.mark.parametrize("position", ["learned_1d", "sinusoidal_2d", "rotary", "conditional"])
def test_lines_clips_and_patches_that_are_not_square(patch, size, position):
    """Assembled by hand: b ch t h w for clips. The hidden stays hidden there too."""
    torch.manual_seed(0)
    config = ViTConfig(width=24, depth=2, heads=2, patch=3, image_size=(9, 9), in_channels=2)
    backbone = build_vit(config)
    backbone.tokenizer = PatchTokenizer(2, 24, patch=patch)
    grid = backbone.tokenizer.grid(size)
    backbone.position = build_position(position, width=24, heads=2, depth=2, grid=grid, prefix=1)
    decoder = {"decoder_width": 12, "decoder_depth": 2, "decoder_heads": 2}
    model = assemble(backbone, MAEConfig(backbone=to_record(config), **decoder), grid=grid)
    cells, pixels = math.prod(grid), torch.randn(2, 2, *size, requires_grad=True)
    kept = draw_kept(2, cells, 0.5)
    drawn = model.eval()(pixels, kept)
    assert drawn.shape == (2, cells, 2 * math.prod(patch))
    by_patch = patchify(torch.autograd.grad(drawn.square().sum(), pixels)[0], patch)
    hidden = hidden_from(kept, cells)
    assert by_patch[hidden].eq(0).all()
    assert by_patch[~hidden].abs().sum(-1).gt(0).all()


def test_the_config_survives_a_round_trip_and_the_backbone_has_no_classes():
    config = MAEConfig(backbone={**BACKBONE, "num_classes": 7}, hide=0.6)
    assert config.backbone["num_classes"] == 0
    assert from_record(MAEConfig, to_record(config), what="config") == config
    assert config.in_channels == 2
    model = build_mae(config)
    assert (model.image_size, model.backbone.num_classes) == ((15, 21), 0)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"hide": 0.0}, "must be above 0 and below 1, got 0.0"),
        ({"hide": 1.0}, "must be above 0 and below 1, got 1.0"),
        ({"hide": 1.5}, "must be above 0 and below 1, got 1.5"),
        ({"hide": math.nan}, "must be above 0 and below 1, got nan"),
        ({"decoder_depth": 0}, "decoder_depth must be from 1 to"),
        ({"decoder_depth": 10**6}, "decoder_depth must be from 1 to"),
        ({"decoder_width": 0}, "decoder_width must be at least 1, got 0"),
        ({"decoder_heads": -1}, "decoder_heads must be at least 1, got -1"),
        ({"decoder_heads": 3}, "multiple of the heads"),
        ({"decoder_width": 18, "decoder_heads": 3}, "multiple of 4"),
        ({"decoder_position": "nowhere"}, "position"),
        ({"backbone": {"tokenizer": "conv", "patch": 4}}, "the tokenizer must be patch, got conv"),
        ({"backbone": {"heads": 0}}, "heads must be at least 1"),
        ({"backbone": {"wings": 2}}, "wings"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(VitrailError, match=words):
        tiny(**options)


# transformers' ViTMAE

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "image_size": 15, "patch_size": 3,
         "decoder_hidden_size": 20, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 5, "decoder_intermediate_size": 80,
         "layer_norm_eps": 1e-6, "mask_ratio": 0.6}  # fmt: skip
NAMES = [
    (r"vit\.embeddings\.patch_embeddings\.projection", "backbone.tokenizer.project"),
    (r"vit\.layers\.", "backbone.encoder.blocks."),
    (r"vit\.layernorm", "backbone.encoder.norm"),
    (r"decoder\.decoder_layers\.", "decoder.blocks."),
    (r"decoder\.decoder_embed", "enter"),
    (r"decoder\.decoder_norm", "decoder.norm"),
    (r"decoder\.decoder_pred", "head"),
    (r"q_proj", "query"), (r"k_proj", "key"), (r"v_proj", "value"), (r"o_proj", "output"),
    (r"layernorm_before", "attention_norm"), (r"layernorm_after", "mlp_norm"),
    (r"mlp\.fc1", "mlp.expand"), (r"mlp\.fc2", "mlp.contract"),
]  # fmt: skip


def copy_weights(theirs: nn.Module, ours: MaskedAutoencoder) -> None:
    state = {}
    for name, value in theirs.state_dict().items():
        for pattern, new in NAMES:
            name = re.sub(pattern, new, name)
        state[name] = value
    row = state.pop("vit.embeddings.position_embeddings")[0]
    state["backbone.position.prefix_table"], state["backbone.position.table"] = row[:1], row[1:]
    state["backbone.prefix.tokens"] = state.pop("vit.embeddings.cls_token")[0]
    state["mask_token"] = state.pop("decoder.mask_token")[0, 0]
    row = state.pop("decoder.decoder_pos_embed")[0]
    assert row[0].eq(0).all(), "the class token has no row of its own"
    state["decoder_position.table"] = row[1:]
    state["backbone.tokenizer.project.weight"] = state["backbone.tokenizer.project.weight"].flatten(1)
    for end in ("weight", "bias"):  # theirs: row, column, channel; ours: channel first
        numbers = state[f"head.{end}"]
        state[f"head.{end}"] = numbers.unflatten(0, (3, 3, 3)).movedim(2, 0).flatten(0, 2)
    ours.load_state_dict(state)


@pytest.mark.parametrize("normalize", [True, False])
def test_the_loss_is_that_of_transformers_for_the_same_numbers(normalize):
    torch.manual_seed(3)
    theirs = transformers.ViTMAEForPreTraining(transformers.ViTMAEConfig(**SIZES, norm_pix_loss=normalize)).eval()
    for name, parameter in theirs.named_parameters():
        if "pos" not in name:
            nn.init.normal_(parameter, std=0.2)
    ours = tiny(
        backbone={"in_channels": 3, "image_size": (15, 15)}, decoder_depth=1, decoder_position="learned_1d", normalize=normalize
    )
    copy_weights(theirs, ours)
    images, noise = torch.randn(2, 3, 15, 15), torch.rand(2, 25)
    with torch.no_grad():
        expected = theirs(images, noise=noise)
        kept = keep_lowest(noise, 0.6)
        hidden, drawn, patches = hidden_from(kept, 25), ours(images, kept), ours.patches(images)
    assert torch.equal(hidden, expected.mask.bool())
    logits = expected.logits.unflatten(-1, (3, 3, 3)).movedim(-1, -3).flatten(-3)
    assert_close(drawn, logits, atol=1e-5, rtol=1e-5)
    losses = masked_pixel_losses(drawn, normalize_patches(patches) if normalize else patches, hidden)
    assert expected.loss > 0.1
    assert_close(losses.mean(), expected.loss, atol=1e-5, rtol=1e-5)


def test_the_published_decoder(images):
    """ViT-L/16 with the decoder of the paper: 329.5 M parameters with fixed positions, as transformers counts them without theirs."""
    with torch.device("meta"):
        model = build_mae(MAEConfig(backbone={"width": 1024, "depth": 24, "heads": 16}))
        theirs = transformers.ViTMAEForPreTraining(
            transformers.ViTMAEConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
        )
    positions = {"vit.embeddings.position_embeddings": 197 * 1024, "decoder.decoder_pos_embed": 197 * 512}
    expected = sum(p.numel() for name, p in theirs.named_parameters() if name not in positions)
    learned = 197 * 1024  # ours learns the encoder's
    assert count_parameters(model) == expected + learned
    assert isinstance(model.decoder, PlainEncoder)
