import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.learn.losses.mask_predict_loss import draw_numbers, hide_words, nat_loss, words_alone
from vitrail.models.decoding.mask_predict import mask_predict
from vitrail.special_tokens import BEGIN, END, MASK, PAD

SMALL = {"vocabulary": 23, "width": 32, "heads": 2, "hidden": 48, "depth": 2, "decoder_depth": 2, "longest": 12, "dropout": 0.0}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_words_alone():
    target = torch.tensor([[BEGIN, 7, 8, 9, END], [BEGIN, 7, END, PAD, PAD], [BEGIN, END, PAD, PAD, PAD]])
    assert words_alone(target).tolist() == [[7, 8, 9], [7, PAD, PAD], [PAD, PAD, PAD]]


def test_every_number_of_words_is_hidden_as_often_and_every_word():
    words = torch.tensor([[7, 8, 9, 10, PAD, PAD]]).expand(4000, 6)
    given = hide_words(words, torch.rand(4000, 7, generator=seeded()))
    counts = given.hidden.sum(1).bincount(minlength=5)
    assert counts[0] == 0
    assert ((counts[1:] - 1000) ** 2 / 1000).sum() < 16.3  # chi-square of three degrees, one in a thousand
    assert (given.hidden.float().mean(0)[:4] - 0.625).abs().max() < 0.03  # (1 + 2 + 3 + 4) / 4 of 4
    assert not given.hidden[:, 4:].any()
    assert (given.ids[given.hidden] == MASK).all()
    assert torch.equal(given.ids[~given.hidden], words[~given.hidden])


def test_what_is_hidden_follows_from_the_seed_and_the_number_of_a_sentence():
    target = torch.tensor([[BEGIN, 7, 8, 9, END], [BEGIN, 7, 8, END, PAD], [BEGIN, 7, END, PAD, PAD]])
    indices = torch.tensor([4, 9, 2])

    def hidden(target: torch.Tensor, indices: torch.Tensor, seed: int = 3) -> list[list[bool]]:
        return hide_words(words_alone(target), draw_numbers(target, indices, seed=seed)).hidden[:, :3].tolist()

    first, order = hidden(target, indices), torch.tensor([2, 0, 1])
    assert hidden(F.pad(target, (0, 4), value=PAD), indices) == first
    assert hidden(target[order], indices[order]) == [first[i] for i in order.tolist()]
    assert len({str(hidden(target, indices, seed)) for seed in range(20)}) > 5


def test_the_loss_is_that_of_hidden_words_and_of_the_length():
    torch.manual_seed(0)
    model = vt.create_model("cmlm_tiny", **SMALL).eval()
    source, target = torch.randint(5, 23, (3, 5)), torch.tensor([[BEGIN, 7, 8, END], [BEGIN, 9, END, PAD], [BEGIN, 5, 6, END]])
    numbers = torch.rand(3, 3, generator=seeded(4))
    given = hide_words(words_alone(target), numbers)
    words, lengths = model(source, given.ids)
    hidden = F.cross_entropy(words[given.hidden], words_alone(target)[given.hidden])
    length = F.cross_entropy(lengths, torch.tensor([1, 0, 1]))
    assert_close(nat_loss(model, source, target, numbers=numbers), hidden + 0.1 * length)
    assert_close(nat_loss(model, source, target, numbers=numbers, length_weight=0.0), hidden)


def copying(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.randint(1, 7, (32, 1), generator=generator)
    words = torch.randint(5, 23, (32, 6), generator=generator).masked_fill(torch.arange(6) >= lengths, PAD)
    return words, F.pad(F.pad(words, (0, 1), value=PAD).scatter(1, lengths, END), (1, 0), value=BEGIN)


def train(model: torch.nn.Module, steps: int) -> list[float]:
    optimizer, generator, losses = torch.optim.AdamW(model.train().parameters(), lr=3e-3), seeded(), []
    for _ in range(steps):
        numbers = torch.rand(32, 7, generator=generator)
        loss = nat_loss(model, *copying(generator), numbers=numbers, length_weight=1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_the_loss_falls():
    torch.manual_seed(0)
    losses = train(vt.create_model("cmlm_tiny", **SMALL), 12)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 3])
def test_copying_is_learned_and_written_at_once(iterations):
    torch.manual_seed(0)
    model = vt.create_model("cmlm_tiny", **SMALL)
    train(model, 600)
    source, _ = copying(seeded(99))
    found = mask_predict(model.eval(), source, iterations=iterations, lengths=1)
    ids = F.pad(found.ids, (0, 6 - found.ids.shape[1]), value=PAD)[:, :6]
    assert (ids == source).all(1).float().mean() > 0.9
