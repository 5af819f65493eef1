"""`vitrail pretrain --method dvae`: a visual vocabulary, for `--method beit` to learn from."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from vitrail.data.bad_files import BadFiles
from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.jobs.classifying import picture_loaders
from vitrail.jobs.methods.examples import some_pictures
from vitrail.jobs.options import TrainOptions
from vitrail.jobs.planning import real, whole
from vitrail.jobs.pretraining import NOT_OURS, Pretraining, plain_loader
from vitrail.jobs.recipes import SMALL, Recipe
from vitrail.learn.training.objective import Batches
from vitrail.learn.training.world import World
from vitrail.models.catalogue import create_model
from vitrail.report.page import Markup
from vitrail.tasks.dvae import LAST_TEMPERATURE, Coding

MANY = 100_000  # pictures, above which the vocabulary is that of the paper


class DVAE:
    """Satisfies `jobs.methods.method.Method`, and `Standalone` there."""

    name = "dvae"
    does = "words for the patches of pictures, from which they can be drawn again"
    architecture = "dvae"
    recipes: Mapping[str, Recipe] = MappingProxyType(
        {
            "tiny": Recipe(epochs=100, batch=64, lr=3e-3, weight_decay=1e-4, smoothing=0.0, shift=0.1),
            "small": Recipe(epochs=20, batch=64, lr=3e-3, weight_decay=1e-4, smoothing=0.0, shift=0.1),
            "medium": Recipe(epochs=20, batch=256, lr=1e-3, weight_decay=1e-4, smoothing=0.0, shift=0.1, ema=0.999),
            "large": Recipe(epochs=5, batch=512, lr=1e-3, weight_decay=1e-4, smoothing=0.0, shift=0.1, ema=0.9999),
            "finetune": Recipe(epochs=20, batch=64, lr=1e-3, weight_decay=1e-4, smoothing=0.0, shift=0.1),
            "plain": Recipe(epochs=20, batch=64, lr=3e-3, weight_decay=1e-4, smoothing=0.0),
        }
    )
    nothing: Mapping[str, Any] = MappingProxyType({**NOT_OURS, "drop_path": 0.0})

    def choose_model(self, size: tuple[int, int], pictures: int) -> str:
        return "dvae_base" if max(size) > SMALL and pictures > MANY else "dvae_small"

    def settle(self, options: TrainOptions, config: Any) -> dict[str, Any]:
        if options.weights is not None and options.codes not in ("auto", config.codes):
            raise VitrailError(f"--codes {options.codes}: the model of --weights has {config.codes}, and goes on with them")
        temperature = LAST_TEMPERATURE if options.temperature == "auto" else options.temperature
        if temperature <= 0:
            raise VitrailError(f"--temperature must be above 0, got {temperature}")
        return {"codes": config.codes if options.codes == "auto" else options.codes, "temperature": temperature}

    def create(self, options: TrainOptions) -> Any:
        return create_model(
            options.model, image_size=options.image_size, in_channels=options.in_channels, codes=whole(options.codes)
        )

    def build(self, backbone: Any, options: TrainOptions) -> Any:
        return backbone

    def make_task(self, model: Any, data: DataSet, options: TrainOptions, *, device: str, world: World) -> Coding:
        last = LAST_TEMPERATURE if options.temperature == "auto" else real(options.temperature)
        return Coding(model, temperature=last, device=device, compiled=options.compile, world=world)

    def make_loaders(
        self, model: Any, data: DataSet, options: TrainOptions, bad: BadFiles, world: World
    ) -> tuple[Batches, Batches]:
        return picture_loaders(options, data, model.preprocessing, bad, world)

    def describe(self, model: Any, options: TrainOptions) -> Iterable[str]:
        (rows, columns), config = model.grid(model.image_size), model.config
        yield (
            f"{config.codes:,} codes; a picture is {rows}x{columns} of them, one for each {config.stride}x{config.stride} pixels"
        )

    def later(self, run: str) -> dict[str, str]:
        return {"Learn to predict its codes": f"vitrail pretrain --method beit --data DIR --tokenizer {run}"}

    def show(self, model: Any, data: DataSet, options: TrainOptions) -> Iterable[Markup]:
        from vitrail.report.codes import show_drawn, show_usage  # they import matplotlib

        task = self.make_task(model, data, options, device=options.device, world=World())
        loader = plain_loader(data["val"], model, whole(options.batch), 0, BadFiles(pictures=1, limit=1.0), World())
        yield show_usage(task.evaluate(loader.batches()).usage)
        some = some_pictures(data["val"], model.preprocessing)
        if some is not None:
            images = some.images.to(options.device)
            yield show_drawn(some.images, model.decode(model.codes(images)).cpu(), model.preprocessing)


TRADE = Pretraining.by(DVAE())
