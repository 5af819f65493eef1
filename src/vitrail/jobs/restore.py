"""Restoring files: `vitrail restore`."""

from collections.abc import Iterator
from pathlib import Path

from vitrail.deploy.image_to_image import ImageToImage, open_layers
from vitrail.deploy.predicted_files import free_name
from vitrail.errors import VitrailError
from vitrail.jobs.options import RestoreOptions
from vitrail.learn.training.progress_bar import ProgressBar
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.tasks.classify.predict import expand


def restore_files(
    run: str, words: list[str], options: RestoreOptions, *, quiet: bool = False
) -> Iterator[tuple[Path, Path | VitrailError]]:
    """Each picture with where it was written, or with what is wrong with it while the rest goes on."""
    if options.tile != "auto" and options.tile < 1:
        raise VitrailError(f"--tile must be at least 1, got {options.tile}")
    if options.overlap is not None and options.overlap < 0:
        raise VitrailError(f"--overlap must be at least 0, got {options.overlap}")
    paths, bar = expand(words), ProgressBar(quiet=quiet)
    restore = ImageToImage(load(run).to(choose_device(options.device)))
    folder = None if options.out is None else Path(options.out).expanduser()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    tile = None if options.tile == "auto" else options.tile
    for path in paths:
        try:
            layers = open_layers(path)
        except VitrailError as error:
            yield path, error
            continue
        with bar.counting(path.name) as progress:
            restored = restore.restore(layers, tile=tile, overlap=options.overlap, on_tile=progress)
        target = free_name(path, folder, ending="_restored.png")
        restored.save(target, "PNG")
        yield path, target
