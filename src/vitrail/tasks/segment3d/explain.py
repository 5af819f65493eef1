"""Explaining labels of volumes: `vitrail explain` on a run that labels scans."""

from pathlib import Path
from typing import Any

from vitrail.data.class_colors import choose_colors
from vitrail.data.examples import spread
from vitrail.data.volumes.cases import prepare_scan
from vitrail.data.volumes.reading import open_volume
from vitrail.errors import VitrailError
from vitrail.explain.files import Done, Progress, check_out, check_target, each_file
from vitrail.explain.record import attention_layers, choose
from vitrail.explain.voxels import Voxel, label_volume, look_at_voxel, middle_of_largest
from vitrail.models.catalogue import count_parameters
from vitrail.models.folder import load
from vitrail.tasks.segment3d.data import classes_of, expand_volumes
from vitrail.tasks.segment3d.options import ExplainOptions
from vitrail.tasks.segment3d.voxel_page import ExplainedVolume, VoxelPage, write_voxels


def explain(run: str, inputs: list[str], options: ExplainOptions, *, progress: Progress = lambda done, total: None) -> Done:
    """index.html and its figures in a new folder: the labels of each scan, and what a place of it reads."""
    out, paths, model = check_out(options.out), expand_volumes(inputs), load(run).eval()
    labels = classes_of(model)
    target = check_target(options.target, labels)
    layer = None if options.layer is None else choose([options.layer], model.config.depth, "layer", "the encoder")[0]
    head = None if options.head is None else choose([options.head], model.config.heads, "head", "the encoder")[0]
    chosen = [paths[number] for number in spread(len(paths), options.limit)]
    errors: list[str] = []
    shown = each_file(
        chosen, lambda path: explain_scan(model, path, options.voxel, target=target), errors, progress, what="volume"
    )
    out.mkdir(parents=True, exist_ok=True)
    about = VoxelPage(
        title=f"{Path(run).name or run}: what its labels rest on",
        facts={
            "Model": f"{model.architecture}, {count_parameters(model):,} parameters",
            "It sees": f"{'×'.join(map(str, model.image_size))} voxels at a time",
            "Attention": f"{len(attention_layers(model))} layers of {model.config.heads} heads",
        },
        labels=labels,
        colors=choose_colors(labels),
        layer=layer,
        head=head,
        unread=errors,
    )
    page = write_voxels(shown, about, out)
    return Done(page=page, pictures=len(shown), found=len(paths), method="attention", errors=tuple(errors), what="volumes")


def explain_scan(model: Any, path: Path, voxel: Voxel | None, *, target: int | None) -> ExplainedVolume:
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
