"""Translation: what is counted and what is not, and that the toys are learned."""

from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.byte_pairs import BytePairs
from vitrail.data.text.padding import pad
from vitrail.data.text.parallel import Pairs
from vitrail.data.text.toys import make_toy
from vitrail.learn.losses.mask_predict_loss import draw_numbers, hide_words, words_alone
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.metrics.bleu import bleu_by_length, corpus_bleu
from vitrail.learn.metrics.perplexity import bits_per_byte, perplexity
from vitrail.learn.optim.schedule import warmup_cosine
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.learn.training.step import cut
from vitrail.learn.training.world import World
from vitrail.models.mask_predict import PRESETS as AT_ONCE
from vitrail.models.mask_predict import MaskPredictConfig, build_mask_predict
from vitrail.models.transformer import TransformerConfig, build_transformer
from vitrail.models.word_model import WordModel
from vitrail.special_tokens import END, PAD
from vitrail.tasks.translate.data import PairBatch, pair_loader
from vitrail.tasks.translate.objective import Translate, Translations

PAIRS = Pairs(*make_toy("reverse", "val", count=37, shortest=2, longest=6))
TOKENIZER = BytePairs.train(PAIRS.sources, 200)
LOADER = pair_loader(PAIRS, TOKENIZER, tokens=60, longest=16)


def tiny(**how) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"vocabulary": len(TOKENIZER), "width": 12, "depth": 1, "decoder_depth": 1, "heads": 2, "hidden": 16, "longest": 16}
    return build_transformer(TransformerConfig(**{**sizes, "dropout": 0.0, **how}))


def test_it_is_a_task_and_its_evaluation_is_one():
    task = Translate(tiny(), TOKENIZER)
    found = task.evaluate(LOADER.batches())
    assert isinstance(task, Objective)
    assert isinstance(found, Evaluation)
    assert task.score in found.metrics
    assert "loss" in found.metrics
    assert task.model.training
    assert len(found.hypotheses) == 37


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_leaving_padding_out_before_the_head_changes_no_gradient(smoothing):
    model = tiny()
    batch = next(iter(pair_loader(PAIRS, TOKENIZER, sentences=37, longest=16).batches()))
    assert (batch.target == PAD).any()
    loss = Translate(model, TOKENIZER, smoothing=smoothing).loss(batch)
    every = word_cross_entropy(model(batch.source, batch.target[:, :-1]), batch.target[:, 1:], smoothing=smoothing)
    assert_close(loss, every)
    for ours, theirs in zip(
        torch.autograd.grad(loss, list(model.parameters())), torch.autograd.grad(every, list(model.parameters())), strict=True
    ):
        assert_close(ours, theirs)


