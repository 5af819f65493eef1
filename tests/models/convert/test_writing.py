"""What we write for transformers is loaded by it and gives our logits; and what is refused."""

import json

import pytest
import torch
from torch.testing import assert_close

import vitrail as vt
from vitrail.errors import VitrailError
from vitrail.models.convert.timm_records import timm_record
from vitrail.models.convert.writing import translate, write_foreign
from vitrail.preprocessing import Preprocessing

VIT = {"width": 12, "depth": 2, "heads": 3, "patch": 4, "num_classes": 5, "image_size": (12, 12)}
SWIN = {"width": 8, "depths": (2, 2), "heads": 2, "window": (3, 3), "patch": 2, "num_classes": 5, "image_size": (12, 12)}
TABLES = {"position": "relative_table", "pool": "mean", "last_norm": "pooled", "layer_scale": 0.1}
CASES = {
    "vit": ("vit_tiny_patch16_224", VIT | {"image_size": (8, 20)}),
    "deit": ("deit_tiny_distilled_patch16_224", VIT),
    "beit": ("vit_tiny_patch16_224", VIT | TABLES),
    "beit_shared": ("beit_tiny_patch16_224", VIT | TABLES | {"position_where": "layers"}),
    "swin": ("swin_tiny_patch4_window7_224", SWIN),
    "swinv2": ("swinv2_tiny_window8_256", SWIN),
    "dinov2": ("vit_tiny_patch16_224", VIT | {"num_classes": 0, "layer_scale": 0.1}),
    "registers": ("vit_tiny_patch16_224", VIT | {"num_classes": 0, "layer_scale": 0.1, "prefix": 4}),
}


def make(name, **more):
    """A model whose every weight is drawn."""
    torch.manual_seed(1)
    preset, options = CASES[name]
    model = vt.create_model(preset, **(options | more)).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("name", CASES)
def test_transformers_loads_it_and_answers_alike(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make(name)
    model.labels = tuple(f"klasse {i}" for i in range(model.num_classes)) or None
    notes = write_foreign(model, tmp_path / "out", style="transformers")
    auto = transformers.AutoModelForImageClassification if model.num_classes else transformers.AutoModel
    theirs, report = auto.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert auto.__name__ in notes[-1]
    images = torch.randn(2, 3, *model.image_size)
    with torch.inference_mode():
        answer = theirs.eval()(images)
        found = answer.logits if model.num_classes else answer.last_hidden_state
        assert_close(found, model(images) if model.num_classes else model.forward_features(images).x, atol=1e-5, rtol=1e-5)
    if model.num_classes:
        assert theirs.config.id2label == dict(enumerate(model.labels))


def test_transformers_reads_the_preprocessing(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = make("beit")
    model.preprocessing = Preprocessing(size=(12, 12), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), fit="crop")
    write_foreign(model, tmp_path, style="transformers")
    record = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert hasattr(transformers, record["image_processor_type"])
    assert record["image_mean"] == [0.1, 0.2, 0.3]
    assert record["crop_size"] == {"height": 12, "width": 12}


def test_timm_gets_every_option():
    config = make("registers", prefix_rows=False, num_classes=3, pool="mean").config
    record = timm_record(config, ("a", "b", "c"), make("registers").preprocessing)
    assert record["architecture"] == "vit_base_patch16_224"
    expected = {
        "img_size": [12, 12], "patch_size": 4, "in_chans": 3, "num_classes": 3, "embed_dim": 12, "depth": 2, "num_heads": 3,
        "mlp_ratio": 4.0, "init_values": 0.1, "global_pool": "avg", "fc_norm": False, "act_layer": "gelu", "class_token": True,
        "reg_tokens": 3, "no_embed_class": True,
    }  # fmt: skip
    assert record["model_args"] == expected
    assert record["label_names"] == ["a", "b", "c"]
    assert record["pretrained_cfg"]["input_size"] == [3, 12, 12]


def test_every_weight_is_written_once():
    for name in CASES:
        model = make(name)
        for style in ("timm", "transformers"):
            written = sum(tensor.numel() for tensor in translate(model, style)[1].values())
            ours = sum(tensor.numel() for tensor in model.state_dict().values())
            keys = 2 * 12 if "beit" in name else 0  # biases of keys, which softmax does not see
            mask = 12 if style == "transformers" and name in ("dinov2", "registers") else 0
            # rows of the registers go into their tokens where they own none there
            rows = 3 * 12 if style == "transformers" and name == "registers" else 0
            assert written == ours - keys + mask - rows, (name, style)


def test_what_is_refused(tmp_path):
    model = make("vit")
    write_foreign(model, tmp_path, style="timm")
    with pytest.raises(VitrailError, match=r"there is a config\.json in it already"):
        write_foreign(model, tmp_path, style="timm")
    hybrid = vt.create_model("vit_nano_conv", num_classes=3)
    with pytest.raises(VitrailError, match="tokenizer must be patch for other libraries, got conv"):
        write_foreign(hybrid, tmp_path / "new", style="timm")
    with pytest.raises(VitrailError, match="transformers has no model of the kind resnet"):
        write_foreign(vt.create_model("resnet8_32", num_classes=3), tmp_path / "new", style="transformers")
    with pytest.raises(VitrailError, match="norms what it pooled"):
        write_foreign(make("beit", last_norm="tokens"), tmp_path / "new", style="timm")
    assert not (tmp_path / "new").exists()
