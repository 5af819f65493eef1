"""Where a captioner looks: pieces of a word are one word, and the map of a word is that of the step that wrote it."""

import torch
from torch.testing import assert_close

from vitrail.byte_pairs import BytePairs
from vitrail.explain.captions import explain_caption, look_at_words
from vitrail.models.captioner import CaptionerConfig, build_captioner
from vitrail.special_tokens import BEGIN, END, PAD

LETTERS = BytePairs.train(["ab cd", "abc"], 14)  # letters, and few pieces of more


def test_the_pieces_of_a_word_are_put_together() -> None:
    ids = [*LETTERS.encode("abc d"), END, PAD]
    maps = torch.rand(len(ids), 3, 2)
    found = explain_caption(LETTERS, ids, maps)
    assert found.words == ("abc", "d")
    assert found.caption == "abc d"
    first = len(LETTERS.encode("abc"))
    assert first > 1
    assert_close(found.maps, torch.stack([maps[:first].mean(0), maps[first:-2].mean(0)]))


def test_a_caption_without_words_has_no_maps() -> None:
    found = explain_caption(LETTERS, [END, PAD], torch.rand(2, 3, 2))
    assert (found.words, found.caption, found.maps.shape) == ((), "", (0, 3, 2))


def test_a_words_map_is_of_the_step_that_wrote_it() -> None:
    torch.manual_seed(0)
    config = CaptionerConfig(
        encoder="vit_nano_conv", image_size=(16, 16), vocabulary=len(LETTERS), width=12, decoder_depth=1, heads=2, hidden=16
    )
    model = build_captioner(config).eval()
    model.tokenizer = LETTERS
    images, ids = torch.randn(1, 3, 16, 16), torch.tensor([[*LETTERS.encode("d"), END]])
    assert ids.shape == (1, 3)  # the space is a piece of its own
    [found] = look_at_words(model, images, ids)
    maps = model.attention_maps(images, torch.tensor([[BEGIN, *ids[0, :2].tolist()]]))[0].detach()
    assert_close(found.maps[0], maps[:2].mean(0))
