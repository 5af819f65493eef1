"""A model as the studio knows it: facts from its config.json for the list, weights when it is first looked at."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vitrail.deploy.studio.detect_facts import DetectFacts, read_detect_facts
from vitrail.deploy.studio.mask_facts import MaskFacts, read_mask_facts
from vitrail.deploy.studio.model_facts import name_classes
from vitrail.deploy.studio.restore_facts import RestoreFacts, read_restore_facts
from vitrail.deploy.studio.runs import describe_score, find_run_folders
from vitrail.deploy.studio.segment_facts import SegmentFacts, read_segment_facts
from vitrail.deploy.studio.studio_error import StudioError
from vitrail.deploy.studio.text_facts import TextFacts, read_text_facts
from vitrail.deploy.studio.volume_facts import VolumeFacts, read_volume_facts
from vitrail.errors import VitrailError
from vitrail.explain.cells import features_grid
from vitrail.explain.lens import has_lens
from vitrail.explain.methods import METHODS, methods_for
from vitrail.explain.positions import Similarity, position_similarity
from vitrail.learn.training.run_folder import CONFIG as CONFIG_YAML
from vitrail.models.catalogue import ARCHITECTURES, build_model, count_parameters
from vitrail.models.detr import Detector
from vitrail.models.folder import CONFIG, WEIGHTS, find, load, read_config
from vitrail.models.masked_autoencoder import MaskedAutoencoder
from vitrail.models.segmenter import Segmenter
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record
from vitrail.run_files import FiguresOf, no_figures

MOST_LOADED = 4  # models in memory
OWN_PAGES = ("text", "restoration", "boxes", "segmentation", "volumes")  # what models take that have a page of their own
WHOLE = (MaskedAutoencoder, Detector, Segmenter)  # models with a backbone that are more than it to the studio
CLASSLESS = ("rollout", "attention")  # maps of a picture that ask for no class


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What config.json says of a model, and what follows from it. Without labels it is a backbone: its attention and its tokens are to be
    seen, and it says nothing of a picture."""

    architecture: str
    labels: tuple[str, ...]
    multi_label: bool
    preprocessing: Preprocessing
    image_size: tuple[int, int]
    grid: tuple[int, int]  # of the cells that the page shows
    elements: int  # of the group that tokens stand on, 1 where there is none
    prefix: int
    layers: int
    heads: int
    tokens: int  # of the first layer, prefix included, the elements of a group counted once
    pool: str
    position: str | None
    tokenizer: str | None  # how a vit makes tokens of pixels: patch, conv or resnet
    parameters: int
    attention: bool
    lens: bool
    similarity: bool
    methods: tuple[dict[str, str], ...]

    @property
    def task(self) -> str:
        return "classify" if self.labels else "features"

    @property
    def has_class(self) -> bool:
        return self.pool == "class"

    @property
    def attention_bytes(self) -> int:
        """Of a pass's weights in float16, at most: later stages have fewer tokens."""
        return 2 * self.layers * self.heads * self.tokens**2

    @property
    def patch(self) -> tuple[int, int]:
        return -(-self.image_size[0] // self.grid[0]), -(-self.image_size[1] // self.grid[1])

    def to_json(self) -> dict[str, Any]:
        height, width = self.image_size
        return {
            "architecture": self.architecture,
            "task": self.task,
            "labels": self.labels,
            "multi_label": self.multi_label,
            "image_size": self.image_size,
            "channels": self.preprocessing.channels,
            "grid": self.grid,
            "patch": self.patch,
            "prefix": self.prefix,
            "layers": self.layers,
            "heads": self.heads,
            "pool": self.pool,
            "position": self.position,
            "tokenizer": self.tokenizer,
            "parameters": self.parameters,
            "methods": self.methods,
            "attention": self.attention,
            "lens": self.lens,
            "similarity": self.similarity,
            "intervenes": True,
            "shuffles": not (height % self.grid[0] or width % self.grid[1]),
        }


AnyFacts = Facts | TextFacts | RestoreFacts | MaskFacts | DetectFacts | SegmentFacts | VolumeFacts


class StudioModel:
    """One entry of the list. `lock` is held by whoever computes with the model."""

    def __init__(self, folder: Path, run: Path, *, figures_of: FiguresOf = no_figures) -> None:
        self.folder, self.run = folder, run  # the model folder, and the run it belongs to or itself
        self.figures_of = figures_of
        self.id, self.name = identify(run), run.name or str(run)
        self.lock = threading.RLock()
        self._facts: AnyFacts | None = None
        self._model: Any = None
        self._stamp: object = None
        self._similarity: Similarity | str | None = None

    def facts(self) -> AnyFacts:
        """Weights are not read; a model that is still training has the same config all along."""
        if self._facts is not None:  # without the lock: it is held through whole passes
            return self._facts
        with self.lock:
            if self._facts is None:
                self._facts = read_facts(self.folder)
            return self._facts

    def model(self) -> Any:
        """In evaluation mode; read again where training has put better weights in their place."""
        with self.lock:
            stamp = stamp_of(self.folder / WEIGHTS)
            if self._model is None or stamp != self._stamp:
                self._model, self._stamp, self._similarity = looked_into(load(self.folder)), stamp, None
            return self._model

    def similarity(self) -> Similarity | str:
        """Of all places to all, or why there is none; computed once."""
        with self.lock:
            model = self.model()
            if self._similarity is None:
                self._similarity = position_similarity(model)
            return self._similarity

    def unload(self) -> None:
        """Let go of the weights, unless somebody computes with them right now."""
        if self.lock.acquire(blocking=False):
            try:
                self._model = self._similarity = None
            finally:
                self.lock.release()

    @property
    def stored(self) -> object:
        """Another whenever the weights on disk are others."""
        return stamp_of(self.folder / WEIGHTS)

    @property
    def version(self) -> object:
        """Of the weights that `model` gave last."""
        return self._stamp

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, **self.facts().to_json(), "score": describe_score(self.run, self.figures_of)}


