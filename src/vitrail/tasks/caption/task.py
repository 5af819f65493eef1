"""Captions: say in words what is in an image."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitrail.byte_pairs import BytePairs
from vitrail.data.captions import CaptionData
from vitrail.data.clean import open_clean_captions
from vitrail.data.loader import Loader
from vitrail.errors import VitrailError
from vitrail.files import write_table
from vitrail.learn.training.world import World
from vitrail.models.captioner import CaptionModel
from vitrail.models.catalogue import create_model, model_config, rebuild
from vitrail.models.word_model import check_tokenizer
from vitrail.records import has_field
from vitrail.tasks.caption.data import CaptionBatch, caption_loaders, loader_for
from vitrail.tasks.caption.objective import Caption, Captions
from vitrail.tasks.caption.options import RECIPES, SMALL, Options, caption_recipe
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_shell, word_card
from vitrail.tasks.image_task import (
    ImageTask,
    choose_channels,
    choose_feeding,
    choose_recipe,
    choose_size,
    clean_arguments,
    describe_model,
    measure_on,
    plain_loader,
    sample_images,
)
from vitrail.tasks.options import from_recipe, spell
from vitrail.tasks.stages import Log, Opened, Opening, Resolved, Scored, Setup, Summary
from vitrail.tasks.task import PARTS, choose_parts, chosen_parts, count_splits, describe_recipe
from vitrail.tasks.text_task import (
    check_model,
    choose_vocabulary,
    describe_notes,
    describe_vocabulary,
    load_text_model,
    make_tokenizer,
    own_options,
    store_tokenizer,
)

MAX_LENGTH = 64  # tokens of a caption
PIPELINE = "image-to-text"  # Hugging Face's name of what its models do
State = Setup[Options, CaptionData, BytePairs]


class Captioning(ImageTask[Options, CaptionData, BytePairs, CaptionModel]):
    recipes = RECIPES

    def open(self, options: Options, opening: Opening) -> Opened[CaptionData]:
        data, bad = open_clean_captions(opening.source, **clean_arguments(options, opening))
        return Opened(data=data, bad=bad)

    def load(self, options: Options, log: Log) -> Any:
        return load_text_model(options, pipeline=PIPELINE)

    def resolve(
        self, options: Options, opened: Opened[CaptionData], loaded: Any, resumed: Path | None
    ) -> Resolved[Options, CaptionData, BytePairs]:
        """Byte pairs are learned from the captions of train."""
        data = opened.data
        captions = data["train"].captions
        if loaded is None:
            choices = choose_new_model(options, data)
            size, channels, config = choices["image_size"], choices["in_channels"], model_config(choices["model"])[1]
        else:
            choices = own_options(loaded)
            size, channels, config = loaded.image_size, loaded.config.in_channels, loaded.config
        name: str = options.recipe
        if name == "auto":
            chosen = choose_recipe(len(data["train"]), pretrained=loaded is not None)
            name = choices["recipe"] = "medium" if chosen == "large" else chosen
        recipe = caption_recipe(name, size=size, hidden=has_field(config, "decoder_depth"))
        choices |= from_recipe(recipe, options)
        if options.dropout == "auto":
            choices["dropout"] = config.dropout  # the model's own
        choices |= choose_feeding(options, data, recipe, (*size, channels), plain=True)  # captions say left and right
        options = replace(options, **choices)
        tokenizer = make_tokenizer((text for texts in captions for text in texts), options, loaded=loaded, resumed=resumed)
        return Resolved(options=options, data=data, extras=tokenizer, bad=opened.bad)

    def build(self, resolved: Resolved[Options, CaptionData, BytePairs], loaded: Any) -> Any:
        """A new model for the tokenizer's vocabulary with preprocessing measured on the training images, or the loaded one."""
        options, tokenizer = resolved.options, resolved.extras
        if loaded is not None:
            model = rebuild(loaded, dropout=options.dropout)
        else:
            config = model_config(options.model)[1]
            parts = chosen_parts(options, config) if has_field(config, "position") else {}
            model = create_model(
                options.model,
                vocabulary=len(tokenizer),
                image_size=options.image_size,
                in_channels=options.in_channels,
                dropout=options.dropout,
                longest=options.max_length,
                **parts,
            )
            model.preprocessing = measure_on(resolved.data["train"], model.preprocessing)
        model.tokenizer = tokenizer
        return model

    def describe(self, setup: State) -> Iterable[str]:
        data, train = setup.data, setup.data["train"]
        each = sum(map(len, train.captions)) / len(train)
        yield f"data: {data.name}: images with captions ({each:.3g} per image): {count_splits(data.splits)}"
        yield from describe_notes(data)
        yield f"{describe_model(setup)}, {describe_vocabulary(setup.model.tokenizer)}"
        yield describe_recipe(setup.options)

    def store(self, setup: State, folder: Path) -> None:
        store_tokenizer(setup.model.tokenizer, folder)

    def objective(self, setup: State, *, device: str, world: World) -> Caption:
        options, model = setup.options, setup.model
        assert options.label_smoothing != "auto"
        return Caption(
            model,
            model.tokenizer,
            references=setup.data["val"].captions,
            decided=setup.data.decided,
            smoothing=options.label_smoothing,
            device=device,
            compiled=options.compile,
            world=world,
        )

    def loaders(self, setup: State, world: World) -> tuple[Loader[CaptionBatch], Loader[CaptionBatch]]:
        assert setup.bad is not None
        return caption_loaders(setup.options, setup.data, setup.model, setup.bad, world)

    def score(self, setup: State, split: str, *, device: str, world: World) -> Scored[CaptionData]:
        """Images that have become unreadable since they were tried are left out."""
        model, references = setup.model, setup.data[split].captions
        batches = plain_loader(setup, split, world, make=loader_for(model))
        objective = Caption(
            model.to(device),
            model.tokenizer,
            references=references,
            decided=setup.data.decided,
            beams=setup.options.num_beams,
            device=device,
            world=world,
        )
        return Scored(evaluation=objective.evaluate(batches.batches()), split=split, data=setup.data, model=model)

    def write_predictions(self, scored: Scored[CaptionData], folder: Path) -> None:
        """A line per image: the caption, and what people say, in as many columns as that takes."""
        found, split = captions_of(scored), scored.data[scored.split]
        most = max(map(len, found.references), default=1)
        head = ["picture", "caption", *(["reference"] if most == 1 else [f"reference_{n + 1}" for n in range(most)])]
        each = zip(found.indices.tolist(), found.captions, found.references, strict=True)
        rows = ([split.name(index), caption, *texts, *[""] * (most - len(texts))] for index, caption, texts in each)
        write_table(folder / "predictions.csv", [head, *rows])

    def summarize(self, setup: State, scored: Scored[CaptionData]) -> Summary:
        found = captions_of(scored)
        low, high = found.interval
        unit = " %" if found.score == "exact" else ""
        over = f"by bootstrap over {len(found.captions):,} images"
        interval = f"95 % interval {100 * low:.2f} to {100 * high:.2f}{unit}, {over}"
        height, width = scored.model.image_size
        return Summary(
            details={"Images": f"{height}x{width}, {count_splits(scored.data.splits)}"},
            interval=found.interval,
            certainty=f"{interval}; sacrebleu: {found.signature}",
            lines=[interval, *([] if setup.evaluation is None else [f"signature {found.signature}"])],
            card={"signature": found.signature},
            record={"signature": found.signature},
        )

    def match(self, data: CaptionData, model: CaptionModel, options: Options) -> CaptionData:
        check_tokenizer(model)
        return data

    def card(self, model: CaptionModel, facts: Mapping[str, Any]) -> Card:
        use = [
            use_pipeline("describe", "image-to-text", 'describe("image.png")  # [{"generated_text": ...}]'),
            use_shell(f"vitrail caption {FOLDER} image.png"),
        ]
        return word_card(model, facts, title="captions of images", use=use)

    def stored(self, model: CaptionModel) -> Options:
        return Options(data="", image_size=model.image_size, in_channels=model.config.in_channels)


