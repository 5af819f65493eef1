"""What the studio knows of a masked autoencoder before it is loaded."""

from dataclasses import dataclass
from typing import Any, ClassVar

from vitrail.deploy.studio.model_facts import PictureModelFacts
from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.preprocessing import Preprocessing


@dataclass(frozen=True, kw_only=True)
class MaskFacts(PictureModelFacts):
    """`hide` is the share of patches that was hidden in training, `normalize` whether each is predicted without its mean and deviation."""

    task: ClassVar[str] = "mask"
    does: ClassVar[str] = "draws hidden patches"
    grid: tuple[int, int]
    patch: tuple[int, int]
    hide: float
    normalize: bool
    layers: int
    decoder_layers: int

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {
            "grid": self.grid,
            "patch": self.patch,
            "hide": self.hide,
            "normalize": self.normalize,
            "layers": self.layers,
            "decoder_layers": self.decoder_layers,
        }


def read_mask_facts(model: MaskedAutoencoder, preprocessing: Preprocessing) -> MaskFacts:
    """Of a model without weights, on torch's meta device."""
    if preprocessing.channels not in (1, 3):
        raise VitrailError(f"the studio draws pictures of 1 or 3 channels: this model reads {preprocessing.channels}")
    tokenizer = model.backbone.tokenizer
    rows, columns = tokenizer.grid(preprocessing.size)
    height, width = tokenizer.patch
    return MaskFacts(
        architecture=model.architecture,
        preprocessing=preprocessing,
        grid=(rows, columns),
        patch=(height, width),
        hide=model.config.hide,
        normalize=model.config.normalize,
        layers=len(model.backbone.encoder.blocks),
        decoder_layers=model.config.decoder_depth,
        parameters=count_parameters(model),
    )