class Models:
    """The models of the studio: those named, or all runs at and below a folder, looked for again at every list."""

    def __init__(self, sources: Sequence[str], *, below: Path = Path("runs"), figures_of: FiguresOf = no_figures) -> None:
        """`figures_of`: the metrics of a task, by which scores are shown."""
        self.sources, self.below, self.figures_of = tuple(sources), below, figures_of
        self._known: dict[str, StudioModel] = {}
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.RLock()
        for source in sources:
            for model in self._named(source):
                model.facts()  # what is named must work: one line now, not a page with a hole later

    def present(self) -> list[StudioModel]:
        """Those that can be described, newest run first where none were named."""
        found = [model for source in self.sources for model in self._named(source)] if self.sources else self._below(self.below)
        unique = list({model.id: model for model in found}.values())
        names = [model.run.name for model in unique]
        for model in unique:
            shared = names.count(model.run.name) > 1
            model.name = f"{model.run.parent.name}/{model.run.name}" if shared else model.run.name or str(model.run)
        return unique

    def find(self, name: str) -> StudioModel:
        """By id, for what needs no weights."""
        if name not in self._known:
            self.present()  # may wait for a model's lock, so `_lock` is not held
        found = self._known.get(name)
        if found is None:
            raise StudioError("There is no such model in this studio.", 404)
        return found

    def get(self, name: str) -> StudioModel:
        """By id, to compute with; it becomes one of the few that stay in memory."""
        found = self.find(name)
        with self._lock:
            self._loaded[name] = None
            self._loaded.move_to_end(name)
            while len(self._loaded) > MOST_LOADED:
                self._loaded.popitem(last=False)
            for other, model in self._known.items():  # all: one that was busy when its turn came is let go now
                if other not in self._loaded:
                    model.unload()
        return found

    def _named(self, source: str) -> list[StudioModel]:
        path = Path(source).expanduser()
        if path.is_dir() and not has_model(path):
            inside = self._below(path)
            if inside:
                return inside
        folder = find(source).resolve()
        return [self._keep(folder, run_of(folder))]

    def _below(self, folder: Path) -> list[StudioModel]:
        """Runs that have a model by now and can be described; others are left out without a word: they may be written right now."""
        found = []
        for run in find_run_folders(folder):
            if not has_model(run):
                continue
            model = self._keep(find(run).resolve(), run.resolve())
            try:
                model.facts()
            except VitrailError:
                continue
            found.append(model)
        return found

    def _keep(self, folder: Path, run: Path) -> StudioModel:
        with self._lock:
            name = identify(run)
            if name not in self._known or self._known[name].folder != folder:
                self._known[name] = StudioModel(folder, run, figures_of=self.figures_of)
            return self._known[name]


def identify(run: Path) -> str:
    """A name for the address bar that tells nothing of where things lie, and stays the same over restarts."""
    return hashlib.sha256(str(run.resolve()).encode(errors="surrogateescape")).hexdigest()[:12]


