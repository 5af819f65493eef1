"""BEiT: name masked patches in the codes of a discrete VAE  [Bao+ 2022]."""

from collections.abc import Iterable, Mapping
from typing import Any

from vitrail.data.dataset import DataSet
from vitrail.errors import VitrailError
from vitrail.learn.training.world import World
from vitrail.models.beit import BEiT, BEiTConfig, assemble_beit
from vitrail.models.folder import load
from vitrail.records import to_record
from vitrail.tasks.beit.objective import NamingHidden
from vitrail.tasks.beit.options import RECIPES, Options
from vitrail.tasks.pretraining import PretrainingTask, choose_backbone, need_patches
from vitrail.tasks.stages import Setup

MASK_RATIO = 0.4  # [Bao+ 2022, section 2.3]

State = Setup[Options, DataSet, None]


class MaskedImageModeling(PretrainingTask[Options, None, BEiT]):
    name = "beit"
    learns = "the code of each masked patch, from the visible ones"
    recipes = RECIPES

    def choose_model(self, size: tuple[int, int], images: int) -> str:
        """With the relative table and layer scale of the paper."""
        return choose_backbone(size, images).replace("vit_", "beit_")

    def resolve_method(self, options: Options, config: Any) -> Mapping[str, Any]:
        need_patches(config, method=self.name, example="beit_micro_patch4_32")
        channels = options.in_channels if options.weights is None else config.in_channels
        load_tokenizer(options.tokenizer, patch=config.patch, channels=channels)
        return {"mask_ratio": MASK_RATIO} if options.mask_ratio == "auto" else {}

    def wrap(self, backbone: Any, options: Options) -> BEiT:
        assert options.mask_ratio != "auto"
        tokenizer = load_tokenizer(options.tokenizer, patch=backbone.config.patch, channels=backbone.config.in_channels)
        config = BEiTConfig(backbone=to_record(backbone.config), codes=tokenizer.config.codes, hide=options.mask_ratio)
        return assemble_beit(backbone, config)

    def describe_method(self, setup: State) -> Iterable[str]:
        config, tokenizer = setup.model.config, setup.options.tokenizer
        masked = f"{100 * config.hide:g} % of the patches are masked, in rectangles"
        yield f"{masked}; each is one of the {config.codes:,} codes of {tokenizer}"

    def objective(self, setup: State, *, device: str, world: World) -> NamingHidden:
        options, model = setup.options, setup.model
        config = model.backbone.config
        tokenizer = load_tokenizer(options.tokenizer, patch=config.patch, channels=config.in_channels, codes=model.config.codes)
        return NamingHidden(model, tokenizer, seed=options.seed, device=device, compiled=options.compile, world=world)


def load_tokenizer(path: str | None, *, patch: int, channels: Any, codes: int | None = None) -> Any:
    """The discrete VAE of --tokenizer, if it fits a backbone of these patches and channels, and a model that has learned so many codes."""
    make = "`vitrail pretrain --method dvae --data DIR --out RUN` makes one"
    if path is None:
        raise VitrailError(f"--method beit needs --tokenizer RUN, whose codes it predicts: {make}")
    try:
        found = load(path)
    except VitrailError as error:
        raise VitrailError(f"--tokenizer {path}: it cannot be read, and is needed for its codes ({error}); {make}") from None
    what = f"--tokenizer {path}"
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


TASK = MaskedImageModeling()
