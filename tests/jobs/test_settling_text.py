"""Options of runs about text: what one has stored can be given again, and what would do nothing is refused."""

from dataclasses import replace

import pytest

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import set_checkpointing
from vitrail.jobs.settling import check_numbers
from vitrail.jobs.text_settling import load_trained, make_tokenizer, settle_text
from vitrail.jobs.trades import check_foreign
from vitrail.models.catalogue import create_model, rebuild
from vitrail.special_tokens import UNKNOWN

LINES = ["a man sits", "a dog runs"] * 9
SIZES = {"width": 8, "heads": 2, "hidden": 8, "longest": 12}


def again(options: TrainOptions, **settle) -> TrainOptions:
    """Settled options checked as if they came from a config.yaml."""
    settled = settle_text(options, sentences=18, **settle)
    check_numbers(settled)
    check_foreign(settled)
    return settled


def test_a_recurrent_run_can_be_repeated():
    options = TrainOptions(data="copy", task="translate", model="lstm_seq2seq_tiny_global")
    settled = again(options, model="transformer_tiny", purposes=("translate",))
    assert settled.attention == "global"
    assert again(settled, model="transformer_tiny", purposes=("translate",)) == settled
    for model, attention, message in (
        ("lstm_seq2seq_tiny_global", "globl", 'choose from none, global, local; did you mean "global"'),
        ("transformer_tiny", "global", "choose from softmax"),
        ("auto", "global", "choose from softmax"),
    ):
        with pytest.raises(VitrailError, match=message):
            check_numbers(replace(options, model=model, attention=attention))


def test_a_run_from_weights_can_be_repeated(tmp_path):
    model = create_model("gpt_tiny", vocabulary=40, depth=1, **SIZES)
    model.tokenizer = BytePairs.train(LINES, 30, lower=True)
    vt.save(model, tmp_path / "model")
    options = TrainOptions(data="copy", task="language", weights=str(tmp_path / "model"))
    purposes = ("language",)
    settled = again(options, model="gpt_tiny", purposes=purposes, loaded=load_trained(options, purposes=purposes))
    assert (settled.vocabulary, settled.lower, settled.longest) == (40, True, 12)
    assert load_trained(settled, purposes=purposes) is not None
    for name, value in (("vocabulary", 41), ("longest", 13), ("bytes", True)):
        with pytest.raises(VitrailError, match=f"--{name} cannot be given beside it, unless it is"):
            load_trained(replace(options, **{name: value}), purposes=purposes)


def test_leaving_out_merges_is_for_translation():
    options = TrainOptions(data="copy", task="language")
    assert again(options, model="gpt_tiny", purposes=("language",)).merge_dropout == "auto"
    for task in ("language", "caption"):
        with pytest.raises(VitrailError, match="--merge-dropout is about translation"):
            check_foreign(replace(options, task=task, merge_dropout=0.1))
    translate = again(replace(options, task="translate"), model="transformer_tiny", purposes=("translate",))
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
    options = TrainOptions(data="copy", task="language", vocabulary=300)
    plain = make_tokenizer(LINES, options, loaded=None, begun=None)
    spelled = make_tokenizer(LINES, replace(options, bytes=True), loaded=None, begun=None)
    assert UNKNOWN in plain.encode("a größe")
    assert spelled.decode(spelled.encode("a größe")) == "a größe"
