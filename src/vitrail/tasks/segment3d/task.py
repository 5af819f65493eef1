"""Labels for the voxels of volumes: scans in NIfTI files, each with a file of labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from vitrail.data.examples import spread
from vitrail.data.loader import Loader
from vitrail.data.volumes.opening import VolumeData, find_common_window, open_volumes
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.training.world import World
from vitrail.models.catalogue import ARCHITECTURES, build_model, count_parameters, create_model, model_config
from vitrail.models.volume_segmenter import VolumeSegmenter
from vitrail.tasks.card import Card
from vitrail.tasks.options import from_recipe
from vitrail.tasks.segment3d.card import describe_volumes
from vitrail.tasks.segment3d.data import (
    VolumeBatch,
    describe_bad_cases,
    list_bad_cases,
    match_classes,
    on_bad_case,
    scored_loader,
    training_loader,
)
from vitrail.tasks.segment3d.objective import Segment3d, VolumeScores, mean_of
from vitrail.tasks.segment3d.options import FEW, RECIPES, Options, three
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import Task, chosen_parts, count_splits, describe_recipe, load_that_takes, model_name

COARSE = 0.25  # overlap of windows, at most, where an epoch is to be chosen
SHOWN = 4  # volumes in the report
COLUMNS = ("case", "class", "dice", "surface_mm", "hausdorff95_mm", "found_ml", "truth_ml")
State = Setup[Options, VolumeData, None]


class VolumeSegmentation(Task[Options, VolumeData, None, VolumeSegmenter]):
    unit = "volumes"
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[VolumeData]:
        """Every file is read once, a resumed run's too: what cannot be read is known by that."""
        axis = options.split_axis if opening.split else None
        data = open_volumes(opening.source, seed=opening.seed, divide_axis=axis, divide=opening.split)
        return Opened(data=data, bad=list_bad_cases(data))

    def load(self, options: Options, log: Log) -> Any:
        return load_that_takes("volumes", options.weights, cannot="does not label volumes")

    def resolve(
        self, options: Options, opened: Opened[VolumeData], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, VolumeData, None]:
        data = opened.data
        choices = choose_new_model(options) if loaded is None else take_from_weights(options, loaded)
        if options.window_level is None:
            known = None if loaded is None else loaded.config.window
            choices["window_level"] = known or find_common_window(data.splits["train"])
        name: str = options.recipe
        if name == "auto":
            by_count = "tiny" if len(data.splits["train"]) <= FEW else "small"
            name = choices["recipe"] = by_count if loaded is None else "finetune"
        recipe = RECIPES[name]
        choices |= from_recipe(recipe, options, without=("lr",))
        if options.lr is None:
            choices["lr"] = recipe["lr"]
        if options.flip is None:
            choices["flip"] = False  # left and right are not the same in a body
        return Resolved(options=replace(options, **choices), data=data, extras=None, bad=opened.bad)

    def build(self, resolved: Resolved[Options, VolumeData, None], loaded: Any) -> Any:
        """A new model for the classes, or the loaded one; where its classes are others, with a new last layer."""
        options, data = resolved.options, resolved.data
        fields: dict[str, Any] = {
            "num_classes": len(data.values), "values": data.values, "spacing": options.spacing, "window": options.window_level,
            "image_size": options.crop, "largest": (),
        }  # fmt: skip
        if loaded is None:
            model = create_model(options.model, **fields, **chosen_parts(options, model_config(options.model)[1]))
        else:
            model = build_model(loaded.architecture, replace(loaded.config, **fields))
            weights, own = loaded.state_dict(), model.state_dict()
            model.load_state_dict(
                {name: weights[name] if weights[name].shape == own[name].shape else own[name] for name in own}
            )
        model.labels = data.classes
        return model

    def describe(self, setup: State) -> Iterable[str]:
        options, data = setup.options, setup.data
        yield f"data: {data.name}: volumes: {count_splits(data.splits)}; {', '.join(data.classes[:12])}"
        yield from (f"note: {note}" for note in (*data.notes, *describe_bad_cases(data)))
        assert options.crop is not None
        assert options.window_level is not None
        low, high = options.window_level
        edges = "kept" if options.spacing is None else " x ".join(f"{edge:g}" for edge in options.spacing)
        crop = " x ".join(map(str, options.crop))
        yield f"method: intensities {low:g} to {high:g} become 0 to 1, spacing {edges}, crops of {crop}"
        yield f"model: {model_name(options)}: {count_parameters(setup.model):,} parameters"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> Segment3d:
        options = setup.options
        assert options.label_smoothing != "auto"
        return Segment3d(
            setup.model,
            overlap=min(options.overlap, COARSE),
            smoothing=options.label_smoothing,
            device=device,
            compiled=options.compile,
            world=world,
        )

    def loaders(self, setup: State, world: World) -> tuple[Loader[VolumeBatch], Loader[VolumeBatch]]:
        """Crops of the training volumes, and whole validation volumes."""
        splits = setup.data.splits
        training = training_loader(setup.options, splits["train"], setup.model, setup.bad, world)
        return training, scored_loader(splits["val"], setup.model, world, on_bad=on_bad_case(setup.bad, "val"))

    def calibrate(self, setup: State, *, device: str, world: World) -> bool:
        """Of which classes only the largest part is kept: as --keep-largest says, or where validation gains by it [Isensee+ 2021]."""
        largest = choose_largest(setup, device=device, world=world)
        setup.model.config = replace(setup.model.config, largest=largest)
        return bool(largest)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[VolumeData]:
        """Of the files' own voxels, whatever spacing the model reads; distances of surfaces too."""
        cases = setup.data.splits[split]  # type: ignore[index]
        objective = Segment3d(
            setup.model.to(device),
            overlap=setup.options.overlap,
            distances=True,
            shown=spread(len(cases), SHOWN),
            device=device,
            world=world,
        )
        on_bad = on_bad_case(setup.bad, split) if setup.evaluation is None else None
        found = objective.evaluate(scored_loader(cases, setup.model, world, on_bad=on_bad).batches())
        return Scored(evaluation=found, split=split, data=setup.data, model=setup.model)

    def write_predictions(self, scored: Scored[VolumeData], folder: Path) -> None:
        """A line for each class of each volume."""
        found, cases = scores_of(scored), scored.data.splits[scored.split]  # type: ignore[index]
        parts = (found.dice, found.mean_distance, found.most_distance, found.found_ml, found.truth_ml)
        lines = (
            (
                cases[int(index)].name,
                name,
                *("" if np.isnan(part[row, number]) else f"{part[row, number]:.6f}" for part in parts),
            )
            for row, index in enumerate(found.indices)
            for number, name in enumerate(scored.data.classes)
            if number
        )
        write_table(folder / "predictions.csv", [COLUMNS, *lines])

    def summarize(self, setup: State, scored: Scored[VolumeData]) -> Summary:
        classes, training = scored.data.classes, setup.evaluation is None
        counts = {"Volumes": count_splits(setup.data.splits)} if training else {}
        return Summary(
            details={**counts, **describe_largest(scored.model, classes)},
            lines=[*([] if training else describe_bad_cases(scored.data)), *describe_classes(scores_of(scored), classes)],
        )

    def match(self, data: VolumeData, model: VolumeSegmenter, options: Options) -> VolumeData:
        return match_classes(data, model)

    def card(self, model: VolumeSegmenter, facts: Mapping[str, Any]) -> Card:
        return describe_volumes(model)

    def stored(self, model: VolumeSegmenter) -> Options:
        return Options(data="")


