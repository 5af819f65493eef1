"""What trained models write: a translation of a source, a caption of an image.

b batch, m tokens of the source, n tokens written, ch channels, h w image
"""

from jaxtyping import Float, Int
from torch import Tensor

from vitrail.models.decoding.beam import beam_search
from vitrail.models.decoding.greedy import greedy
from vitrail.models.decoding.limited import Limited
from vitrail.models.decoding.mask_predict import Filling, mask_predict
from vitrail.models.decoding.stepping import Stepping
from vitrail.models.word_model import WordModel
from vitrail.special_tokens import PAD


def write_translation(model: WordModel, source: Int[Tensor, "b m"], *, beams: int = 1) -> Int[Tensor, "b n"]:
    """Token ids, END at the end of each row; at most twice as long as the row's own source and ten tokens. A model that fills in masked
    tokens writes in its own way."""
    if isinstance(model, Filling):
        return mask_predict(model, source, lengths=beams).ids
    assert isinstance(model, Stepping)
    limits = (2 * (source != PAD).sum(dim=1) + 10).clamp(max=model.config.longest)
    limited, longest = Limited(model, limits), int(limits.max())
    if beams == 1:
        return greedy(limited, source, longest=longest)
    return beam_search(limited, source, beams=beams, longest=longest).ids


def write_caption(model: WordModel, images: Float[Tensor, "b ch h w"], *, beams: int = 1) -> Int[Tensor, "b n"]:
    """Token ids without BEGIN: by beam search, or greedily with one beam, which is the same and faster."""
    assert isinstance(model, Stepping)
    longest = model.config.longest - 1  # BEGIN is one of them
    return (
        greedy(model, images, longest=longest) if beams == 1 else beam_search(model, images, beams=beams, longest=longest).ids
    )
