"""What every model of the catalogue is: a config, weights, and what config.json says of a model beside them."""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from vitrail.preprocessing import Preprocessing


class Model(nn.Module):
    """Base of all models: code above this package asks for these attributes and never whether they are there.

    A base class and no protocol, because a model is handed on to what takes an `nn.Module`: optimizers, hooks, compilers.
    What only some models can do is a protocol of `models.protocols`.
    """

    architecture: ClassVar[str]  # its key in `catalogue.ARCHITECTURES`
    config: Any  # the dataclass that the architecture is built from
    task: str | None = None  # of the task registry, where the architecture alone would name another
    preprocessing: Preprocessing | None = None  # what makes its input of an image; None: it reads none
    labels: tuple[str, ...] | None = None  # names of its classes
    multi_label: bool = False  # whether an image may have several of the labels
    provenance: dict[str, Any] | None = None  # where imported weights come from

    @property
    def surrogate_loss(self) -> Callable[[Tensor], Tensor] | None:
        """From each sample's loss to the term that training adds to their mean; for models that draw something at random."""
        return None

    @property
    def size_multiple(self) -> int:
        """What the sides of an image, or volume, of another size must be multiples of."""
        return 1

    @property
    def pipeline_tag(self) -> str:
        """Hugging Face's name of what it does; a model without an answer of its own has features."""
        return "image-feature-extraction"


class Sized:
    """Beside a model's own base: it reads images of the size that its config has."""

    config: Any

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of the images that it is trained on."""
        size: tuple[int, int] = self.config.image_size
        return size


class ImageModel(Sized, Model):
    """A model that reads images of a size: classifiers, what pretrains them, segmenters, detectors."""

    preprocessing: Preprocessing


def unwrap(model: Any) -> Any:
    """The model itself where torch.compile has wrapped it, which puts a word before the name of every weight."""
    return getattr(model, "_orig_mod", model)
