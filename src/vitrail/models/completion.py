"""Images gone on with: the first pixels are given, the others are drawn one after the other from an image GPT.

b images, s samples of each, g pixels that are given, n pixels
"""

import torch
from jaxtyping import Int
from torch import Tensor

from vitrail.errors import VitrailError
from vitrail.models.decoding.sampling import sample
from vitrail.models.igpt import ImageGPT


def complete(
    model: ImageGPT,
    given: Int[Tensor, "b g"],
    *,
    count: int = 1,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    cached: bool = True,
) -> Int[Tensor, "b s n"]:
    """`count` whole images for each, as color numbers, that begin as is given; g = 0 draws images from nothing.

    x_i ~ p(x_i | x_1 ... x_{i-1})  [Chen+ 2020, fig. 5 and appendix]. With temperature 1 and no cut these are fair samples.
    """
    pixels = model.config.pixels
    if given.shape[1] >= pixels:
        raise VitrailError(f"nothing is left to complete: {given.shape[1]} pixels are given of {pixels}")
    model.check_causal("completes images")
    blank = given.new_full((len(given), 1), model.blank)
    drawn = sample(
        model,
        len(given),
        longest=pixels - given.shape[1],
        generator=generator, temperature=temperature, top_k=top_k, top_p=top_p, count=count, cached=cached,
        prompt=torch.cat([blank, given], dim=1),
        allow=torch.ones(model.vocabulary, dtype=torch.bool),
        end=None,
    )  # fmt: skip
    return torch.cat([given[:, None].expand(-1, count, -1), drawn], dim=2)