class Plain(WordModel):
    """Scores and nothing else: a model whose head cannot be had apart."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.config)
        self.model = model
        self.begin, self.step, self.reported = model.begin, model.step, None

    def forward(self, source, target):
        return self.model(source, target)


def test_a_model_that_gives_scores_alone_has_the_same_loss():
    model, batch = tiny(), next(iter(LOADER.batches()))
    assert_close(Translate(Plain(model), TOKENIZER).loss(batch), Translate(model, TOKENIZER).loss(batch))


def test_a_model_that_draws_hears_the_loss_of_each_sentence(monkeypatch):
    model, batch = Plain(tiny()), next(iter(pair_loader(PAIRS, TOKENIZER, sentences=37, longest=16).batches()))
    plain = Translate(model, TOKENIZER).loss(batch)
    heard = []
    term = lambda losses: heard.append(losses) or losses.sum() * 0 + 5.0  # noqa: E731
    monkeypatch.setattr(Plain, "surrogate_loss", property(lambda self: term), raising=True)
    assert_close(Translate(model, TOKENIZER).loss(batch), plain + 5.0)
    each = word_cross_entropy(model(batch.source, batch.target[:, :-1]), batch.target[:, 1:], reduction="none").sum(1)
    assert_close(heard[0], each * 37 / (batch.target[:, 1:] != PAD).sum())
    assert_close(heard[0].mean(), plain)
    assert not heard[0].requires_grad


def test_the_order_of_a_batch_and_how_it_is_batched_change_nothing():
    task = Translate(tiny(), TOKENIZER)
    found = task.evaluate(LOADER.batches())
    other = task.evaluate(pair_loader(PAIRS, TOKENIZER, sentences=5, longest=16).batches())
    assert found.hypotheses == other.hypotheses
    assert found.references == list(PAIRS.targets) == other.references
    assert found.sources == list(PAIRS.sources)
    assert found.loss == pytest.approx(other.loss, abs=1e-5)
    batch = next(iter(LOADER.batches()))
    order = torch.randperm(len(batch.indices))
    assert_close(task.loss(PairBatch(*(part[order] for part in batch))), task.loss(batch))


def test_a_validation_translates_a_part_and_reads_all():
    task = Translate(tiny(), TOKENIZER, validated=10)
    found = task.evaluate(LOADER.batches())
    assert found.indices == list(range(10))
    assert found.loss == pytest.approx(Translate(tiny(), TOKENIZER).evaluate(LOADER.batches()).loss)
    assert len(task.test(LOADER, beams=2).hypotheses) == 37


def test_a_test_keeps_the_references_of_the_file():
    pairs = Pairs(["one  two", "two one"], ["Two  ONE", "one Two"])
    tokenizer = BytePairs.train(pairs.sources, 60, lower=True)
    model = tiny(vocabulary=len(tokenizer))
    found = Translate(model, tokenizer).test(pair_loader(pairs, tokenizer, tokens=50, longest=16), beams=1)
    assert found.references == ["Two  ONE", "one Two"]
    assert "case:lc" in found.signature


def test_processes_together_find_what_one_does():
    class Two(World):
        """The first of two processes, given what the second has."""

        def gather(self, value):
            return [value, second]

    def of(rank: int):
        return pair_loader(PAIRS, TOKENIZER, tokens=60, longest=16, rank=rank, world=2).batches()

    seen = SimpleNamespace()

    class Tell(World):
        def gather(self, value):
            seen.value = value
            return [value]

    Translate(tiny(), TOKENIZER, world=Tell()).evaluate(of(1))
    second = seen.value
    together, alone = (
        Translate(tiny(), TOKENIZER, world=Two()).evaluate(of(0)),
        Translate(tiny(), TOKENIZER).evaluate(LOADER.batches()),
    )
    assert together.hypotheses == alone.hypotheses
    assert together.loss == pytest.approx(alone.loss, abs=1e-5)


def test_a_batch_can_be_cut_in_parts():
    parts = cut(next(iter(LOADER.batches())), 2)
    assert all(isinstance(part, PairBatch) for part in parts)


@pytest.mark.parametrize(
    "toy, steps",
    [
        pytest.param("copy", 300, marks=pytest.mark.slow),
        pytest.param("reverse", 500, marks=pytest.mark.slow),
        pytest.param("sort", 500, marks=pytest.mark.slow),
    ],
)
def test_toys_are_learned(toy, steps):
    """To the letter, on sentences that were not in training: two to four of eight numbers, some seconds of one core."""
    torch.manual_seed(0)
    train, val = (
        Pairs(*make_toy(toy, split, count=count, shortest=2, longest=4, words=8))
        for split, count in (("train", 4000), ("val", 100))
    )
    tokenizer = BytePairs.train(train.sources[:500], 100)
    sizes = {"width": 64, "depth": 1, "decoder_depth": 1, "heads": 4, "hidden": 128, "dropout": 0.0, "longest": 8}
    model = build_transformer(TransformerConfig(vocabulary=len(tokenizer), **sizes))
    task, loader = Translate(model, tokenizer), pair_loader(train, tokenizer, tokens=400, shuffle=True, longest=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.98))
    epochs = (batch for epoch in range(100) for batch in loader.batches(epoch))
    for step, batch in zip(range(steps), epochs, strict=False):
        optimizer.param_groups[0]["lr"] = 6e-3 * warmup_cosine((step + 0.5) / steps, warmup=0.1)
        optimizer.zero_grad()
        task.loss(batch).backward()
        optimizer.step()
    found = task.test(pair_loader(val, tokenizer, tokens=800, longest=8), beams=2)
    assert found.metrics["exact_match"] == 1.0
    assert found.metrics["bleu"] == pytest.approx(1.0)


def test_a_model_that_writes_all_at_once_learns_by_the_same_task():
    torch.manual_seed(0)
    config = MaskPredictConfig(
        vocabulary=len(TOKENIZER), width=16, depth=1, decoder_depth=1, heads=2, hidden=16, longest=16, dropout=0.0
    )
    model = build_mask_predict(config)
    task = Translate(model, TOKENIZER)
    before = task.evaluate(LOADER.batches())
    assert before.loss == task.evaluate(LOADER.batches()).loss  # the same words are hidden every time
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(4):
        for batch in LOADER.batches(epoch):
            optimizer.zero_grad()
            task.loss(batch).backward()
            optimizer.step()
    after = task.test(LOADER)
    assert after.loss < 0.8 * before.loss
    assert len(after.hypotheses) == 37
    assert AT_ONCE  # the catalogue has such models


OURS = ["the cat sat on the mat .", "A dog runs fast today", "no words in common", "it is so"]
THEIRS = ["the cat sat on a mat .", "a dog runs fast today", "something else entirely, alas", "it is so"]


@pytest.mark.parametrize("lower", [False, True])
def test_bleu_is_sacrebleus(lower):
    theirs = sacrebleu.metrics.BLEU(lowercase=lower)
    expected = theirs.corpus_score(OURS, [THEIRS]).score
    found = corpus_bleu(OURS, THEIRS, lower=lower)
    assert found.score == pytest.approx(expected, abs=1e-9)
    assert found.signature == str(theirs.get_signature())
    assert f"case:{'lc' if lower else 'mixed'}" in found.signature
    assert found.of(np.array([1])) == pytest.approx(theirs.corpus_score(OURS[1:2], [THEIRS[1:2]]).score)


def test_the_error_of_bleu_falls_with_the_number_of_sentences():
    few, many = corpus_bleu(OURS * 5, THEIRS * 5), corpus_bleu(OURS * 80, THEIRS * 80)
    assert 2.5 < few.error / many.error < 6.0  # sqrt(16) = 4
    low, high = many.interval
    assert low < many.score < high
    assert (high - low) / 3.92 == pytest.approx(many.error, rel=0.3)
    assert corpus_bleu(OURS[3:] * 9, OURS[3:] * 9).error == 0.0
    assert corpus_bleu([], []).score == corpus_bleu([], []).error == 0.0


def test_bleu_by_length():
    found = corpus_bleu(OURS, THEIRS)
    groups = bleu_by_length(found, [7, 5, 4, 3], edges=(4, 6, 6, 100))
    assert [(g.shortest, g.longest, g.sentences) for g in groups] == [(3, 4, 2), (5, 5, 1), (7, 7, 1)]
    assert groups[2].score == found.of(np.array([0]))
    assert (
        sum(
            group.sentences
            for group in Translations(sources=OURS, references=THEIRS, hypotheses=OURS, loss=1.0).by_length((4,))
        )
        == 4
    )
    with pytest.raises(ValueError, match="needs its length"):
        bleu_by_length(found, [1])
    with pytest.raises(ValueError, match="needs its reference"):
        corpus_bleu(["a"], [])


def test_perplexity_of_a_uniform_model_is_the_number_of_words():
    assert perplexity(float(np.log(50))) == pytest.approx(50)
    assert perplexity(1000.0) == float("inf")
    assert bits_per_byte(10 * float(np.log(2)), 5) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="at least one byte"):
        bits_per_byte(1.0, 0)


@pytest.mark.parametrize("beams", [1, 3])
def test_what_is_written_ends(beams):
    written = Translate(tiny().eval(), TOKENIZER).write(next(iter(LOADER.batches())).source, beams=beams)
    assert written.shape[1] <= 16
    for row in written.tolist():
        assert set(row[row.index(END) + 1 :]) <= {PAD}
        assert PAD not in row[: row.index(END)]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_sentence_becomes_the_same_in_any_company(beams):
    task = Translate(tiny(longest=120).eval(), TOKENIZER)  # untrained: it does not end by itself
    short, long = ([*TOKENIZER.encode(text), END] for text in ("two", "one two three four five six seven eight"))
    alone = task.write(torch.tensor([short]), beams=beams)[0].tolist()
    row = task.write(pad([long, short]), beams=beams)[1].tolist()
    assert len(alone) <= 2 * len(short) + 10
    assert row[: len(alone)] == alone
    assert set(row[len(alone) :]) <= {PAD}
    assert len(row) > len(alone), "its neighbor goes on"


def test_a_test_writes_some_sentences_at_a_time(monkeypatch):
    task, loader = Translate(tiny(), TOKENIZER), pair_loader(PAIRS, TOKENIZER, tokens=1000, longest=16)
    whole, sizes, write = task.test(loader, beams=1), list[int](), task.write
    monkeypatch.setattr(task, "write", lambda source, **how: sizes.append(len(source)) or write(source, **how))
    parts = task.test(loader, beams=1, sentences=5)
    assert parts.hypotheses == whole.hypotheses
    assert max(sizes) == 5
    assert sum(sizes) == 37


def test_numbers_that_are_no_pieces_are_never_written():
    task = Translate(tiny(vocabulary=len(TOKENIZER) + 300).eval(), TOKENIZER)
    task.model.tokenizer = TOKENIZER
    source = next(iter(LOADER.batches())).source
    assert task.write(source).max() < len(TOKENIZER)
    assert task.write(source, beams=2).max() < len(TOKENIZER)


def test_an_exact_match_is_one_for_the_tokenizer():
    found = {"sources": ["", ""], "references": ["Two  ONE", "x"], "hypotheses": ["two one ", "y"], "loss": 1.0}
    assert Translations(**found, lower=True).metrics["exact_match"] == 0.5
    assert Translations(**found, lower=False).metrics["exact_match"] == 0.0


def test_hidden_words_are_scored_by_themselves_whatever_the_batch():
    torch.manual_seed(0)
    sizes = {"width": 16, "depth": 1, "decoder_depth": 1, "heads": 2, "hidden": 16, "longest": 16, "dropout": 0.0}
    model = build_mask_predict(MaskPredictConfig(vocabulary=len(TOKENIZER), **sizes)).eval()
    task = Translate(model, TOKENIZER)
    found = task.evaluate(LOADER.batches())
    other = task.evaluate(pair_loader(PAIRS, TOKENIZER, tokens=300, longest=16).batches())
    assert found.loss == pytest.approx(other.loss, abs=1e-5)
    total = count = 0.0
    for batch in LOADER.batches():
        words = words_alone(batch.target)
        given = hide_words(words, draw_numbers(batch.target, batch.indices, seed=0))
        logits = model(batch.source, given.ids)[0][given.hidden]
        total += nn.functional.cross_entropy(logits, words[given.hidden], reduction="sum").item()
        count += int(given.hidden.sum())
    assert found.loss == pytest.approx(total / count, abs=1e-5)
    assert found.metrics["perplexity"] == pytest.approx(np.exp(total / count), rel=1e-4)
