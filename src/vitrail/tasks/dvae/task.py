"""Discrete VAE: a vocabulary of visual codes, for `--method beit` to predict  [Ramesh+ 2021]."""

from collections.abc import Iterable, Mapping
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.models.catalogue import create_model
from vitrail.models.dvae import DiscreteVAE
from vitrail.models.model import Model
from vitrail.tasks.card import FOLDER, use_python, use_shell
from vitrail.tasks.dvae.objective import LAST_TEMPERATURE, Coding
from vitrail.tasks.dvae.options import RECIPES, Options
from vitrail.tasks.image_task import SMALL
from vitrail.tasks.options import from_recipe
from vitrail.tasks.pretraining import PretrainingTask
from vitrail.tasks.stages import Setup

MANY = 100_000  # images, above which the vocabulary is that of the paper

State = Setup[Options, DataSet, None]


class VisualVocabulary(PretrainingTask[Options, None, DiscreteVAE]):
    """Its model is no backbone with something around it, but an architecture of its own."""

    name = "dvae"
    learns = "codes for the patches of images, from which they can be drawn again"
    networks = ("dvae",)
    recipes = RECIPES
    use = (
        use_python(
            f'model = vt.load("{FOLDER}")',
            "codes = model.codes(images)  # a number for each patch",
            "images = model.decode(codes)",
        ),
        use_shell(f"vitrail pretrain --method beit --data images/ --tokenizer {FOLDER}"),
    )

    def choose_model(self, size: tuple[int, int], images: int) -> str:
        return "dvae_base" if max(size) > SMALL and images > MANY else "dvae_small"

    def start_from(self, model: Model, *, what: str) -> Model:
        return model

    def restart(self, loaded: Any, options: Options) -> Any:
        return loaded

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        if options.weights is not None and options.codes not in ("auto", config.codes):
            raise VitrailError(
                f"--codes {options.codes}: the model of --weights has {config.codes}, and is trained further with them"
            )
        chosen = {"codes": config.codes, "temperature": LAST_TEMPERATURE}
        return from_recipe(chosen, options)

    def create(self, options: Options) -> Any:
        size, channels = options.image_size, options.in_channels
        return create_model(options.model, image_size=size, in_channels=channels, codes=options.codes)

    def wrap(self, backbone: Any, options: Options) -> DiscreteVAE:
        return backbone

    def describe_method(self, setup: State) -> Iterable[str]:
        (rows, columns), config = setup.model.grid(setup.model.image_size), setup.model.config
        pixels = f"{config.stride}x{config.stride} pixels"
        yield f"{config.codes:,} codes; an image is {rows}x{columns} of them, one for each {pixels}"

    def objective(self, setup: State, *, device: str, world: World) -> Coding:
        options = setup.options
        last = LAST_TEMPERATURE if options.temperature == "auto" else options.temperature
        return Coding(setup.model, temperature=last, device=device, compiled=options.compile, world=world)


TASK = VisualVocabulary()
