"""What methods of learning without labels share: images, a backbone, options without `auto`, scores. A method brings its model and its objective."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from vitrail.data.clean import open_clean_any
from vitrail.data.dataset import DataSet, Split
from vitrail.data.examples import read_some
from vitrail.data.image_source import Batch
from vitrail.data.transforms import normalize, to_unit
from vitrail.errors import VitrailError
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.backbones import NETWORKS, Pretrained, backbone_of
from vitrail.models.catalogue import count_parameters, create_model, model_config, rebuild
from vitrail.models.folder import load
from vitrail.models.markdown import literal
from vitrail.models.model import ImageModel, Model
from vitrail.preprocessing import Preprocessing
from vitrail.tasks.card import FOLDER, Card, use_python, use_shell
from vitrail.tasks.image_task import (
    SMALL,
    SMALL_DATA,
    ImageTask,
    choose_channels,
    choose_feeding,
    choose_parts,
    choose_recipe,
    choose_size,
    chosen_parts,
    clean_arguments,
    describe_data,
    image_loaders,
    known_options,
    measure_on,
    plain_loader,
    sample_images,
    small_patch,
)
from vitrail.tasks.options import from_recipe, has_option
from vitrail.tasks.registry import options_of
from vitrail.tasks.stages import Log, M, O, Opened, Opening, Resolved, Scored, Setup, Summary, X
from vitrail.tasks.task import count_splits, describe_recipe, model_name

SHOWN = 8  # images in a report


class PretrainingTask(ImageTask[O, DataSet, X, M]):
    """A method of `vitrail pretrain`. By default its model is a backbone, a classifier without classes, with something around it."""

    name: ClassVar[str]  # as --method has it
    learns: ClassVar[str]  # in words: "each masked patch from the visible ones"
    networks: ClassVar[tuple[str, ...]] = tuple(NETWORKS)  # architectures that --model and --weights may have
    least: ClassVar[int] = 2  # images per step that are chosen by itself
    use: ClassVar[tuple[str, ...]] = (  # of what was learned, on the card
        use_python(f'model = vt.load("{FOLDER}").backbone', "tokens = model.forward_features(images)"),
        use_shell(f"vitrail train --data images/ --weights {FOLDER}"),
    )

    # what a method brings

    def resolve_method(self, options: O, config: Any) -> Mapping[str, Any]:
        """What `auto` means for its own options, for a backbone of this config; and a VitrailError for what cannot be."""
        raise NotImplementedError

    def wrap(self, backbone: Any, options: O) -> M:
        """The model to train around a backbone, whose weights stay as they are."""
        raise NotImplementedError

    def describe_method(self, setup: Setup[O, DataSet, X]) -> Iterable[str]:
        """Lines before training about what is particular to this run."""
        return ()

    def choose_size(self, options: Any, data: DataSet) -> tuple[tuple[int, int], int]:
        """Size and channels of the images of a new model."""
        first = sample_images(data["train"])
        return choose_size(options.image_size, first), choose_channels(options.in_channels, first)

    def choose_model(self, size: tuple[int, int], images: int) -> str:
        """The name that `--model auto` stands for."""
        return choose_backbone(size, images)

    def check_network(self, architecture: str, *, what: str) -> None:
        if architecture not in self.networks:
            raise VitrailError(f"{what}: --method {self.name} takes a {' or '.join(self.networks)}, got a {architecture}")

    def start_from(self, model: Model, *, what: str) -> Model:
        """What of a loaded model is trained on."""
        return backbone_of(model, what=what)

    def restart(self, loaded: Any, options: Any) -> Any:
        """What --weights brought, with the options of this run."""
        model = rebuild(loaded, **self.own_options(options, loaded.config, ("drop_path",)))
        if model.num_classes:
            model.reset_classifier(0)
        return model

    def create(self, options: Any) -> Any:
        """A new backbone, whose preprocessing is not measured yet."""
        config, size, channels = model_config(options.model)[1], options.image_size, options.in_channels
        own = chosen_parts(options, config) | self.own_options(options, config, ("drop_path",))
        return create_model(options.model, num_classes=0, image_size=size, in_channels=channels, **own)

    def own_options(self, options: Any, config: Any, names: tuple[str, ...]) -> dict[str, Any]:
        return known_options(options, config, names, recipes=(self.recipes[options.recipe],), optional=("drop_path",))

    # what all methods do alike

    def open(self, options: Any, opening: Opening) -> Opened[DataSet]:
        data, bad = open_clean_any(opening.source, **clean_arguments(options, opening))
        return Opened(data=data, bad=bad)

    def load(self, options: O, log: Log) -> Model:
        what = f"--weights {options.weights}"
        found = self.start_from(load(str(options.weights)), what=what)
        self.check_network(found.architecture, what=what)
        return found

    def resolve(self, options: O, opened: Opened[DataSet], loaded: Any, resumed: Path | None) -> Resolved[O, DataSet, Any]:
        data, choices = opened.data, dict[str, Any]()
        if loaded is None:
            size, channels = self.choose_size(options, data)
            name = self.choose_model(size, len(data["train"])) if options.model == "auto" else options.model
            architecture, config = model_config(name)
            self.check_network(architecture, what=f"--model {name}")
            choices |= {"image_size": size, "in_channels": channels, "model": name}
            choices |= choose_parts(options, name, config) if has_option(options, "position") else {}
        else:
            size, channels, config = loaded.image_size, loaded.config.in_channels, loaded.config
        kind: str = options.recipe
        if kind == "auto":
            kind = choices["recipe"] = choose_recipe(len(data["train"]), pretrained=loaded is not None)
        recipe = self.recipes[kind]
        choices |= from_recipe(recipe, options)
        choices |= choose_feeding(options, data, recipe, (*size, channels), plain=kind == "plain", least=self.least)
        options = replace(options, **choices)
        options = replace(options, **self.resolve_method(options, config))
        return Resolved(options=options, data=data, extras=None, bad=opened.bad)

    def build(self, resolved: Resolved[O, DataSet, X], loaded: Any) -> M:
        """A new backbone with preprocessing measured on the training images, or the loaded one, inside the method's model."""
        options = resolved.options
        if loaded is not None:
            return self.wrap(self.restart(loaded, options), options)
        backbone = self.create(options)
        backbone.preprocessing = measure_on(resolved.data["train"], backbone.preprocessing)
        return self.wrap(backbone, options)

    def describe(self, setup: Setup[O, DataSet, X]) -> Iterable[str]:
        options, (height, width) = setup.options, setup.model.image_size
        yield from describe_data(setup.data, what=f"{count_splits(setup.data.splits)} images; labels are not learned from")
        yield f"model: {model_name(options)}: {describe_parameters(setup.model)}, images {height}x{width}"
        yield f"method: {self.name}: {self.learns}"
        yield from self.describe_method(setup)
        yield describe_recipe(options)

    def loaders(self, setup: Setup[O, DataSet, X], world: World) -> tuple[Batches, Batches]:
        assert setup.bad is not None
        return image_loaders(setup.options, setup.data, setup.model.preprocessing, setup.bad, world)

    def score(self, setup: Setup[O, DataSet, X], split: str, *, device: str, world: World) -> Scored[DataSet]:
        setup.model.to(device)
        objective = self.objective(setup, device=device, world=world)
        evaluation = objective.evaluate(plain_loader(setup, split, world).batches())
        return Scored(evaluation=evaluation, split=split, data=setup.data, model=setup.model)

    def summarize(self, setup: Setup[O, DataSet, X], scored: Scored[DataSet]) -> Summary:
        height, width = scored.model.image_size
        details = {
            "Method": f"{self.name}: {self.learns}",
            "Images": f"{height}x{width}, {count_splits(scored.data.splits)}",
        }
        return Summary(details=details)

    def card(self, model: M, facts: Mapping[str, Any]) -> Card:
        return Card(
            title="features learned without labels",
            about=[describe_learned(model)],
            use=[*self.use],
            limits=[
                "It has seen no label: what its features are good for shows when some are learned from (vitrail eval --protocol)."
            ],
        )

    def stored(self, model: M) -> O:
        found: O = options_of(self.name)(data="")
        return found


