"""Explaining labels of volumes: what is looked at in each scan. explain_page.py shows it."""

from itertools import chain
from pathlib import Path

from vitrail.data.class_colors import choose_colors
from vitrail.data.volumes.cases import prepare_scan
from vitrail.data.volumes.reading import open_volume
from vitrail.errors import VitrailError
from vitrail.explain.files import check_target
from vitrail.explain.record import attention_layers, choose
from vitrail.explain.samples import Samples
from vitrail.explain.voxels import Voxel, label_volume, look_at_voxel, middle_of_largest
from vitrail.models.catalogue import describe_architecture
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.report.explanation import Explanation, count_words, list_unread
from vitrail.tasks.segment3d.data import classes_of
from vitrail.tasks.segment3d.data import expand_volumes as find_samples
from vitrail.tasks.segment3d.explain_page import Choice, ExplainedVolume, show_volume
from vitrail.tasks.segment3d.options import ExplainOptions

__all__ = ["UNIT", "explain", "find_samples"]

UNIT = "volume"


def explain(model: VolumeSegmenter, samples: Samples[Path], options: ExplainOptions) -> Explanation:
    """The labels of each scan, and what a place of it reads."""
    labels = classes_of(model)
    target = check_target(options.target, labels)
    layer = None if options.layer is None else choose([options.layer], model.config.depth, "layer", "the encoder")[0]
    head = None if options.head is None else choose([options.head], model.config.heads, "head", "the encoder")[0]
    shown = list(samples.each(lambda path: explain_scan(model, path, options.voxel, target=target), fails=VitrailError))
    choice = Choice(labels, choose_colors(labels), layer, head)
    return Explanation(
        title="what its labels rest on",
        method="attention",
        details={
            "Model": describe_architecture(model),
            "It sees": f"{'×'.join(map(str, model.image_size))} voxels at a time",
            "Attention": f"{len(attention_layers(model))} layers of {model.config.heads} heads",
        },
        sections=chain(list_unread(samples.errors), (show_volume(number, one, choice) for number, one in enumerate(shown))),
        headline=lambda: f"{count_words(len(shown), 'volume')}, explained by attention",
    )


def explain_scan(model: VolumeSegmenter, path: Path, voxel: Voxel | None, *, target: int | None) -> ExplainedVolume:
    """The place is a voxel of the file, turned to RAS+; by default the middle of the largest part, of the class asked for."""
    file = open_volume(path)
    wanted = model.config.spacing
    volume = prepare_scan(file.read(), file.spacing, wanted=wanted, window=model.config.window)
    if voxel is not None and not all(0 <= at < side for at, side in zip(voxel, file.size, strict=True)):
        sides = " ".join(map(str, file.size))
        raise VitrailError(
            f"{path}: --voxel {' '.join(map(str, voxel))} is outside: the volume has {sides} voxels, counted from 0"
        )
    found = label_volume(model, volume)
    if voxel is None:
        place = middle_of_largest(found.classes, target)
    else:
        x, y, z = (at * new // old for at, new, old in zip(voxel, volume.shape, file.size, strict=True))
        place = (x, y, z)
    return ExplainedVolume(
        name=str(path),
        volume=volume,
        classes=found.classes,
        unsure=found.unsure,
        spacing=wanted or file.spacing,
        look=look_at_voxel(model, volume, place),
    )
