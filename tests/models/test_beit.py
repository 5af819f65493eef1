"""BEiT: what is hidden cannot be seen, only hidden cells are read, and the backbone stays a classifier of its own."""

import random

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.backbones import backbone_of
from vitrail.models.beit import BEiTConfig, assemble_beit, build_beit
from vitrail.records import to_record

BACKBONE = to_record(
    vt.create_model("beit_nano_patch4_32", width=12, depth=2, heads=3, image_size=(12, 20), num_classes=0).config
)


def small(**options):
    torch.manual_seed(0)
    model = build_beit(BEiTConfig(**{"backbone": BACKBONE, "codes": 13, **options})).eval()
    with torch.no_grad():
        for block in model.backbone.encoder.blocks:  # or attention would hardly count
            for name, parameter in block.named_parameters():
                if name.endswith("weight") and parameter.ndim == 2:
                    parameter.normal_(std=0.3)
    return model


def hidden_cells():
    hidden = torch.zeros(2, 15, dtype=torch.bool)
    hidden[0, [1, 2, 7]] = hidden[1, [0, 13, 14]] = True
    return hidden


def test_the_papers_parts_are_there():
    config = vt.create_model("beit_micro_patch4_32").config
    assert (config.position, config.position_where, config.layer_scale) == ("relative_table", "layers", 0.1)
    names = [name for name, _ in vt.create_model("beit_micro_patch4_32").named_parameters()]
    assert [name for name in names if name.startswith("position")] == ["position.table"]  # one for all layers


def test_what_is_hidden_does_not_matter_and_what_is_seen_does():
    model, images, hidden = small(), torch.randn(2, 3, 12, 20), hidden_cells()
    found = model(images, hidden)
    assert found.shape == (6, 13)
    other, seen = images.clone(), images.clone()
    other[0, :, 0:4, 4:12] += 5  # cells 1 and 2
    seen[0, :, 0:4, 0:4] += 5  # cell 0
    assert_close(model(other, hidden), found)
    changed = (model(seen, hidden) - found).abs().amax(1)
    assert (changed[:3] > 1e-4).all()
    assert_close(changed[3:], torch.zeros(3), atol=1e-5, rtol=0)


def test_the_head_reads_hidden_cells_only():
    model, hidden, kept = small(), hidden_cells(), []
    model.backbone.encoder.register_forward_hook(lambda _m, _a, tokens: (tokens.x.retain_grad(), kept.append(tokens.x))[0])
    model(torch.randn(2, 3, 12, 20), hidden).square().sum().backward()
    gradient = kept[0].grad.abs().sum(-1)
    assert (gradient[~hidden] == 0).all()
    assert (gradient[hidden] > 0).all()


def test_a_norm_stands_before_the_head_once():
    model = small()
    assert model.norm is None
    assert small(backbone={**BACKBONE, "norm": "post"}).norm is None
    model.backbone.encoder.norm = torch.nn.Identity()
    again = assemble_beit(model.backbone, model.config)
    assert again.norm is not None
    assert_close(again.norm(torch.randn(5, 12)).mean(1), torch.zeros(5), atol=1e-5, rtol=0)
    assert again(torch.randn(2, 3, 12, 20), hidden_cells()).shape == (6, 13)


def test_it_comes_back_from_a_file_and_its_backbone_goes_on(tmp_path):
    model, images, hidden = small(), torch.randn(2, 3, 12, 20), hidden_cells()
    again = vt.load(vt.save(model, tmp_path / "beit"))
    assert torch.equal(again(images, hidden), model(images, hidden))
    backbone = backbone_of(again, what="x")
    backbone.reset_classifier(5)
    assert backbone(images).shape == (2, 5)
    assert (backbone.config.position, backbone.config.layer_scale) == ("relative_table", 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codes": 1}, "from 2 to 65536 codes, got 1"),
        ({"hide": 1.0}, "above 0 and below 1, got 1.0"),
        ({"backbone": {**BACKBONE, "tokenizer": "conv"}}, "the tokenizer must be patch, got conv"),
        ({"backbone": {**BACKBONE, "color": 1}}, "color"),
    ],
)
def test_what_cannot_be(options, message):
    with pytest.raises(VitrailError, match=message):
        small(**options)


@pytest.mark.parametrize("kind", ["dvae", "beit"])
def test_broken_configs_give_a_model_or_one_line(kind, tmp_path):
    model = small() if kind == "beit" else vt.create_model("dvae_small", width=4, codes=6, image_size=(8, 12), stride=4)
    path, rng, loaded = vt.save(model, tmp_path / kind) / "config.json", random.Random(3), 0
    content = path.read_bytes()
    for _ in range(120):
        data = bytearray(content)
        for _ in range(rng.choice((1, 1, 3))):
            place = rng.randrange(len(data))
            data[place : place + rng.randrange(3)] = rng.choice(
                (b"", b"9", b"-", b'"', b"null", b"[", b"\xff", b"\\", b"0", b"e")
            )
        path.write_bytes(bytes(data))
        try:
            vt.load(path.parent)
        except VitrailError as error:
            assert str(path.parent) in str(error), error  # noqa: PT017
            assert "\n" not in str(error), error  # noqa: PT017
        else:
            loaded += 1
    assert 0 < loaded < 120, "a fuzz that breaks nothing, or everything, tests nothing"
