"""Restoring images: `vt.pipeline("image-to-image")`, `vitrail restore` and `vitrail predict`.

ch channels, h w image, h2 w2 the image that comes out
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from vitrail.data.degradation import to_bytes
from vitrail.data.transforms import to_unit
from vitrail.deploy import pipeline
from vitrail.deploy.export.interface import Interface
from vitrail.deploy.image_source import ImageSource
from vitrail.deploy.pipeline import Inputs, Prediction, Progress
from vitrail.deploy.predicted_files import OutputFolder
from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.models.restorer import Restorer
from vitrail.models.tiling import TILE, WHOLE, restore_tiled
from vitrail.tasks.restore.layers import Layers, open_layers
from vitrail.tasks.restore.options import PredictOptions

ENDING = "_restored.png"


@dataclass(frozen=True, kw_only=True)
class Call(pipeline.Call):
    """`tile`: the side of the pieces; None: one piece, unless the image is large."""

    tile: int | None = None
    overlap: int | None = None


class Pipeline(pipeline.Pipeline[Layers, Image.Image]):
    """`restore(image)` gives an image, `scale` times as large; a list of images gives a list. Gray stays gray, whatever the model
    is for; of a color image a gray model restores the brightness. Transparency is resized along."""

    counts = True
    devices = True
    model: Restorer
    call = Call

    def check_model(self, model: Model) -> None:
        if not isinstance(model, Restorer):
            raise VitrailError(f"this model restores no images: it is of the kind {model.architecture}")

    def read(self, source: ImageSource) -> Layers:
        return open_layers(source)

    def prepare(self, samples: Sequence[Layers]) -> list[Inputs[Layers]]:
        return [Inputs([sample], sample.image) for sample in samples]

    def forward(self, inputs: Inputs[Layers], options: Call, progress: Progress) -> list[Image.Image]:
        return [self.restore(inputs.samples[0], tile=options.tile, overlap=options.overlap, on_tile=progress)]

    def restore(
        self, layers: Layers, *, tile: int | None = None, overlap: int | None = None, on_tile: Progress = pipeline.ignore
    ) -> Image.Image:
        """`on_tile` is called with (done, in all)."""
        image = layers.image
        how: dict[str, Any] | None = {"tile": tile or TILE, "overlap": overlap, "on_tile": on_tile}
        if tile is None and overlap is None and max(image.size) <= WHOLE:
            how = None
        if self.model.config.in_channels == 1 and image.mode != "L":
            luma, *chroma = image.convert("YCbCr").split()
            bright = Image.fromarray(self.run(np.array(luma)[:, :, None], how)[:, :, 0])
            colors = [part.resize(bright.size, Image.Resampling.BICUBIC) for part in chroma]
            restored = Image.merge("YCbCr", [bright, *colors]).convert("RGB")
        else:
            mode = "L" if self.model.config.in_channels == 1 else "RGB"
            found = self.run(np.atleast_3d(np.array(image.convert(mode))), how)
            restored = Image.fromarray(found[:, :, 0] if mode == "L" else found).convert(image.mode)
        if layers.alpha is not None:
            restored.putalpha(layers.alpha.resize(restored.size, Image.Resampling.BICUBIC))
        return restored

    def run(self, image: UInt8[np.ndarray, "h w ch"], how: dict[str, Any] | None) -> UInt8[np.ndarray, "h2 w2 ch"]:
        """In tiles as `how` says, or in one piece."""
        images = to_unit(image[None]).to(next(self.model.parameters()).device)
        with torch.inference_mode():
            out = self.model(images) if how is None else restore_tiled(self.model, images, **how)
        return to_bytes(out.float().cpu())

    def postprocess(self, outputs: Image.Image, sample: Layers, options: Call) -> Image.Image:
        return outputs

    def keywords(self, options: PredictOptions) -> dict[str, Any]:
        return {"tile": None if options.tile == "auto" else options.tile, "overlap": options.overlap}

    def open_folder(self, options: PredictOptions) -> OutputFolder:
        return OutputFolder.open(options.out)

    def write(self, found: Prediction[Layers, Image.Image], folder: OutputFolder) -> dict[str, str]:
        """In the folder, or beside the original."""
        target = folder.free_name(found.source, ending=ENDING)
        found.result.save(target, "PNG")
        return {"image": str(target)}

    def to_json(self, found: Prediction[Layers, Image.Image], files: dict[str, str]) -> str:
        return files["image"]

    def describe(self, found: Prediction[Layers, Image.Image], files: dict[str, str], *, width: int) -> str:
        return f"{found.source} -> {files['image']}"

    def draw(self, found: Prediction[Layers, Image.Image]) -> Image.Image:
        return found.result

    @staticmethod
    def interface(model: Model) -> Interface:
        return Interface(model, {"pictures": "batch, channels, height, width"})