def choose_new_model(options: Options) -> dict[str, Any]:
    """Name, crop and spacing of a model without weights."""
    name = "unetr_micro" if options.model == "auto" else options.model
    architecture, config = model_config(name)
    if ARCHITECTURES[architecture].takes != "volumes":
        raise VitrailError(f"--model {name} does not label volumes; unetr_micro does")
    crop = three(options.crop) or config.image_size
    if any(side % config.patch for side in crop):
        raise VitrailError(
            f"--crop must be whole patches of {config.patch} voxels a side for {name}, got {' '.join(map(str, crop))}"
        )
    return {"model": name, "crop": crop, "spacing": three(options.spacing)}


def take_from_weights(options: Options, loaded: Any) -> dict[str, Any]:
    """Crop and spacing of the loaded model, which nobody may change."""
    choices = {"crop": loaded.image_size, "spacing": loaded.config.spacing}
    for name, own in choices.items():
        if three(getattr(options, name)) not in (None, own):
            asked, known = (" ".join(f"{number:g}" for number in given or ()) for given in (getattr(options, name), own))
            raise VitrailError(
                f"--{name} {asked}: --weights brings its own model, whose {name} is {known or 'that of each file'}"
            )
    return choices


def choose_largest(setup: State, *, device: str, world: World) -> tuple[int, ...]:
    """The classes of which only the largest part is kept."""
    every = tuple(range(1, setup.model.num_classes))
    if setup.options.keep_largest != "auto":
        return every if setup.options.keep_largest == "all" else ()
    whole, largest = (validate(setup, parts, device=device, world=world) for parts in ((), every))
    chosen = tuple(number for number in every if largest[number] > whole[number])
    for number in chosen:
        setup.log(
            f"{setup.data.classes[number]}: only the largest part is kept, which brings validation from a Dice of "
            f"{100 * whole[number]:.2f} to {100 * largest[number]:.2f} %"
        )
    return chosen


def validate(setup: State, largest: tuple[int, ...], *, device: str, world: World) -> Float[np.ndarray, "k"]:
    """Dice of each class on validation, the mean of the volumes that say something of it."""
    objective = Segment3d(setup.model.to(device), overlap=setup.options.overlap, largest=largest, device=device, world=world)
    cases = setup.data.splits["val"]
    batches = scored_loader(cases, setup.model, world, on_bad=on_bad_case(setup.bad, "val"))
    found = objective.evaluate(batches.batches())
    return np.array([mean_of(column[:, None], 0.0) for column in found.dice.T])


def scores_of(scored: Scored[Any]) -> VolumeScores:
    assert isinstance(scored.evaluation, VolumeScores)
    return scored.evaluation


def describe_largest(model: VolumeSegmenter, classes: Sequence[str]) -> dict[str, str]:
    """That of some classes only the largest part is kept, if so."""
    kept = [classes[number] for number in model.config.largest]
    return {"Only the largest part": "of each class" if len(kept) == len(classes) - 1 else ", ".join(kept)} if kept else {}


def describe_classes(found: VolumeScores, classes: Sequence[str]) -> list[str]:
    """A line for each class: means over the volumes that have it."""
    lines = []
    for number, name in enumerate(classes):
        scores = found.dice[:, number]
        if not number or not np.isfinite(scores).any():
            continue
        line = f"{name}: Dice {100 * np.nanmean(scores):.2f} %"
        if np.isfinite(found.mean_distance[:, number]).any():
            mean, most = np.nanmean(found.mean_distance[:, number]), np.nanmean(found.most_distance[:, number])
            line += f", surfaces {mean:.2f} mm apart, 95 % within {most:.2f} mm"
        lines.append(line)
    return lines


TASK = VolumeSegmentation()