def choose_new_model(options: Options, data: CaptionData) -> dict[str, Any]:
    """Size, channels, name, parts, vocabulary and length of a model for images without weights."""
    first = sample_images(data["train"])
    size = choose_size(options.image_size, first)
    name = choose_model(size) if options.model == "auto" else options.model
    check_model(name, pipeline=PIPELINE, task=options.task, instead=choose_model(size))
    config = model_config(name)[1]
    choices = {"image_size": size, "in_channels": choose_channels(options.in_channels, first), "model": name}
    if has_field(config, "position"):
        choices |= choose_parts(options, name, config)
    elif asked := [part for part in PARTS if getattr(options, part) not in (None, "auto")]:
        raise VitrailError(f"{spell(asked[0])} {getattr(options, asked[0])}: {name} has no {asked[0]} to choose")
    if options.vocabulary == "auto":
        choices["vocabulary"] = choose_vocabulary(sum(map(len, data["train"].captions)))
    if options.max_length == "auto":
        choices["max_length"] = MAX_LENGTH
    return choices


def choose_model(size: tuple[int, int]) -> str:
    return "captioner_micro" if max(size) <= SMALL else "captioner_small"


def captions_of(scored: Scored[Any]) -> Captions:
    assert isinstance(scored.evaluation, Captions)
    return scored.evaluation


TASK = Captioning()