def choose_backbone(size: tuple[int, int], images: int) -> str:
    """Of patches, so that any method can have it."""
    if max(size) > SMALL:
        return "vit_tiny_patch16_224"
    return f"vit_{'nano' if images <= SMALL_DATA else 'micro'}_patch{small_patch(size)}_32"


def need_patches(config: Any, *, method: str, example: str) -> None:
    """What masks patches takes no model whose tokens see beyond them."""
    if getattr(config, "tokenizer", None) != "patch":
        raise VitrailError(
            f"--method {method} hides patches: it needs a Vision Transformer whose tokens are patches, such as {example}"
        )


def describe_parameters(model: Model) -> str:
    """How many a model has, and where it has a backbone, how many of them are in it."""
    every = count_parameters(model)
    if not isinstance(model, Pretrained):
        return f"{every:,} parameters"
    inside = count_parameters(model.backbone)
    return f"{inside:,} parameters and {every - inside:,} around it"


def describe_learned(model: Model) -> str:
    """Those without a backbone, such as a vocabulary of codes, are described by their size alone."""
    assert isinstance(model, ImageModel)
    height, width = model.image_size
    inside = (
        ""
        if not isinstance(model, Pretrained)
        else f", of which the backbone, a {literal(model.backbone.architecture)}, has {count_parameters(model.backbone):,}"
    )
    return (
        f"A model of the Vitrail library that learned by the method {literal(model.architecture)}, without labels: "
        f"{count_parameters(model):,} parameters{inside}; images of {height}x{width} with {model.config.in_channels} channel(s)."
    )


def feature_commands(run: str) -> dict[str, str]:
    """What to do with learned features: what it does -> a line for the shell. `run` is quoted."""
    return {
        "Continue with labels": f"vitrail train --data DIR --weights {run}",
        "What its features are good for": f"vitrail eval {run} --protocol knn,linear --labels 0.1,1",
        "Score it again": f"vitrail eval {run}",
    }


def some_images(split: Split, preprocessing: Preprocessing, count: int = SHOWN) -> Batch | None:
    """Evenly chosen images of a split for a report; those that cannot be read are left out, None if that is all of them."""
    some = read_some(split, preprocessing, count)
    if some is None:
        return None
    images = normalize(to_unit(some.images), preprocessing)
    return Batch(images, torch.from_numpy(split.labels[some.indices]), torch.tensor(some.indices))
