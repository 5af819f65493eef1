"""The captioning task: its loss and scores by hand, and that it teaches a model to tell images apart."""

from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from vitrail.byte_pairs import BytePairs
from vitrail.data.dataset import ArraySplit
from vitrail.data.image_source import ImageSource
from vitrail.data.loader import Loader
from vitrail.data.order import PlainOrder
from vitrail.learn.training.objective import Objective
from vitrail.models.captioner import CaptionerConfig, build_captioner
from vitrail.models.show_attend_tell import PRESETS as SHOW_ATTEND_TELL
from vitrail.models.show_attend_tell import build_show_attend_tell
from vitrail.special_tokens import BEGIN, END, PAD
from vitrail.tasks.caption.data import CaptionBatch, CaptionSource
from vitrail.tasks.caption.objective import Caption, Captions

COLORS = {"a red square": (255, 0, 0), "a green circle here": (0, 255, 0), "blue": (0, 0, 255), "nothing , black": (0, 0, 0)}
TEXTS = [[text] for text in COLORS]
TOKENIZER = BytePairs.train(COLORS, 200)
TINY = CaptionerConfig(
    encoder="vit_nano_hybrid", image_size=(8, 8), vocabulary=len(TOKENIZER), width=24, decoder_depth=1, heads=2, hidden=32, longest=9,
    dropout=0.0,
)  # fmt: skip


def batches(model: object, *, shuffle: bool = False) -> Loader:
    arrays = np.array([np.full((8, 8, 3), color, dtype=np.uint8) for color in COLORS.values()])
    images = ImageSource(ArraySplit(arrays, np.zeros(4)), model.preprocessing)  # type: ignore[attr-defined]
    source = CaptionSource(images, TEXTS, TOKENIZER, longest=9, drawn=shuffle)
    return Loader(source, PlainOrder(4, batch=4, shuffle=shuffle))


def test_the_loss_is_the_mean_over_real_words() -> None:
    torch.manual_seed(0)
    model = build_captioner(TINY).eval()
    task = Caption(model, TOKENIZER, references=TEXTS)
    assert isinstance(task, Objective)
    images, words = torch.randn(2, 3, 8, 8), torch.tensor([[BEGIN, 7, 8, END], [BEGIN, 9, END, PAD]])
    scores = model(images, words[:, :-1]).log_softmax(-1)
    by_hand = -(scores[0, 0, 7] + scores[0, 1, 8] + scores[0, 2, END] + scores[1, 0, 9] + scores[1, 1, END]) / 5
    assert_close(task.loss(CaptionBatch(images, words, torch.arange(2))), by_hand)


def test_hard_attention_adds_a_gradient_and_no_value() -> None:
    torch.manual_seed(0)
    config = replace(
        SHOW_ATTEND_TELL["show_attend_tell_hard"], vocabulary=len(TOKENIZER), image_size=(16, 16), width=12, features=8
    )
    model = build_show_attend_tell(config).train()
    images, words = torch.randn(2, 3, 16, 16), torch.tensor([[BEGIN, 7, 8, END], [BEGIN, 9, END, PAD]])
    torch.manual_seed(1)
    logits = model(images, words[:, :-1])
    plain = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten(), ignore_index=PAD)
    model.looked = None
    torch.manual_seed(1)  # the same places
    loss = Caption(model, TOKENIZER, references=TEXTS).loss(CaptionBatch(images, words, torch.arange(2)))
    assert_close(loss, plain)
    score = model.decoder.score
    plain.backward()
    before = [None if p.grad is None else p.grad.clone() for p in score.parameters()]
    model.zero_grad()
    loss.backward()
    assert all(grad is None or float(grad.abs().sum()) == 0.0 for grad in before)  # a draw has no gradient of its own
    assert any(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in score.parameters())


def test_scores_by_hand() -> None:
    references = (("a red square", "one square"), ("blue",), ("a dog runs in the park",))
    captions = ("one square", "red", "a dog runs in a park")
    found = Captions(indices=np.arange(3), captions=captions, references=references, loss=0.5, score="exact")
    assert found.right.tolist() == [1.0, 0.0, 0.0]
    streams = [["a red square", "blue", "a dog runs in the park"], ["one square", None, None]]
    assert found.metrics["bleu"] == pytest.approx(sacrebleu.corpus_bleu(list(captions), streams).score / 100)
    assert found.metrics["exact"] == pytest.approx(1 / 3)
    assert found.error == pytest.approx(1 / 3)  # no less than one of three
    many = replace(found, indices=np.arange(12), captions=4 * captions, references=4 * references)
    assert many.error == pytest.approx((1 / 3 * 2 / 3 / 12) ** 0.5)
    assert "nrefs:var" in found.signature
    several = replace(found, score="bleu")
    assert set(several.metrics) == {"loss", "bleu"}
    low, high = several.interval
    assert 0 <= low <= several.metrics["bleu"] <= high <= 1
    assert several.error > 0


def test_of_no_image_nothing_is_right() -> None:
    nothing = Captions(indices=np.arange(0), captions=(), references=(), loss=0.0, score="exact")
    assert nothing.metrics == {"loss": 0.0, "exact": 0.0, "bleu": 0.0}


def test_four_images_are_learned_by_heart() -> None:
    torch.manual_seed(0)
    model = build_captioner(TINY)
    task = Caption(model, TOKENIZER, references=TEXTS, decided=True)
    before = task.evaluate(batches(model).batches())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for step in range(40):
        [batch] = batches(model, shuffle=True).batches(step)
        loss = task.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = task.evaluate(batches(model).batches())
    assert model.training  # left as it was
    assert after.captions == tuple(COLORS)
    assert after.metrics["exact"] == 1.0 > before.metrics["exact"]
    assert after.metrics["bleu"] == pytest.approx(1.0)
    beams = Caption(model, TOKENIZER, references=TEXTS, decided=True, beams=3).evaluate(batches(model).batches())
    assert beams.captions == tuple(COLORS)
