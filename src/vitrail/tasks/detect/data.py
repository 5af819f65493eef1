"""Images with boxes as a detector learns from them and is scored on them; classes as it numbers them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.box_batches import BoxLoader, BoxPictures
from vitrail.data.dataset import DataSet, Split, SplitName, origin
from vitrail.data.formats.marks import MarkedSplit
from vitrail.data.joint import Movement
from vitrail.data.picture_store import PictureStore
from vitrail.errors import VitrailError, suggestion
from vitrail.learn.training.world import World
from vitrail.tasks.detect.objective import Detections
from vitrail.tasks.detect.options import Options
from vitrail.tasks.image_task import note_bad


def box_loaders(options: Options, data: DataSet, model: Any, bad: BadFiles, world: World) -> tuple[BoxLoader, BoxLoader]:
    """Training images, cropped and moved about, and validation images as they are; decoded ones are cached."""
    assert options.min_crop != "auto"
    budget, channels = cache_bytes(options), model.config.in_channels
    shared: dict[str, Any] = {
        "batch": options.batch_size, "workers": options.workers, "rank": world.rank, "world": world.size,
    }  # fmt: skip
    rooms: dict[SplitName, int] = {"train": budget - budget // 8, "val": budget // 8}
    stores = {name: PictureStore(data[name], channels=channels, budget=room) for name, room in rooms.items()}
    training = BoxPictures(
        stores["train"], model.preprocessing, how=movement_of(options), window=options.min_crop, seed=options.seed
    )
    validation = BoxPictures(stores["val"], model.preprocessing, seed=options.seed)
    return (
        BoxLoader(training, shuffle=True, on_bad=partial(note_bad, bad, "train"), **shared),
        BoxLoader(validation, on_bad=partial(note_bad, bad, "val"), **shared),
    )


def movement_of(options: Options) -> Movement:
    """How far training images may be changed."""
    assert options.shift != "auto"
    assert options.rotate != "auto"
    assert options.zoom != "auto"
    assert options.color_jitter != "auto"
    return Movement(
        shift=options.shift, rotate=options.rotate, zoom=options.zoom, color=options.color_jitter, flip=bool(options.flip),
        flip_vertical=options.dihedral, quarter_turns=options.dihedral,
    )  # fmt: skip


def cache_bytes(options: Options) -> int:
    """Of decoded images."""
    assert options.cache_gb != "auto"
    return int(options.cache_gb * 2**30) if options.cache == "memory" else 0


def scoring_loader(
    model: Any, data: DataSet, name: SplitName, *, batch: int, workers: int, bad: BadFiles, world: World
) -> BoxLoader:
    """A split as it is, once, with classes numbered as the model numbers them."""
    images = BoxPictures(
        PictureStore(data[name], channels=model.config.in_channels, budget=0),
        model.preprocessing,
        renumber=renumber(data.classes, labels_of(model), where=data.name),
    )
    return BoxLoader(
        images, batch=batch, workers=workers, on_bad=partial(note_bad, bad, name), rank=world.rank, world=world.size
    )


def labels_of(model: Any) -> tuple[str, ...]:
    return model.labels or tuple(f"LABEL_{number}" for number in range(model.num_classes))


def renumber(classes: Sequence[str], labels: Sequence[str], *, where: str) -> list[int] | None:
    """The model's number of each class of the data; None where both count alike. A class that it does not know cannot be scored."""
    for name in classes:
        if name not in labels:
            raise VitrailError(f'{where}: the model knows no class "{name}"{suggestion(name, labels)}')
    found = [labels.index(name) for name in classes]
    return None if found == list(range(len(labels))) else found


def coco_results(detections: Detections, images: Split, numbers: Sequence[int | None]) -> list[dict[str, Any]]:
    """[{"image_id", "category_id", "bbox": [x, y, width, height], "score"}], with the ids that the data's file has for images and classes,
    where it has any; the image's file beside them. `numbers`: of each class of the model in the data, if it is in it."""
    results = []
    for index, number, score, x0, y0, x1, y1 in detections.found.tolist():
        whole, place = origin(images, int(index))
        kind = numbers[int(number)]
        ids, kinds = (whole.ids, whole.kinds) if isinstance(whole, MarkedSplit) else (range(len(whole)), range(len(numbers)))
        results.append(
            {
                "image_id": ids[place],
                "category_id": None if kind is None else kinds[kind],
                "bbox": [round(value, 2) for value in (x0, y0, x1 - x0, y1 - y0)],
                "score": round(score, 6),
                "file_name": Path(images.name(int(index))).name,
            }
        )
    return results
