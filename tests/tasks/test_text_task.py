"""Options of runs about text: what one has stored can be given again, and what would do nothing is refused."""

from dataclasses import replace

import pytest

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.models.catalogue import create_model, rebuild
from vitrail.run.plan import set_checkpointing
from vitrail.special_tokens import UNKNOWN
from vitrail.tasks import registry
from vitrail.tasks.language.options import Options as LanguageOptions
from vitrail.tasks.options import check
from vitrail.tasks.text_task import load_text_model, make_tokenizer, resolve_text
from vitrail.tasks.translate.options import Options as TranslateOptions

LINES = ["a man sits", "a dog runs"] * 9
SIZES = {"width": 8, "heads": 2, "hidden": 8, "longest": 12}


def again(options, **how):
    """Resolved options checked as if they came from a config.yaml."""
    resolved = resolve_text(options, sentences=18, recipes=registry.find(options.task).recipes, **how)
    check(resolved)
    return resolved


def test_a_recurrent_run_can_be_repeated():
    options = TranslateOptions(data="copy", model="lstm_seq2seq_tiny_global")
    resolved = again(options, model="transformer_tiny", pipeline="translation")
    assert resolved.attention == "global"
    assert again(resolved, model="transformer_tiny", pipeline="translation") == resolved
    for model, attention, message in (
        ("lstm_seq2seq_tiny_global", "globl", 'choose from none, global, local; did you mean "global"'),
        ("transformer_tiny", "global", "choose from softmax"),
        ("auto", "global", "choose from softmax"),
    ):
        with pytest.raises(VitrailError, match=message):
            check(replace(options, model=model, attention=attention))


def test_a_run_from_weights_can_be_repeated(tmp_path):
    model = create_model("gpt_tiny", vocabulary=40, depth=1, **SIZES)
    model.tokenizer = BytePairs.train(LINES, 30, lower=True)
    vt.save(model, tmp_path / "model")
    options = LanguageOptions(data="copy", weights=str(tmp_path / "model"))
    pipeline = "text-generation"
    resolved = again(options, model="gpt_tiny", pipeline=pipeline, loaded=load_text_model(options, pipeline=pipeline))
    assert (resolved.vocabulary, resolved.lower, resolved.max_length) == (40, True, 12)
    assert load_text_model(resolved, pipeline=pipeline) is not None
    for name, value in (("vocabulary", 41), ("max_length", 13), ("bytes", True)):
        with pytest.raises(VitrailError, match=f"--{name.replace('_', '-')} cannot be given beside it, unless it is"):
            load_text_model(replace(options, **{name: value}), pipeline=pipeline)


def test_leaving_out_merges_is_for_translation():
    assert registry.owners_of("merge_dropout") == ["translate"]
    translate = again(TranslateOptions(data="copy"), model="transformer_tiny", pipeline="translation")
    assert isinstance(translate.merge_dropout, float)


@pytest.mark.parametrize("name, blocks", [
    ("cmlm_tiny", {"transformer.encoder", "transformer.decoder"}),
    ("transformer_tiny", {"encoder", "decoder"}),
    ("captioner_micro", {"encoder.encoder", "decoder"}),
    ("igpt_nano", {"encoder"}),
    ("vit_nano_conv", {"encoder"}),
])  # fmt: skip
def test_blocks_are_computed_twice_wherever_they_are(name, blocks):
    model = create_model(name)
    set_checkpointing(model)
    assert {name for name, part in model.named_modules() if getattr(part, "checkpointing", False)} == blocks


def test_a_model_without_blocks_computes_nothing_twice():
    with pytest.raises(VitrailError, match="no blocks to compute twice"):
        set_checkpointing(create_model("lstm_seq2seq_tiny"))


def test_a_model_is_rebuilt_with_its_weights():
    model = create_model("gpt_tiny", vocabulary=40, depth=1, **SIZES)
    found = rebuild(model, dropout=0.5)
    assert found.config == replace(model.config, dropout=0.5)
    assert all((a == b).all() for a, b in zip(found.state_dict().values(), model.state_dict().values(), strict=True))


def test_letters_never_seen_are_spelled_by_their_bytes():
    options = LanguageOptions(data="copy", vocabulary=300)
    plain = make_tokenizer(LINES, options, loaded=None, resumed=None)
    spelled = make_tokenizer(LINES, replace(options, bytes=True), loaded=None, resumed=None)
    assert UNKNOWN in plain.encode("a größe")
    assert spelled.decode(spelled.encode("a größe")) == "a größe"
