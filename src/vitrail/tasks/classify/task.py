"""Image classification: one label per image, or any number of labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.bad_files import BadFile
from vitrail.data.clean import open_clean
from vitrail.data.dataset import DataSet, Split
from vitrail.data.images import ImageError
from vitrail.data.label_share import keep_share
from vitrail.data.loader import Loader, choose_workers
from vitrail.data.splitting import Fold
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.optim.groups import first_parameters
from vitrail.learn.training.world import World
from vitrail.machine import choose_precision
from vitrail.models.catalogue import ARCHITECTURES, create_model, model_config, rebuild, rebuild_merging
from vitrail.models.classifier import Classifier
from vitrail.models.convert.peft import FOLDER
from vitrail.models.lora import add_lora, describe_lora
from vitrail.models.packing import check_norms
from vitrail.models.vit import VisionTransformer
from vitrail.preprocessing import Fit
from vitrail.tasks.blocks import check_shard
from vitrail.tasks.card import Card
from vitrail.tasks.classify.card import describe_classifier
from vitrail.tasks.classify.data import (
    balancing_weights,
    class_loaders,
    leave_out_names,
    loader_for,
    match_labels,
)
from vitrail.tasks.classify.distillation import (
    Taught,
    check_teaching,
    describe_taught,
    describe_teacher,
    distillation_of,
    find_teacher,
    resolve_distillation,
)
from vitrail.tasks.classify.doubted import WRONG_LABELS, DoubtedLabels, find_doubted, measure_agreement
from vitrail.tasks.classify.objective import Classify, Predictions
from vitrail.tasks.classify.options import LORA, RECIPES, Options, recipe_for
from vitrail.tasks.image_task import (
    SMALL,
    SMALL_DATA,
    ImageTask,
    are_photographs,
    choose_channels,
    choose_feeding,
    choose_parts,
    choose_recipe,
    choose_size,
    chosen_parts,
    clean_arguments,
    describe_data,
    describe_faults,
    describe_model,
    describe_weights,
    known_options,
    load_encoder,
    measure_on,
    sample_images,
    small_patch,
)
from vitrail.tasks.options import from_recipe
from vitrail.tasks.stages import Baseline, Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import count_splits, describe_recipe, with_split

SMALLEST_BATCH = 2  # images of an automatic batch at least: of a dozen images, too
MANY = 100_000  # images, beyond which a plain ViT is chosen
FROM_SCRATCH = "vit_micro_hybrid"  # of fewer photographs
SCRATCH_SIDE = 96  # pixels, the largest at which it learns them (docs/log.md has the trials)
OF_RECIPE = ("drop_path", "token_keep")  # options of a recipe that are the model's to follow
State = Setup[Options, DataSet, Taught | None]


class Classification(ImageTask[Options, DataSet, Taught | None, Classifier]):
    recipes = RECIPES
    by_machine = True

    def open(self, options: Options, opening: Opening) -> Opened[DataSet]:
        fold = None if options.folds is None else Fold(count=options.folds, number=options.fold)
        data, bad = open_clean(opening.source, val_share=options.val_split, fold=fold, **clean_arguments(options, opening))
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        return load_encoder(options, log)

    def resolve(
        self, options: Options, opened: Opened[DataSet], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, DataSet, Taught | None]:
        data = keep_share(opened.data, options.labels, seed=options.seed)
        teacher = find_teacher(options, data, resumed=resumed is not None)
        choices: dict[str, Any] = {**resolve_distillation(options)}
        if loaded is None:
            choices |= choose_new_model(options, data)
            size, channels = choices["image_size"], choices["in_channels"]
        else:
            size, channels = loaded.image_size, loaded.config.in_channels
        name: str = options.recipe
        if name == "auto":
            name = choices["recipe"] = choose_recipe(len(data["train"]), pretrained=loaded is not None)
        recipe = recipe_for(name, size=size, channels=channels, stem=loaded is not None and has_stem(loaded))
        if options.lora is not None:
            recipe = {**recipe, **LORA}
        choices |= from_recipe(recipe, options)
        if options.pack:  # a recipe's wishes give way
            choices |= {"mixup": 0.0, "cutmix": 0.0, "progressive": 1.0}
        if loaded is None and options.probe not in ("auto", 0):
            raise VitrailError(f"--probe {options.probe}: a new encoder has nothing for the head to learn from; give --weights")
        if options.pack or loaded is None or teacher is not None or options.freeze == "encoder":
            choices["probe"] = 0.0
        if options.shard and choices.get("optimizer") == "muon":  # which needs whole matrices; its learning rates are AdamW's
            choices["optimizer"] = "adamw"
        least = min(SMALLEST_BATCH, len(data["train"]))
        choices |= choose_feeding(options, data, recipe, (*size, channels), plain=name == "plain", least=least)
        if options.precision == "auto" and are_photographs(options.data, size, channels):
            choices["precision"] = choose_precision(options.device)
        options = replace(options, **choices)
        check_shard(options)  # a recipe has wishes too
        return Resolved(options=options, data=data, extras=teacher, bad=opened.bad)

    def build(self, resolved: Resolved[Options, DataSet, Taught | None], loaded: Any) -> Any:
        """A new model with preprocessing measured on the training images, or the loaded one with a head that fits."""
        options, data = resolved.options, resolved.data
        if loaded is not None:
            model = rebuild_merging(rebuild(loaded, **own_options(options, loaded.config, OF_RECIPE)), options.merge)
            model.labels = loaded.labels
            if model.labels != data.classes:
                model.reset_classifier(len(data.classes), labels=data.classes)
            model.multi_label = data.multi_label
            model.preprocessing = replace(model.preprocessing, fit=choose_fit(options, model))
            if options.freeze == "encoder":
                model.freeze_encoder()
            elif options.freeze != "none":
                model.freeze_parameters(first_parameters(model, options.freeze))
            if options.lora is not None:
                add_lora(model, options.lora, targets=options.lora_targets, alpha=options.lora_alpha, dora=options.dora)
        else:
            config = model_config(options.model)[1]
            merging: dict[str, Any] = {} if options.merge is None else {"merge": options.merge}
            model = create_model(
                options.model,
                num_classes=len(data.classes),
                image_size=options.image_size,
                in_channels=options.in_channels,
                **merging,
                **chosen_parts(options, config),
                **own_options(options, config, OF_RECIPE),
            )
            model.labels, model.multi_label = data.classes, data.multi_label
            fit = choose_fit(options, model)
            model.preprocessing = replace(measure_on(data["train"], model.preprocessing), fit=fit)
        check_teaching(options, model)
        return model

    def describe(self, setup: State) -> Iterable[str]:
        options, data, model = setup.options, setup.data, setup.model
        yield from describe_data(data, what=f"{len(data.classes)} classes, {count_splits(data.splits)}")
        yield from describe_faults(data, Path(options.data).expanduser())
        yield describe_weights(setup)
        learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        frozen = f", of which {learning:,} learn" if options.freeze != "none" else ""
        yield describe_model(setup, more=frozen) + (", or as many pixels in their own aspect" if options.pack else "")
        if options.lora is not None:
            yield describe_lora(model, options.lora_targets, rank=options.lora, dora=options.dora)
        if setup.extras is not None:
            yield describe_teacher(options, setup.extras)
        yield describe_recipe(options)

    def plan(self, setup: State) -> Mapping[str, Any]:
        options = setup.options
        last = options.folds is not None and options.fold is None  # of all images, which leave none to choose an epoch by
        multiple = setup.model.size_multiple
        return {"progressive": options.progressive, "probe": options.probe, "multiple": multiple, "keep_last": last}

    def rate_before_test(self, setup: State) -> float:
        return super().rate_before_test(setup) if setup.options.lora is None else float(LORA["lr"])

    def objective(self, setup: State, *, device: str, world: World) -> Classify:
        options, taught = setup.options, setup.extras
        assert options.label_smoothing != "auto"
        assert options.probe != "auto"
        return Classify(
            setup.model,
            smoothing=options.label_smoothing,
            weights=balancing_weights(setup.data) if options.balance == "weights" else None,
            multi_label=setup.data.multi_label,
            device=device,
            compiled=options.compile,
            world=world,
            teacher=None if taught is None else taught.make(setup.model, device=device),
            distillation=None if taught is None else distillation_of(options),
            probe=options.probe,
        )

    def loaders(self, setup: State, world: World) -> tuple[Loader[Any], Loader[Any]]:
        assert setup.bad is not None
        return class_loaders(setup.options, setup.data, setup.model, setup.bad, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[DataSet]:
        """The predictions, beside those of a teacher, who sees the same images, each prepared as it needs them."""
        merge = getattr(setup.evaluation, "merge", None)
        model = setup.model if merge is None else rebuild_merging(setup.model, merge)
        predictions, data = predict_split(replace(setup, model=model), split, device=device, world=world)
        if (taught := setup.extras) is not None:
            of_teacher, seen = predict_split(replace(setup, model=taught.model), split, device=device, world=world)
            if len(seen.splits[split]) == len(data.splits[split]):  # else an image has become unreadable between the two
                predictions = replace(predictions, teacher=of_teacher.logits[:, list(taught.columns)])
        return Scored(evaluation=predictions, split=split, data=data, model=model)

    def after_training(self, setup: State, scored: Scored[DataSet], folder: Path) -> Scored[DataSet]:
        """Labels that the best model contradicts, among validation and test images."""
        found = {scored.split: predictions_of(scored)}
        if found[scored.split].multi_label:
            return scored
        splits: dict[str, Split] = {scored.split: scored.data.splits[scored.split]}  # type: ignore[index]
        if scored.split != "val":
            found["val"], data = predict_split(setup, "val", device=setup.options.device, world=World())
            splits["val"] = data.splits["val"]
        doubted = DoubtedLabels(
            found=find_doubted(found, splits, scored.data.classes),
            splits=splits,
            path=folder / WRONG_LABELS,
            agreement=measure_agreement(found),
        )
        doubted.write()
        return replace(scored, extras=doubted)

    def write_predictions(self, scored: Scored[DataSet], folder: Path) -> None:
        """A line per image: its label, the prediction and its probability; with several labels, the probability of each."""
        found, split, labels = predictions_of(scored), scored.data[scored.split], scored.data.classes  # type: ignore[index]
        names = np.array(labels, dtype=object)
        probabilities = found.probabilities
        if found.multi_label:
            rows: list[list[object]] = [["picture", "truth", "predicted", *labels]]
            for index, (truth, decided) in enumerate(zip(found.truth, found.decisions, strict=True)):
                words = ("|".join(names[truth]), "|".join(names[decided]))
                rows.append([split.name(index), *words, *(f"{share:.6f}" for share in probabilities[index])])
        else:
            rows = [["picture", "truth", "predicted", "confidence"]]
            for index, (label, best) in enumerate(zip(found.truth, probabilities.argmax(axis=1), strict=True)):
                rows.append([split.name(index), names[label], names[best], f"{probabilities[index, best]:.6f}"])
        write_table(folder / "predictions.csv", rows)

    def summarize(self, setup: State, scored: Scored[DataSet]) -> Summary:
        options, found, taught = setup.options, predictions_of(scored), setup.extras
        height, width = scored.model.image_size
        count = len(found.truth)
        low, high = interval = found.interval if count else (float("nan"), float("nan"))
        certainty = f"95 % interval {100 * low:.2f} to {100 * high:.2f} %, by bootstrap over {count:,} images" if count else ""
        if low == high:  # it knows only what happened: a width of 0 would promise too much
            certainty = f"no interval by bootstrap: all {count:,} images came out alike"
        details = {"Images": f"{height}x{width}, {count_splits(scored.data.splits)}"}
        if setup.evaluation is None and options.labels != 1:
            details["Labels"] = f"{100 * options.labels:g} % of every class of the training images"
        if setup.evaluation is None and options.lora is not None:
            on = ", ".join(options.lora_targets)
            details["Adapters"] = f"{'DoRA' if options.dora else 'LoRA'} of rank {options.lora} on {on}: best/{FOLDER}"
        if taught is not None:
            details["Teacher"] = describe_taught(options, taught, scored.metrics)
        doubts = scored.extras.describe() if isinstance(scored.extras, DoubtedLabels) else ()
        return Summary(
            details=details,
            interval=interval if count else None,
            baseline=find_baseline(found, scored.data.classes) if count else None,
            constant=find_constant(found, scored.data.classes),
            certainty=certainty,
            lines=[certainty, *([] if taught is None else [f"teacher: {details['Teacher']}"]), *doubts],
            card={} if taught is None else {"teacher": details["Teacher"]},
        )

    def match(self, data: DataSet, model: Classifier, options: Options) -> DataSet:
        return match_labels(data, model)

    def card(self, model: Classifier, facts: Mapping[str, Any]) -> Card:
        return describe_classifier(model)

    def stored(self, model: Classifier) -> Options:
        return Options(data="", image_size=model.image_size, in_channels=model.config.in_channels)


def find_baseline(found: Predictions, labels: Sequence[str]) -> Baseline:
    """The share of the commonest class; of several labels, the mean share of images that have one."""
    shares = (
        found.truth.mean(axis=0) if found.multi_label else np.bincount(found.truth, minlength=len(labels)) / len(found.truth)
    )
    if found.multi_label:
        return Baseline(float(shares[shares > 0].mean()) if shares.any() else 0.0, "ordering images at random")
    return Baseline(float(shares.max()), f"always naming {labels[int(shares.argmax())]}")


def find_constant(found: Predictions, labels: Sequence[str]) -> str:
    """The class that alone was predicted, of images of several."""
    if found.multi_label or len(np.unique(found.truth)) < 2:
        return ""
    predicted = np.unique(found.logits.argmax(axis=1))
    return labels[int(predicted[0])] if len(predicted) == 1 else ""


def choose_new_model(options: Options, data: DataSet) -> dict[str, Any]:
    """Size, channels, name and parts of a model for images without weights."""
    first = sample_images(data["train"])
    size, channels = choose_size(options.image_size, first, pack=options.pack), choose_channels(options.in_channels, first)
    name = options.model
    if name == "auto":
        name = choose_model(size, len(data["train"]), pack=options.pack)
        if name == FROM_SCRATCH and options.image_size is None:
            size = (min(SCRATCH_SIDE, size[0]), min(SCRATCH_SIDE, size[1]))
    architecture, config = model_config(name)
    if ARCHITECTURES[architecture].takes != "images":
        raise VitrailError(f"--model {name} is no classifier of images, which --task {options.task} needs")
    return {"image_size": size, "in_channels": channels, "model": name, **choose_parts(options, name, config)}


def choose_model(size: tuple[int, int], images: int, *, pack: bool = False) -> str:
    if max(size) > SMALL:  # plain patches learn from hundreds of thousands of images; --pack takes no norms of a batch
        return FROM_SCRATCH if images <= MANY and not pack else "vit_tiny_patch16_224"
    if pack:  # no convolutions, whose batch norm needs images of one size
        return f"vit_nano_patch{small_patch(size)}_32"
    if images <= SMALL_DATA:
        return "vit_nano_conv"
    return "vit_micro_hybrid" if min(size) >= 24 else "vit_micro_conv"


def has_stem(model: Any) -> bool:
    """Whether small convolutions stand before its tokens."""
    return isinstance(model, VisionTransformer) and model.config.tokenizer in ("conv", "residual")


def choose_fit(options: Options, model: Classifier) -> Fit:
    """With --pack images keep their aspect; the model must be one that takes them so."""
    fit: Fit = model.preprocessing.fit
    if not options.pack:
        return "squash" if fit == "aspect" else fit
    if not isinstance(model, VisionTransformer):
        raise VitrailError(f"--pack: a model of the kind {model.architecture} cannot pack images of different sizes; a vit can")
    check_norms(model)
    return "aspect"


def own_options(options: Options, config: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Of the options, those that this kind of model has."""
    rows = (RECIPES[options.recipe], recipe_for(options.recipe, size=config.image_size, channels=config.in_channels))
    return known_options(options, config, names, recipes=rows, optional=OF_RECIPE)


def predict_split(setup: State, name: str, *, device: str, world: World) -> tuple[Predictions, Any]:
    """Of a model; images that have become unreadable since they were tried are left out of the data."""
    options, model, met = setup.options, setup.model, set[str]()
    split = setup.data.splits[name]  # type: ignore[index]

    def note(error: ImageError) -> None:
        met.add(error.name)
        if setup.bad is not None:
            setup.bad.add(BadFile(error.name, name, error.reason, "during"))

    workers = choose_workers(split) if options.workers == "auto" else options.workers
    batches = loader_for(model)(
        split, model.preprocessing, batch=options.batch_size, workers=workers, on_bad=note, rank=world.rank, world=world.size
    )
    how: Any = setup.options if setup.evaluation is None else setup.evaluation
    objective = Classify(
        model.to(device), multi_label=split.labels.ndim == 2, flip_test=how.flip_test, device=device, world=world
    )
    predictions = objective.evaluate(batches.batches())
    gone = {one for names in world.gather(sorted(met)) for one in names}
    return predictions, with_split(setup.data, name, leave_out_names(split, gone))


def predictions_of(scored: Scored[Any]) -> Predictions:
    assert isinstance(scored.evaluation, Predictions)
    return scored.evaluation


TASK = Classification()
