"""A model small enough to follow by hand: two tokens of width 1, two layers of even attention."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vitrail.models.classifier import Classifier
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.heads.classification import ClassificationHead
from vitrail.preprocessing import neutral
from vitrail.scope import Scope
from vitrail.tokens import Tokens


class TwoTokens(Classifier):
    """x_l = x_{l-1} + A x_{l-1}, A = 1/2 everywhere, x_0 the two pixels; logits (y, -y) of what the head reads."""

    architecture = "two_tokens"

    def __init__(self, pool):
        super().__init__(SimpleNamespace(in_channels=1, image_size=(1, 2), num_classes=2), neutral((1, 2), 1))
        self.blocks = nn.ModuleList(MultiHeadAttention(1, heads=1, bias=False) for _ in range(2))
        self.head = ClassificationHead(1, classes=2, pool=pool)
        self.prefix = int(pool == "class")
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
            for block in self.blocks:
                block.value.weight.fill_(1)
                block.output.weight.fill_(1)
            self.head.output.weight.copy_(torch.tensor([[1.0], [-1.0]]))

    def forward_features(self, images):
        tokens = Tokens(images.flatten(1)[..., None], grid=(1, 2 - self.prefix), prefix=self.prefix)
        scope = Scope(queries=tokens.places)
        for block in self.blocks:
            tokens = tokens._replace(x=tokens.x + block(tokens.x, scope))
        return tokens

    def forward_head(self, tokens):
        return self.head(tokens)

    def forward(self, images):
        return self.forward_head(self.forward_features(images))


@pytest.fixture
def two_tokens():
    """two_tokens(pool)"""
    return TwoTokens
