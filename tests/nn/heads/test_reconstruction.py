import torch
from torch.testing import assert_close

from vitrail.models.vit_restorer import ReconstructionHead
from vitrail.nn.tokenizers.patch import PatchTokenizer
from vitrail.tokens import Tokens


def test_a_head_that_undoes_the_tokenizer_gives_the_image_back():
    """z = x E with a square E, so that W = E^-1 and a bias of -b E^-1 reconstruct."""
    torch.manual_seed(0)
    tokenizer, head = PatchTokenizer(2, 30, patch=(3, 5)), ReconstructionHead(30, channels=2, patch=(3, 5))
    inverse = torch.linalg.inv(tokenizer.project.weight.double()).float()
    head.output.weight.data, head.output.bias.data = inverse, -(inverse @ tokenizer.project.bias.data)
    images = torch.randn(2, 2, 6, 20)
    assert_close(head(tokenizer(images)), images, atol=1e-3, rtol=1e-3)


def test_prefix_tokens_are_no_pixels_and_axes_are_free():
    head = ReconstructionHead(4, channels=3, patch=(2, 2, 2))
    assert head(Tokens(torch.randn(1, 2 + 12, 4), grid=(2, 2, 3), prefix=2)).shape == (1, 3, 4, 4, 6)