def has_model(folder: Path) -> bool:
    return any((part / CONFIG).is_file() and (part / WEIGHTS).is_file() for part in (folder, folder / "best", folder / "last"))


def run_of(folder: Path) -> Path:
    """The run that a model folder is part of, or the folder itself."""
    return folder.parent if folder.name in ("best", "last") and (folder.parent / CONFIG_YAML).is_file() else folder


def stamp_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_facts(folder: Path) -> AnyFacts:
    """From config.json alone: the model is built without memory (on torch's meta device) and counted."""
    path = folder / CONFIG
    found = read_config(path)
    name = found["architecture"]
    config = from_record(ARCHITECTURES[name].config, found["config"], what=f"{path}: config")
    takes = ARCHITECTURES[name].takes
    if takes not in ("pictures", "views", *OWN_PAGES):
        raise VitrailError(f"{folder}: the studio has no page for models of the kind {name}")
    try:
        with torch.device("meta"):
            model = build_model(name, config)
    except VitrailError:
        raise
    except Exception as error:  # sizes that no layer can have: torch raises whatever it likes
        raise VitrailError(f"{path}: config: no such model can be built ({error})") from None
    if takes == "text":
        return read_text_facts(model)
    if takes == "restoration":
        return read_restore_facts(model)
    if takes == "volumes":
        return read_volume_facts(model, found["labels"])
    preprocessing = from_record(Preprocessing, found["preprocessing"], what=f"{path}: preprocessing")
    if isinstance(model, MaskedAutoencoder):
        return read_mask_facts(model, preprocessing)
    if takes == "boxes":
        return read_detect_facts(model, found["labels"], preprocessing)
    if takes == "segmentation":
        return read_segment_facts(model, found["labels"], found.get("colors"), preprocessing)
    model = looked_into(model)
    if not hasattr(model, "num_classes"):
        raise VitrailError(f"{folder}: a model of the kind {name} has no backbone whose attention the studio could show")
    config = model.config
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    shown = bool(attentions) and all("weights" in module.kernel.supports for module in attentions)
    if not config.num_classes and not shown:
        raise VitrailError(
            f"{folder}: this model has neither labels nor attention to look at: learn some with vitrail train --weights RUN, and look at that run"
        )
    grid, elements, tokens = find_grid(model)
    prefix = int(getattr(config, "prefix", 0))
    return Facts(
        architecture=name,
        labels=name_classes(found["labels"], config.num_classes),
        multi_label=bool(found.get("multi_label", False)),
        preprocessing=preprocessing,
        image_size=tuple(config.image_size),
        grid=grid,
        elements=elements,
        prefix=prefix,
        layers=len(attentions),
        heads=max((module.heads for module in attentions), default=0),
        tokens=prefix + tokens,
        pool=getattr(model.head, "pool_by", "none"),
        position=getattr(model.config, "position", None),
        tokenizer=getattr(config, "tokenizer", None),
        parameters=count_parameters(model),
        attention=shown,
        lens=has_lens(model) and bool(config.num_classes),
        similarity=has_similarity(model),
        methods=tuple(
            {"name": name, "words": METHODS[name].words}
            for name in methods_for(model)
            if config.num_classes or name in CLASSLESS
        ),
    )


def looked_into(model: Any) -> Any:
    """What the studio computes with: of a model that learned features without labels the backbone, unless it has a page of its own."""
    return model if isinstance(model, WHOLE) else getattr(model, "backbone", model)


def find_grid(model: Any) -> tuple[tuple[int, int], int, int]:
    """The cells that the page shows, the elements of the group, and the cells of the first layer."""
    if hasattr(model, "tokenizer"):
        first = tuple(model.tokenizer.grid(model.image_size))
        last = tuple(model.encoder.grid(first)) if hasattr(model.encoder, "grid") else first
        return (last[-2], last[-1]), (last[0] if len(last) == 3 else 1), first[-2] * first[-1]
    with torch.device("meta"), torch.inference_mode():  # shapes alone
        features = model.eval().forward_features(torch.empty(1, model.config.in_channels, *model.image_size))
    rows, columns = features_grid(features)
    return (rows, columns), 1, rows * columns


def has_similarity(model: Any) -> bool:
    """Whether places can be compared, asked of a model without numbers: what gets as far as computing has something to compute."""
    try:
        return not isinstance(position_similarity(model), str)
    except (NotImplementedError, RuntimeError):  # torch, where a number is asked for
        return True
