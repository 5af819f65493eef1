"""Language models: likelihood, its error, and that order is learned where it can be."""

import math

import pytest
import torch
from torch.testing import assert_close

from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError
from vitrail.learn.losses.word_cross_entropy import word_cross_entropy
from vitrail.learn.training.objective import Evaluation, Objective
from vitrail.models.language import LanguageConfig, build_language
from vitrail.special_tokens import PAD
from vitrail.tasks.language.data import line_loader
from vitrail.tasks.language.objective import LanguageModeling

WORDS = [f"w{letter}" for letter in "abcdefghijkl"]
LINES = [" ".join(WORDS[(start + step) % 12] for step in range(length)) for start in range(12) for length in range(4, 9)] * 4
TOKENIZER = BytePairs.train(LINES, 60)


def tiny(*, causal: bool):
    torch.manual_seed(0)
    sizes = {"width": 16, "depth": 1, "heads": 2, "hidden": 32, "longest": 16, "dropout": 0.0}
    return build_language(LanguageConfig(vocabulary=len(TOKENIZER), causal=causal, **sizes))


@pytest.mark.parametrize("masked", [False, True])
def test_the_loss_is_over_what_is_asked(masked):
    model, loader = tiny(causal=not masked), line_loader(LINES, TOKENIZER, masked=masked, tokens=200, longest=16)
    task, batch = LanguageModeling(model, TOKENIZER, masked=masked), next(iter(loader.batches()))
    assert isinstance(task, Objective)
    assert_close(task.loss(batch), word_cross_entropy(model(batch.inputs), batch.targets))
    found = task.evaluate(loader.batches(), bytes=loader.source.bytes)
    assert isinstance(found, Evaluation)
    totals = [
        (word_cross_entropy(model(b.inputs), b.targets, reduction="sum").item(), int((b.targets != PAD).sum()))
        for b in loader.batches()
    ]
    loss = sum(total for total, _ in totals) / sum(count for _, count in totals)
    assert found.metrics["loss"] == pytest.approx(loss, rel=1e-4)
    assert found.metrics["likelihood"] == pytest.approx(math.exp(-loss), rel=1e-4)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    assert ("bits_per_byte" in found.metrics) is not masked
    if not masked:
        assert found.metrics["bits_per_byte"] == pytest.approx(
            sum(total for total, _ in totals) / loader.source.bytes / math.log(2), rel=1e-4
        )


def test_a_model_sees_what_the_task_asks_for():
    with pytest.raises(VitrailError, match="this model is causal: it cannot learn hidden words"):
        LanguageModeling(tiny(causal=True), TOKENIZER, masked=True)
    with pytest.raises(VitrailError, match="not causal: it cannot learn the next word"):
        LanguageModeling(tiny(causal=False), TOKENIZER, masked=False)


@pytest.mark.parametrize("masked", [False, True])
def test_a_text_with_a_rule_is_learned(masked):
    model = tiny(causal=not masked)
    task = LanguageModeling(model, TOKENIZER, masked=masked)
    lines = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(12)] * 12
    longest = len(TOKENIZER.encode(lines[0])) + 1  # a block is a line
    loader = line_loader(lines, TOKENIZER, masked=masked, tokens=300, shuffle=True, longest=longest)
    before = task.evaluate(loader.batches())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(25 if masked else 6):
        for batch in loader.batches(epoch):
            optimizer.zero_grad()
            task.loss(batch).backward()
            optimizer.step()
    after = task.evaluate(loader.batches())
    assert before.metrics["likelihood"] < 0.05
    assert after.metrics["word_accuracy"] > 0.5  # the first word nobody can know
    assert after.metrics["likelihood"] > before.metrics["likelihood"] + 5 * after.error


def test_the_error_is_that_of_resampled_lines():
    """Against the spread of the loss over lines drawn again and again, which estimates the same."""
    task = LanguageModeling(tiny(causal=True), TOKENIZER, masked=False)
    generator = torch.Generator().manual_seed(0)
    scores = []
    for _ in range(40):
        drawn = [LINES[i] for i in torch.randint(len(LINES), (40,), generator=generator).tolist()]
        found = task.evaluate(line_loader(drawn, TOKENIZER, masked=False, tokens=600, longest=16).batches())
        scores.append((found.metrics["likelihood"], found.error))
    values, errors = torch.tensor(scores).T
    assert errors.mean().item() == pytest.approx(values.std().item(), rel=0.35)
