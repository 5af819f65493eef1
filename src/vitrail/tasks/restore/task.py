"""Restoring images: what is done to good images, and a model that undoes it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.data.clean import open_clean_unlabelled
from vitrail.data.dataset import DataSet
from vitrail.data.degradation import Degradation
from vitrail.data.examples import spread
from vitrail.data.loader import Loader, choose_workers
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.training.world import World
from vitrail.machine import spare_memory
from vitrail.models.catalogue import ARCHITECTURES, MODELS, count_parameters, create_model, model_config, rebuild
from vitrail.models.folder import load
from vitrail.models.restorer import Restorer
from vitrail.records import has_field
from vitrail.tasks.card import Card
from vitrail.tasks.image_task import ImageTask, describe_data, sample_images
from vitrail.tasks.options import from_recipe
from vitrail.tasks.restore.card import describe_damage, describe_restorer
from vitrail.tasks.restore.data import Pairs, WholePair, damage_of, restoring_loaders, scored_loader
from vitrail.tasks.restore.objective import COLUMNS, Restorations, Restore
from vitrail.tasks.restore.options import RECIPES, Options
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import choose_parts, chosen_parts, count_splits, describe_recipe, model_name

PATCH = 32  # pixels a side of what the model is given; with 8 of them a step it learns faster than with the paper's 48 (docs/log.md)
PER_EPOCH = 3200  # patches, at least
LOOKED_AT = 16  # images whose size is compared with a patch's
State = Setup[Options, DataSet, None]


class Restoration(ImageTask[Options, DataSet, None, Restorer]):
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[DataSet]:
        data, bad = open_clean_unlabelled(
            opening.source,
            seed=opening.seed,
            limit=options.bad_files,
            progress=opening.progress,
            known=opening.known_bad,
            known_copies=opening.known_copies,
            divide=opening.split,
        )
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        how, loaded = damage_of(options), load(str(options.weights))
        if not isinstance(loaded, Restorer):
            raise VitrailError(f"--weights {options.weights}: a model of the kind {loaded.architecture} restores no images")
        if loaded.scale != how.scale:
            raise VitrailError(
                f"--weights {options.weights}: a model that enlarges {loaded.scale} times; --degrade {how} needs {how.scale}"
            )
        return loaded

    def resolve(
        self, options: Options, opened: Opened[DataSet], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, DataSet, None]:
        data, how, choices = opened.data, damage_of(options), dict[str, Any]()
        train = data["train"]
        if loaded is None:
            name = choices["model"] = choose_restorer(how) if options.model == "auto" else options.model
            config = check_restorer(name, how, chosen=options.model == "auto")
            if options.in_channels == "auto":  # a model of gray images is one, whatever the images are
                gray = config.in_channels == 1 or all(image.mode == "L" for image in sample_images(train))
                choices["in_channels"] = 1 if gray else 3
            choices |= choose_parts(options, name, config)
        kind = options.recipe
        if kind == "auto":
            kind = choices["recipe"] = "small" if loaded is None else "finetune"
        recipe = RECIPES[kind]
        choices |= from_recipe(recipe, options, without=("lr",))
        if options.lr is None:
            choices["lr"] = recipe["lr"]
        if options.flip is None:
            choices["flip"] = kind != "plain"
        if options.patch_size == "auto":
            choices["patch_size"] = PATCH
        if options.patches == "auto":
            choices["patches"] = -(-PER_EPOCH // len(train))
        cache = choices["cache"] = "memory" if options.cache == "auto" else options.cache
        if options.cache_gb == "auto":
            choices["cache_gb"] = round(spare_memory() / 4 / 2**30, 3)
        if options.workers == "auto":  # from memory a patch takes less than sending it to another process does
            choices["workers"] = choose_workers(train) if how.kind == "real" or cache == "off" else 0
        return Resolved(options=replace(options, **choices), data=data, extras=None, bad=opened.bad)

    def build(self, resolved: Resolved[Options, DataSet, None], loaded: Any) -> Any:
        """A new model for the damage, or the loaded one."""
        options, how = resolved.options, damage_of(resolved.options)
        if loaded is not None:
            return rebuild(loaded, degradation=str(how))
        config, channels = model_config(options.model)[1], options.in_channels
        parts = chosen_parts(options, config)
        return create_model(
            options.model, scale=how.scale, in_channels=channels, out_channels=channels, degradation=str(how), **parts
        )

    def describe(self, setup: State) -> Iterable[str]:
        options, data, patch = setup.options, setup.data, setup.options.patch_size
        assert patch != "auto"
        kind = f"{options.degrade}: a model that {describe_damage(options.degrade)}"
        yield from describe_data(data, what=f"{count_splits(data.splits)} images; {kind}")
        channels = "gray" if setup.model.config.in_channels == 1 else "color"
        yield (
            f"model: {model_name(options)}: {count_parameters(setup.model):,} parameters, {channels}; patches of {patch}x{patch}, "
            f"{options.patches} of each image per epoch"
        )
        smallest = min(min(data["train"].read(index).size) for index in spread(len(data["train"]), LOOKED_AT))
        true = patch * damage_of(options).scale
        if smallest < true:
            yield f"note: an image of {smallest} pixels a side is smaller than a patch of {true}; mirrored, it fills one"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> Restore:
        return Restore(setup.model, damage_of(setup.options), device=device, compiled=setup.options.compile, world=world)

    def loaders(self, setup: State, world: World) -> tuple[Loader[Pairs], Loader[WholePair]]:
        assert setup.bad is not None
        return restoring_loaders(setup.options, setup.data, setup.model.config.in_channels, setup.bad, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[DataSet]:
        """Every image of a split, whole, with the same damage each time."""
        options, how = setup.options, damage_of(setup.options)
        workers: Any = options.workers if setup.evaluation is None else getattr(setup.evaluation, "workers", "auto")
        assert setup.bad is not None
        batches = scored_loader(
            setup.data.splits[split],  # type: ignore[index]
            how,
            channels=setup.model.config.in_channels,
            seed=options.seed,
            workers=0 if workers == "auto" else workers,
            bad=setup.bad,
            split=split,
            world=world,
        )
        found = Restore(setup.model.to(device), how, device=device, world=world).evaluate(batches.batches())
        if setup.evaluation is not None and not len(found.rows):
            raise VitrailError(f"{setup.name}: no image of {split} could be scored")
        return Scored(evaluation=found, split=split, data=setup.data, model=setup.model)

    def write_predictions(self, scored: Scored[DataSet], folder: Path) -> None:
        """A line per image."""
        found, images = restorations_of(scored), scored.data.splits[scored.split]  # type: ignore[index]
        lines = (
            (images.name(index), *(f"{value:.6g}" for value in row))
            for index, row in zip(found.indices.tolist(), found.rows, strict=True)
        )
        write_table(folder / "predictions.csv", [("picture", *COLUMNS), *lines])

    def summarize(self, setup: State, scored: Scored[DataSet]) -> Summary:
        gain = describe_gain(scored.metrics, damage_of(setup.options))
        if setup.evaluation is not None:
            return Summary(certainty=gain)
        return Summary(details={"Images": count_splits(setup.data.splits)}, certainty=gain, lines=[gain])

    def match(self, data: DataSet, model: Restorer, options: Options) -> DataSet:
        """The damage must be one that the model can undo."""
        if options.degrade is None:
            raise VitrailError("this model does not say what it learned to undo; give --degrade")
        how = damage_of(options)
        if how.scale != model.scale:
            raise VitrailError(
                f"--degrade {how} makes images {how.scale} times smaller; the model enlarges them {model.scale} times"
            )
        return data

    def card(self, model: Restorer, facts: Mapping[str, Any]) -> Card:
        return describe_restorer(model)

    def stored(self, model: Restorer) -> Options:
        return Options(data="", degrade=model.config.degradation)


def choose_restorer(how: Degradation) -> str:
    return "swinir_nano" if how.scale == 1 else f"swinir_nano_x{min(how.scale, 4)}"


def check_restorer(name: str, how: Degradation, *, chosen: bool) -> Any:
    """The config of a name, if its model can undo this. One that enlarges inside has its scale in its name; the others enlarge their
    input first, by whatever is asked for."""
    architecture, config = model_config(name)
    if ARCHITECTURES[architecture].takes != "restoration":
        raise VitrailError(f"--model {name} restores no images; {choose_restorer(how)} does")
    inside = has_field(config, "upsampler")
    if inside and config.scale != how.scale and not chosen:
        base = name.rsplit("_x", 1)[0]
        other = next((word for word in (f"{base}_x{how.scale}", base) if fits(word, how)), choose_restorer(how))
        raise VitrailError(f"--model {name} enlarges {config.scale} times, --degrade {how} needs {how.scale}: {other} does")
    return config


def fits(name: str, how: Degradation) -> bool:
    return name in MODELS and MODELS[name][1].scale == how.scale


def restorations_of(scored: Scored[Any]) -> Restorations:
    assert isinstance(scored.evaluation, Restorations)
    return scored.evaluation


def describe_gain(metrics: Mapping[str, float], how: Degradation) -> str:
    """What there was before the model, in the same measure."""
    before = "bicubic" if how.scale > 1 else "given"
    return f"{before} {metrics['psnr_given']:.2f} dB, {metrics['psnr'] - metrics['psnr_given']:+.2f} dB by the model"


TASK = Restoration()
