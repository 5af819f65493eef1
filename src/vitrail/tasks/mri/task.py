"""Reconstruction of accelerated MRI scans: k-space that was measured, or simulated from a volume or from images."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.data.examples import spread
from vitrail.data.loader import Loader
from vitrail.data.mri.opening import ScanData, is_measured, open_scans
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.training.world import World
from vitrail.models.catalogue import ARCHITECTURES, count_parameters, create_model, model_config, rebuild
from vitrail.models.reconstructor import NETWORKS, Reconstructor
from vitrail.records import from_record
from vitrail.tasks.card import Card
from vitrail.tasks.mri.card import describe_reconstructor
from vitrail.tasks.mri.data import (
    SCORED,
    ScanBatch,
    choose_slices,
    describe_sampling,
    sampling_of,
    scored_loader,
    training_loader,
)
from vitrail.tasks.mri.objective import COLUMNS, Reconstruct, ReconstructionScores
from vitrail.tasks.mri.options import FEW, RATES, RECIPES, Options
from vitrail.tasks.options import as_size, from_recipe
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import (
    Task,
    choose_parts,
    chosen_parts,
    count_splits,
    describe_recipe,
    load_that_takes,
    model_name,
    with_split,
)

SHOWN = 6  # slices in the report
State = Setup[Options, ScanData, None]


class Reconstruction(Task[Options, ScanData, None, Reconstructor]):
    unit = "slices"
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[ScanData]:
        """The run's own data is simulated and split as its options say, and --slices of it are learned from; other scans keep all slices,
        and measured ones their size."""
        size = as_size(options.image_size)
        if opening.split:
            data = open_scans(opening.source, seed=opening.seed, image_size=size, scalp=options.scalp)
            return Opened(data=with_split(data, "train", choose_slices(data.splits["train"], options.slices)))
        measured = is_measured(Path(opening.source).expanduser())
        return Opened(data=open_scans(opening.source, image_size=None if measured else size, divide=False))

    def load(self, options: Options, log: Log) -> Any:
        return load_that_takes("k-space", options.weights, cannot="does not read k-space")

    def resolve(
        self, options: Options, opened: Opened[ScanData], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, ScanData, None]:
        choices: dict[str, Any] = {}
        slices = len(opened.data.splits["train"])
        config = None if loaded is None else loaded.config
        if config is None:
            name = choices["model"] = "mri_vit_small" if options.model == "auto" else options.model
            architecture, config = model_config(name)
            if ARCHITECTURES[architecture].takes != "k-space":
                raise VitrailError(f"--model {name} does not read k-space; mri_vit_small does")
            choose_parts(options, name, restorer_of(config))  # refuses what its network has not
        kind: str = options.recipe
        if kind == "auto":
            by_slices = "tiny" if slices <= FEW else "small"
            kind = choices["recipe"] = by_slices if loaded is None else "finetune"
        recipe = RECIPES[kind]
        choices |= from_recipe(recipe, options)
        if options.lr is None:
            choices["lr"] = recipe["lr"] * RATES[config.network]
        if options.batch_size == "auto":
            choices["batch_size"] = min(recipe["batch_size"], slices)
        return Resolved(options=replace(options, **choices), data=opened.data, extras=None)

    def build(self, resolved: Resolved[Options, ScanData, None], loaded: Any) -> Any:
        """A new model, or the loaded one, whose weights are the same whatever is done about the measured lines."""
        options, kept = resolved.options, resolved.options.consistency
        if loaded is not None:
            return rebuild(loaded, consistency=kept)
        config = model_config(options.model)[1]
        settings = config.settings | chosen_parts(options, restorer_of(config))
        return create_model(options.model, consistency=kept, settings=settings)

    def describe(self, setup: State) -> Iterable[str]:
        options = setup.options
        yield f"data: {setup.data.name}: slices: {count_splits(setup.data.splits)}"
        yield from (f"note: {note}" for note in setup.data.notes)
        without = "; nothing is learned from fully measured scans" if options.objective == "equivariant" else ""
        yield f"method: {describe_sampling(sampling_of(options))}{without}"
        kept = {"none": "", "hard": ", measured lines kept", "sense": ", fitted to all measured lines"}[options.consistency]
        yield f"model: {model_name(options)}: {count_parameters(setup.model):,} parameters, {setup.model.config.network}{kept}"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> Reconstruct:
        options = setup.options
        return Reconstruct(setup.model, objective=options.objective, device=device, compiled=options.compile, world=world)

    def loaders(self, setup: State, world: World) -> tuple[Loader[ScanBatch], Loader[ScanBatch]]:
        """Training slices, shuffled, with new masks each time; validation slices with theirs."""
        splits, sampling = setup.data.splits, sampling_of(setup.options)
        return training_loader(setup.options, splits["train"], world), scored_loader(splits["val"], sampling, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[ScanData]:
        """Accelerated as in training, by the same masks each time."""
        slices = setup.data.splits[split]  # type: ignore[index]
        batch = SCORED if setup.evaluation is None else min(setup.evaluation.batch_size, SCORED)
        batches = scored_loader(slices, sampling_of(setup.options), world, batch=batch)
        objective = Reconstruct(setup.model.to(device), shown=spread(len(slices), SHOWN), device=device, world=world)
        found = objective.evaluate(batches.batches())
        return Scored(evaluation=found, split=split, data=setup.data, model=setup.model, extras=batches.source.names)

    def write_predictions(self, scored: Scored[ScanData], folder: Path) -> None:
        """A line per slice."""
        found, names = scores_of(scored), scored.extras
        scores = zip(found.indices.tolist(), found.rows.tolist(), strict=True)
        lines = ((names[index], *(f"{value:.6f}" for value in row)) for index, row in scores)
        write_table(folder / "predictions.csv", [("slice", *COLUMNS), *lines])

    def summarize(self, setup: State, scored: Scored[ScanData]) -> Summary:
        """With few slices `eval` prints a line for each."""
        found, names, lines = scores_of(scored), scored.extras, list[str]()
        if setup.evaluation is not None and len(scored.data.splits[scored.split]) <= SHOWN:  # type: ignore[index]
            pairs = zip(found.column("psnr_zero_filled"), found.column("psnr"), strict=True)
            for index, (before, after) in zip(found.indices.tolist(), pairs, strict=True):
                lines.append(f"{names[index]}: zero-filled {before:.2f} dB, reconstructed {after:.2f} dB")
        counts = {"Slices": count_splits(setup.data.splits)} if setup.evaluation is None else {}
        return Summary(
            details={**counts, "Scan": describe_sampling(sampling_of(setup.options))},
            certainty=describe_gain(found),
            lines=[*lines, describe_gain(found)],
        )

    def card(self, model: Reconstructor, facts: Mapping[str, Any]) -> Card:
        return describe_reconstructor(model)

    def stored(self, model: Reconstructor) -> Options:
        return Options(data="")


def scores_of(scored: Scored[Any]) -> ReconstructionScores:
    assert isinstance(scored.evaluation, ReconstructionScores)
    return scored.evaluation


def describe_gain(found: ReconstructionScores) -> str:
    metrics = found.metrics
    gain = metrics["psnr"] - metrics["psnr_zero_filled"]
    return (
        f"zero-filled {metrics['psnr_zero_filled']:.2f} dB, reconstructed {metrics['psnr']:.2f} dB ({gain:+.2f}) on "
        f"{len(found.rows):,} slices; SSIM {metrics['ssim_zero_filled']:.4f} to {metrics['ssim']:.4f}"
    )


def restorer_of(config: Any) -> Any:
    """The config of the network inside a reconstructor."""
    return from_record(NETWORKS[config.network].config, config.settings, what="settings")


TASK = Reconstruction()
