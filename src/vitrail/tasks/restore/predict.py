"""Restoring files: `vitrail restore`, and `vitrail predict` of a restorer."""

from collections.abc import Iterator

from vitrail.data.inputs import expand
from vitrail.deploy.image_to_image import ImageToImage, open_layers
from vitrail.deploy.predicted_files import Predicted, failure, free_name, open_folder
from vitrail.errors import VitrailError
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.tasks.restore.options import PredictOptions

ENDING = "_restored.png"


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """Where each image was written, or what is wrong with it while the rest goes on."""
    paths, bar = expand(inputs), ProgressBar(quiet=options.json)
    restore = ImageToImage(load(run).to(choose_device(options.device)))
    folder = open_folder(options.out)
    tile = None if options.tile == "auto" else options.tile
    for path in paths:
        try:
            layers = open_layers(path)
        except VitrailError as error:
            yield failure(error)
            continue
        with bar.counting(path.name) as progress:
            restored = restore.restore(layers, tile=tile, overlap=options.overlap, on_tile=progress)
        target = free_name(path, folder, ending=ENDING)
        restored.save(target, "PNG")
        yield Predicted(str(target), f"{path} -> {target}")
