"""The heads that views are compared behind."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.heads.projection import ProjectionHead, PrototypeHead


def test_outputs_are_cosines_whatever_the_length_of_the_prototypes():
    torch.manual_seed(0)
    head, x = PrototypeHead(7, hidden=11, bottleneck=5, prototypes=13), torch.randn(3, 7)
    before = head(x)
    assert before.shape == (3, 13)
    assert before.abs().max() <= 1 + 1e-6
    with torch.no_grad():
        head.prototypes.weight.mul_(torch.rand(13, 1) + 0.5)
    assert_close(head(x), before)
    assert [type(part) for part in head.mlp] == [nn.Linear, nn.GELU, nn.Linear, nn.GELU, nn.Linear]


def test_a_batch_norm_leaves_what_differs():
    torch.manual_seed(0)
    alike = torch.randn(1, 7) + 1e-3 * torch.randn(64, 7)
    plain, normed = (PrototypeHead(7, hidden=11, bottleneck=5, prototypes=13, batch_norm=norm) for norm in (False, True))
    assert plain(alike).std(0).max() < 0.01
    assert normed(alike).std(0).min() > 0.1
    assert sum(isinstance(part, nn.BatchNorm1d) for part in normed.mlp) == 2


def test_it_is_torchs_weight_norm_with_lengths_of_one():
    torch.manual_seed(0)
    head, x = PrototypeHead(7, hidden=11, bottleneck=5, prototypes=13), torch.randn(3, 7)
    last = nn.utils.parametrizations.weight_norm(nn.Linear(5, 13, bias=False))
    last.parametrizations.weight.original0.data.fill_(1)
    last.parametrizations.weight.original1.data.copy_(head.prototypes.weight.data)
    assert_close(head(x), last(nn.functional.normalize(head.mlp(x), dim=-1)))


def test_prototypes_do_not_learn_in_the_beginning_but_take_part():
    head, x = PrototypeHead(7, hidden=11, bottleneck=5, prototypes=13), torch.randn(3, 7)
    free = head(x)
    head.learning = 0.0
    held = head(x)
    assert torch.equal(held, free)
    held.square().sum().backward()
    assert (head.prototypes.weight.grad == 0).all()
    assert (head.mlp[0].weight.grad != 0).any()


def test_the_projector_normalizes_its_outputs_over_the_batch():
    head = ProjectionHead(7, hidden=11, out=5, layers=3)
    out = head(torch.randn(64, 7))
    assert_close(out.mean(0), torch.zeros(5), atol=1e-5, rtol=0)
    assert_close(out.std(0, correction=0), torch.ones(5), atol=1e-2, rtol=0)
    assert [type(part) for part in ProjectionHead(5, hidden=11, out=5, layers=2).mlp] == [
        nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear, nn.BatchNorm1d
    ]  # fmt: skip
    assert sum(p.numel() for p in head.parameters()) == 7 * 11 + 11 * 11 + 11 * 5 + 2 * 2 * 11


def test_one_prototype_is_refused():
    with pytest.raises(VitrailError, match="at least 2 prototypes, got 1"):
        PrototypeHead(7, hidden=11, bottleneck=5, prototypes=1)
