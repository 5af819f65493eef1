"""`vitrail pretrain --method beit`: the visual words of hidden patches, from those that are seen."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.jobs.classifying import picture_loaders
from vitrail.jobs.methods.examples import some_pictures
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.pretraining import NOT_OURS, Pretraining
from vitrail.jobs.pretraining_settling import choose_backbone, need_patches
from vitrail.jobs.recipes import Recipe
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.beit import BEiTConfig, assemble_beit
from vitrail.models.folder import load
from vitrail.records import to_record
from vitrail.report.page import Markup
from vitrail.tasks.beit import NamingHidden

HIDE = 0.4  # [Bao+ 2022, section 2.3]


class BEiTMethod:
    """Satisfies `jobs.methods.method.Method`, and `Choosing` there."""

    name = "beit"
    does = "the visual word of each hidden patch, from those that are seen"
    recipes: Mapping[str, Recipe] = MappingProxyType(
        {
            "tiny": Recipe(epochs=200, batch=64, lr=1.5e-3, smoothing=0.0, shift=0.1, zoom=0.1),
            "small": Recipe(epochs=40, batch=128, lr=1.5e-3, smoothing=0.0, shift=0.1, zoom=0.1),
            "medium": Recipe(epochs=200, batch=512, lr=1e-3, smoothing=0.0, shift=0.1, zoom=0.1, drop_path=0.1),
            "large": Recipe(epochs=40, batch=1024, lr=1.5e-3, smoothing=0.0, shift=0.1, zoom=0.1, drop_path=0.1),
            "finetune": Recipe(epochs=40, batch=128, lr=5e-4, smoothing=0.0, shift=0.1, zoom=0.1),
            "plain": Recipe(epochs=40, batch=128, lr=1.5e-3, smoothing=0.0),
        }
    )
    nothing = NOT_OURS

    def choose_model(self, size: tuple[int, int], pictures: int) -> str:
        """With the relative table and layer scale of the paper."""
        return choose_backbone(size, pictures).replace("vit_", "beit_")

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        need_patches(config, method=self.name, example="beit_micro_patch4_32")
        load_tokenizer(
            options, patch=config.patch, channels=config.in_channels if options.weights else whole(options.in_channels)
        )
        return {"hide": HIDE} if options.hide == "auto" else {}

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        tokenizer = load_tokenizer(options, patch=backbone.config.patch, channels=backbone.config.in_channels)
        config = BEiTConfig(backbone=to_record(backbone.config), codes=tokenizer.config.codes, hide=real(options.hide))
        return assemble_beit(backbone, config)

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> NamingHidden:
        config = model.backbone.config
        tokenizer = load_tokenizer(options, patch=config.patch, channels=config.in_channels, codes=model.config.codes)
        return NamingHidden(model, tokenizer, seed=options.seed, device=device, compiled=options.compile, world=world)

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        return picture_loaders(options, data, model.preprocessing, bad, world)

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        yield (
            f"{100 * model.config.hide:g} % of the patches are hidden, in rectangles; each is one of the {model.config.codes:,} codes of "
            f"{options.tokenizer}"
        )

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        from vitrail.report.codes import show_named, show_references  # they import matplotlib

        some = some_pictures(data["val"], model.preprocessing)
        if some is None:
            return
        task = self.make_task(model, data, options, device=options.device, world=World())
        some = some._replace(images=some.images.to(options.device))
        hidden = task.hide_same(some)
        with torch.inference_mode():
            true = task.codes(some.images)
            guessed = true.clone()
            guessed[hidden] = model(some.images, hidden).argmax(1)
            grid = task.tokenizer.grid(tuple(some.images.shape[2:]))
            drawn = [task.tokenizer.decode(codes, grid=grid).cpu() for codes in (true, guessed)]
        yield show_named(
            some.images.cpu(),
            hidden.cpu().view(-1, *grid),
            *drawn,
            right=(guessed == true).cpu().view(-1, *grid),
            given=model.preprocessing,
            tokenizer=task.tokenizer.preprocessing,
        )
        yield show_references(model.backbone, some.images[:4])


def load_tokenizer(options: TrainOptions, *, patch: int, channels: int, codes: int | None = None) -> Any:
    """The discrete VAE of --tokenizer, if it fits a backbone of these patches and channels, and a model that has learned so many codes."""
    make = "`vitrail pretrain --method dvae --data DIR --out RUN` makes one"
    if options.tokenizer is None:
        raise VitrailError(f"--method beit needs --tokenizer RUN, whose codes it predicts: {make}")
    try:
        found = load(options.tokenizer)
    except VitrailError as error:
        raise VitrailError(
            f"--tokenizer {options.tokenizer}: it cannot be read, and is needed for its codes ({error}); {make}"
        ) from None
    what = f"--tokenizer {options.tokenizer}"
    if found.architecture != "dvae":
        raise VitrailError(f"{what}: a discrete VAE is needed, got a {found.architecture}; {make}")
    stride = found.config.stride
    if stride != patch:
        raise VitrailError(
            f"{what}: it has a code for each {stride}x{stride} pixels, the model's patches are {patch}x{patch}: choose a --model with "
            f"patch{stride} in its name, or make a tokenizer with --model dvae_small_stride{patch}"
        )
    if found.config.in_channels != channels:
        raise VitrailError(f"{what}: it reads {found.config.in_channels} channel(s), the model {channels}")
    if codes is not None and found.config.codes != codes:
        raise VitrailError(f"{what}: it has {found.config.codes} codes, the model has learned {codes}: not the same tokenizer")
    return found


TRADE = Pretraining.by(BEiTMethod())
