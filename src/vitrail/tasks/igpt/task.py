"""Image GPT: predict pixels, one after the other, as colors of a palette  [Chen+ 2020]."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.data.bad_files import BadFile
from vitrail.data.clean import open_clean
from vitrail.data.dataset import DataSet, Part, Split
from vitrail.data.examples import spread
from vitrail.data.image_source import Batch, image_loader
from vitrail.data.images import ImageError
from vitrail.data.loader import Loader
from vitrail.data.palette import Palette, learn_palette, some_images
from vitrail.errors import VitrailError
from vitrail.explain.probe import Labelled, Probe, layer_features, probe_layers
from vitrail.files import write_whole
from vitrail.learn.training.world import World
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild
from vitrail.models.igpt import ImageGPT
from vitrail.models.model import Model
from vitrail.preprocessing import neutral
from vitrail.tasks.card import FOLDER, Card, describe_words, use_python, use_shell, word_limits
from vitrail.tasks.igpt.objective import PixelModeling
from vitrail.tasks.igpt.options import RECIPES, Options
from vitrail.tasks.image_task import clean_arguments, describe_data, image_loaders
from vitrail.tasks.pretraining import PretrainingTask
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import chosen_parts, count_splits, describe_recipe, model_name

MOST_PIXELS = 256  # of the size that is chosen by itself: attention costs the square of it
FEW_PIXELS = 100  # up to which the smallest model is chosen
PROBED = 5000  # images of each split that a probe reads
PROBE = "probe.json"


@dataclass(frozen=True, kw_only=True)
class LearnedPalette:
    """The colors, and how far the training images are from them: the mean squared difference, of 255 levels."""

    palette: Palette
    error: float

    def __str__(self) -> str:
        error = "exact" if self.error == 0 else f"off by {self.error**0.5:.1f} of 255 levels (root mean square)"
        return f"{len(self.palette)} colors, {error}"


State = Setup[Options, DataSet, LearnedPalette]


class PixelPrediction(PretrainingTask[Options, LearnedPalette, ImageGPT]):
    name = "igpt"
    learns = "each pixel from those before it"
    networks = ("igpt",)
    least = 1
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[DataSet]:
        data, bad = open_clean(opening.source, **clean_arguments(options, opening))
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        loaded = super().load(options, log)
        if options.colors not in ("auto", loaded.vocabulary):
            raise VitrailError(
                f"--weights brings a palette of {loaded.vocabulary} colors: --colors {options.colors} cannot be had"
            )
        return loaded

    def start_from(self, model: Model, *, what: str) -> Model:
        if not isinstance(model, ImageGPT):
            raise VitrailError(f"{what}: a model of the kind {model.architecture} does not learn from pixels")
        return model

    def check_network(self, architecture: str, *, what: str) -> None:
        if architecture not in self.networks:
            raise VitrailError(f"{what} does not learn from pixels; igpt_nano does")

    def choose_size(self, options: Options, data: DataSet) -> tuple[tuple[int, int], int]:
        size, channels = super().choose_size(options, data)
        return (16, 16) if options.image_size is None and size[0] * size[1] > MOST_PIXELS else size, channels

    def choose_model(self, size: tuple[int, int], images: int) -> str:
        return "igpt_nano" if size[0] * size[1] <= FEW_PIXELS else "igpt_micro"

    def resolve(
        self, options: Options, opened: Opened[DataSet], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, DataSet, LearnedPalette]:
        """The palette is learned here, by a generator of its own; `colors` is then as many as it has."""
        if loaded is not None and options.masked and loaded.config.causal:
            raise VitrailError("--weights brings its own model, which is causal: --masked cannot be given beside it")
        found = super().resolve(options, opened, loaded, resumed)
        learned = find_palette(found.options, found.data, loaded)
        return replace(found, options=replace(found.options, colors=len(learned.palette)), extras=learned)

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {} if options.weights is None else {"masked": not config.causal}
        if options.colors == "auto":
            chosen["colors"] = config.colors
        if options.dropout == "auto":
            chosen["dropout"] = 0.0 if options.recipe == "plain" else config.dropout
        return chosen

    def build(self, resolved: Resolved[Options, DataSet, LearnedPalette], loaded: Any) -> Any:
        """A new model over the palette, or the loaded one with its own."""
        options, palette = resolved.options, resolved.extras.palette
        if loaded is not None:
            return rebuild(loaded, dropout=options.dropout)
        model = create_model(
            options.model,
            colors=len(palette),
            image_size=options.image_size,
            in_channels=options.in_channels,
            causal=not options.masked,
            dropout=options.dropout,
            **chosen_parts(options, model_config(options.model)[1]),
        )
        model.palette.copy_(torch.from_numpy(palette.colors))
        return model

    def describe(self, setup: State) -> Iterable[str]:
        options, model = setup.options, setup.model
        height, width = model.image_size
        yield from describe_data(setup.data, what=f"{count_splits(setup.data.splits)} images; labels are not learned from")
        kind = "each pixel from those before it" if model.config.causal else "masked pixels from all others"
        parameters = f"{count_parameters(model):,} parameters"
        yield f"model: {model_name(options)}: {parameters}, {height * width} pixels per image, {kind}"
        yield f"palette of {setup.extras}"
        yield describe_recipe(options)

    def objective(self, setup: State, *, device: str, world: World) -> PixelModeling:
        options = setup.options
        return PixelModeling(setup.model, seed=options.seed, device=device, compiled=options.compile, world=world)

    def loaders(self, setup: State, world: World) -> tuple[Loader[Any], Loader[Any]]:
        assert setup.bad is not None
        options = setup.options
        return image_loaders(
            options,
            setup.data,
            setup.model.preprocessing,
            setup.bad,
            world,
            repeats=options.repeats,
            classes=len(setup.data.classes),
        )

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[DataSet]:
        plain = replace(setup, options=replace(setup.options, compile=False))
        return super().score(plain, split, device=device, world=world)

    def after_training(self, setup: State, scored: Scored[DataSet], folder: Path) -> Scored[DataSet]:
        """What a linear classifier reads from each layer, in probe.json too."""
        probe = probe_model(setup, device=str(next(scored.model.parameters()).device))
        record = {"probe": {"test": probe.test, "validation": probe.validation}} if isinstance(probe, Probe) else {}
        write_whole(folder / PROBE, json.dumps(record, indent=2) + "\n")
        more = {"probe_accuracy": probe.test[probe.best]} if isinstance(probe, Probe) else {}
        return replace(scored, extras=probe, more=more)

    def card(self, model: ImageGPT, facts: Mapping[str, Any]) -> Card:
        return Card(
            title="image GPT",
            about=[*describe_words(model, facts)],
            use=[
                use_python(f'model = vt.load("{FOLDER}")'),
                # one that is not causal fills in masked pixels, and draws nothing
                *([use_shell(f"vitrail complete {FOLDER} image.png --out finished/")] if model.config.causal else []),
            ],
            limits=word_limits(model),
        )

    def summarize(self, setup: State, scored: Scored[DataSet]) -> Summary:
        summary, colors = super().summarize(setup, scored), scored.model.vocabulary
        details = {**summary.details, "Guessing": f"{100 / colors:.1f} % per color, {np.log2(colors):.2f} bits per pixel"}
        if setup.extras is not None:
            details["Palette"] = str(setup.extras)
        probe = scored.extras
        return replace(summary, details=details, lines=[describe_probe(probe)] if isinstance(probe, Probe) else [])


def find_palette(options: Options, data: DataSet, loaded: Any) -> LearnedPalette:
    """Of the training images, or that of the loaded model."""
    if loaded is not None:
        images = some_images(data["train"], loaded.preprocessing, seed=options.seed)
        palette = Palette(loaded.palette.cpu().numpy())
        return LearnedPalette(palette=palette, error=palette.error(images))
    assert options.image_size is not None
    assert options.in_channels != "auto"
    assert options.colors != "auto"
    size = (options.image_size[0], options.image_size[-1])
    images = some_images(data["train"], neutral(size, options.in_channels), seed=options.seed)
    palette = learn_palette(images, options.colors, seed=options.seed)
    if len(palette) < 2:
        raise VitrailError(f"{data.name}: all training images have one color only; there is nothing to learn")
    return LearnedPalette(palette=palette, error=palette.error(images))


def probe_model(setup: State, *, device: str) -> Probe | str:
    """What a linear classifier reads from each layer; or why there is nothing to read."""
    data, model = setup.data, setup.model
    if data.multi_label:
        return "an image of this data may have several labels, and the probe reads one"
    if len(data.classes) < 2:
        return "the data has no labels to tell apart"
    objective = PixelModeling(model, seed=setup.options.seed, device=device)
    model.eval()
    splits: dict[Any, Labelled] = {}
    for name in ("train", "val", "test"):
        split: Split = data[name]
        chosen = np.array(spread(len(split), PROBED), dtype=np.int64)
        features, labels = [], []
        for batch in probe_loader(setup, Part(split, chosen)).batches():
            features.append(layer_features(model, [objective.encode(batch.images)]))
            labels.append(batch.labels)
        splits[name] = Labelled(torch.cat(features, dim=1), torch.cat(labels))
    return probe_layers(splits, len(data.classes))


def probe_loader(setup: State, split: Split) -> Loader[Batch]:
    options = setup.options

    def note(error: ImageError) -> None:
        if setup.bad is not None:
            setup.bad.add(BadFile(error.name, "", error.reason, "during"))

    assert options.batch_size != "auto"
    assert options.workers != "auto"
    return image_loader(split, setup.model.preprocessing, batch=options.batch_size, workers=options.workers, on_bad=note)


def describe_probe(probe: Probe) -> str:
    shares = ", ".join(f"{100 * share:.1f}" for share in probe.test)
    return f"linear probe on test, % by block: {shares} (the largest class: {100 * probe.chance:.1f})"


TASK = PixelPrediction()
