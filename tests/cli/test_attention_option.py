"""--attention-option KEY=VALUE: from the command line and config.yaml to the kernels of a model."""

import pytest

from vitrail.cli.chosen import read_pairs
from vitrail.cli.words import given_options, spell_words
from vitrail.errors import VitrailError
from vitrail.models.catalogue import model_config
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.tasks.detect import options as detect_options
from vitrail.tasks.detect.task import build_new
from vitrail.tasks.mri import options as mri_options
from vitrail.tasks.mri.task import restorer_of
from vitrail.tasks.task import choose_parts


def test_values_are_switches_numbers_and_texts():
    words = ["features=32", "scale=1e-2", "causal=True", "kind=a=b", "key-bias=false"]
    assert read_pairs(words, "attention_options") == {
        "features": 32, "scale": 0.01, "causal": True, "kind": "a=b", "key_bias": False,
    }  # fmt: skip


@pytest.mark.parametrize("words, line", [(["x"], "takes KEY=VALUE, got x"), (["a=1", "a=2"], "a is given twice")])
def test_what_is_no_pair_is_refused(words, line):
    with pytest.raises(VitrailError, match=f"--attention-option {line}"):
        read_pairs(words, "attention_options")


def test_every_spelling_is_the_same_option(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("data: digits\nattention: redrawn\nattention_options:\n  features: 7\n  every: 2\n")
    stored = spell_words(["train", "--config", str(config)])
    assert {"--attention-options=features=7", "--attention-options=every=2"} <= set(stored)
    given = ["train", "--config", str(config), "--attention-option", "features=9"]
    assert "--attention-options=features=7" not in spell_words(given)
    assert spell_words(["train", "--data", "digits", "attention_option=features=7"])[-1] == "--attention-options=features=7"
    assert "attention_options" in given_options(given)


def test_an_unknown_option_of_a_kernel_is_one_line(command, tmp_path):
    answer = command(
        "train", "--data", "digits", "--attention", "cosine", "--attention-option", "scale=3", "--out", tmp_path / "run"
    )
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == 'vitrail: cosine attention has no option "scale"; it has none\n'
    assert not (tmp_path / "run").exists()


def test_a_model_without_attention_has_none_to_choose():
    options = mri_options.Options(data="x", attention="cosine")
    with pytest.raises(VitrailError, match="--attention cosine: mri_unet_small has no attention to choose"):
        choose_parts(options, "mri_unet_small", restorer_of(model_config("mri_unet_small")[1]))
    choose_parts(options, "mri_vit_small", restorer_of(model_config("mri_vit_small")[1]))


@pytest.mark.parametrize("name, of_backbone", [("detr_micro", False), ("vit_nano_patch4_32", True)])
def test_a_detector_by_name_takes_it_for_its_transformer_and_an_encoder_for_itself(name, of_backbone):
    options = detect_options.Options(data="x", model=name, attention="cosine", image_size=(32, 32), in_channels=3)
    model = build_new(options, classes=3, changes={})
    kernels = {path: one.kernel.name for path, one in model.named_modules() if isinstance(one, MultiHeadAttention)}
    assert {kernel for path, kernel in kernels.items() if path.startswith("backbone") == of_backbone} == {"cosine"}
    assert {kernel for path, kernel in kernels.items() if path.startswith("backbone") != of_backbone} == {"softmax"}
