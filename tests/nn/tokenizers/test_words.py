"""Ids to tokens: scale, places, padding, dropout."""

import pytest
import torch
from torch.testing import assert_close

from vitrail.errors import VitrailError
from vitrail.nn.tokenizers.words import WordHead, Words
from vitrail.tokens import Tokens

IDS = torch.tensor([[1, 7, 9, 2], [1, 6, 0, 0]])


def test_rows_times_the_root_of_the_width():
    words = Words(11, 16, grid=(7,))
    tokens = words(IDS)
    assert_close(tokens.x[0, 1], 4.0 * words.table.weight[7])
    assert tokens.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert (tokens.grid, tokens.index.tolist()) == ((7,), [[0, 1, 2, 3]])


def test_words_begin_with_the_size_of_a_sinusoid():
    torch.manual_seed(0)
    assert Words(500, 128, grid=(7,))(torch.arange(5, 105)[None, :7]).x.std().item() == pytest.approx(1.0, abs=0.1)


def test_words_behind_others_know_their_places():
    tokens = Words(11, 16, grid=(7,))(IDS, start=3)
    assert tokens.index.tolist() == [[3, 4, 5, 6]]
    with pytest.raises(VitrailError, match=r"8 tokens is too long: the model's longest is 7"):
        Words(11, 16, grid=(7,))(IDS, start=4)


def test_an_image_pixel_by_pixel():
    places = Words(11, 16, grid=(2, 3))(IDS, start=2).places
    assert places.coordinates().tolist() == [[[0, 2], [1, 0], [1, 1], [1, 2]]]


def test_dropout_in_training_alone():
    words, tokens = Words(11, 16, grid=(7,), dropout=0.5), Tokens(torch.ones(2, 7, 16), (7,))
    assert set(words.drop(tokens).x.unique().tolist()) == {0.0, 2.0}
    assert words.eval().drop(tokens) is tokens


def test_a_tied_head_has_no_weights_of_its_own():
    words = Words(11, 16, grid=(7,))
    head, tokens = WordHead(16, 11, tied=words.table), Tokens(torch.randn(2, 5, 16), (7,))
    assert not list(head.parameters())
    assert not head.state_dict()
    assert_close(head(tokens), tokens.x @ words.table.weight.T)
    assert_close(head.last(tokens), head(tokens)[:, -1])
    own = WordHead(16, 11)
    assert_close(own(tokens), tokens.x @ own.output.weight.T)
