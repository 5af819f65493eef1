"""A trained classifier that answers for the images a student learns from.

b batch, ch channels, h w image, k classes
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vitrail.data.transforms import channelwise, denormalize, normalize
from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier
from vitrail.preprocessing import Preprocessing
from vitrail.ragged import Ragged

LUMA = (0.299, 0.587, 0.114)  # red, green and blue in gray, as images are read (ITU-R 601)


class Teacher:
    """Frozen, in evaluation mode. It sees what the student sees, augmented and mixed, brought to its own size, channels and scale."""

    def __init__(self, model: Classifier, *, student: Preprocessing, columns: Sequence[int], device: str = "cpu") -> None:
        """`student`: how the images were prepared. `columns`: for each class of the student, its number among the teacher's."""
        self.model = model.to(device).eval().requires_grad_(False)
        self.student, self.own = student, model.preprocessing
        self.columns = torch.tensor(columns, device=device)
        if student.channels != self.own.channels and {student.channels, self.own.channels} != {1, 3}:
            raise VitrailError(
                f"the teacher reads images of {self.own.channels} channels, which those of {student.channels} cannot be turned into"
            )

    def __call__(self, images: Float[Tensor, "b ch h w"] | Ragged) -> Float[Tensor, "b k"]:
        """Its logits, in the student's order of classes."""
        with torch.inference_mode():
            if isinstance(images, Ragged):
                views = torch.cat([self.view(image[None]) for image in images])
            else:
                views = self.view(images)
            logits = self.model(views)[:, self.columns]
        return logits.clone()  # one made in inference mode could not be part of a graph

    def view(self, images: Float[Tensor, "b ch h w"]) -> Float[Tensor, "b _ _ _"]:
        """The student's input as the teacher's: un-normalized, gray or colored, resized, normalized again."""
        student, own = self.student, self.own
        if images.shape[-2:] == own.size and (student.channels, student.mean, student.std) == (own.channels, own.mean, own.std):
            return images
        unit = denormalize(images, student)
        if own.channels < student.channels:
            unit = (unit * channelwise(LUMA, unit)).sum(1, keepdim=True)
        elif own.channels > student.channels:
            unit = unit.expand(-1, own.channels, -1, -1)
        if unit.shape[-2:] != own.size:
            unit = F.interpolate(unit, size=own.size, mode="bilinear", antialias=True)
        return normalize(unit, own)
