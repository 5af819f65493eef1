"""Recurrent encoder-decoders under the task of translation."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import vitrail as vt
from vitrail.byte_pairs import BytePairs
from vitrail.data.text.parallel import Pairs
from vitrail.data.text.toys import make_toy
from vitrail.special_tokens import PAD
from vitrail.tasks.translate.data import pair_loader
from vitrail.tasks.translate.objective import Translate


@pytest.mark.parametrize("attention", ["none", "global", "local"])
def test_loss_and_translations(attention):
    pairs = Pairs(*make_toy("reverse", "test", count=7))
    tokenizer = BytePairs.train([*pairs.sources, *pairs.targets], 60)
    model = vt.create_model("gru_seq2seq_tiny", vocabulary=len(tokenizer), width=8, attention=attention, dropout=0.0)
    loader = pair_loader(pairs, tokenizer, tokens=100)
    task, batch = Translate(model, tokenizer), next(iter(loader.batches()))
    logits = model(batch.source, batch.target[:, :-1])
    assert_close(task.loss(batch), F.cross_entropy(logits.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=PAD))
    torch.manual_seed(0)
    found = task.test(loader, beams=3)
    assert len(found.hypotheses) == 7
    assert list(found.sources) == pairs.sources
