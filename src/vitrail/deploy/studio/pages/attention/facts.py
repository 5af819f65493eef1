"""What the page of attention knows of a model before its weights are read."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from vitrail.deploy.studio.facts import ImageFacts, Stored, name_classes
from vitrail.deploy.studio.samples import NONE, SampleList, find_samples
from vitrail.errors import VitrailError
from vitrail.explain.cells import features_grid
from vitrail.explain.lens import has_lens
from vitrail.explain.methods import METHODS, methods_for, recommend_method
from vitrail.explain.positions import position_similarity
from vitrail.models.backbones import Pretrained
from vitrail.models.catalogue import count_parameters
from vitrail.models.classifier import Classifier
from vitrail.models.gsa import GroupTransformer
from vitrail.models.model import Model
from vitrail.models.swin import Swin
from vitrail.models.vit import VisionTransformer
from vitrail.nn.attention.multi_head import MultiHeadAttention
from vitrail.nn.encoders.group import GroupEncoder
from vitrail.nn.encoders.hierarchical import HierarchicalEncoder

CLASSLESS = ("rollout", "attention")  # maps of an image that ask for no class


@dataclass(frozen=True, kw_only=True)
class AttentionFacts(ImageFacts):
    """Without labels it is a backbone: its attention and its tokens are to be seen, and it says nothing of an image."""

    inner: ClassVar[tuple[str, ...]] = ("preprocessing", "elements", "tokens")
    labels: tuple[str, ...]
    multi_label: bool
    grid: tuple[int, int]  # of the cells that the page shows
    elements: int  # of the group that tokens stand on, 1 where there is none
    prefix: int
    layers: int
    heads: int
    tokens: int  # of the first layer, prefix included, the elements of a group counted once
    pool: str
    position: str | None
    tokenizer: str | None  # how a vit makes tokens of pixels: patch, conv or resnet
    lens: bool
    similarity: bool
    methods: tuple[dict[str, str], ...]
    default_method: str  # the map that the page opens on: that of `vitrail explain`, attention where there is no class

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
        return super().to_json() | {
            "labels": self.labels,
            "multi_label": self.multi_label,
            "grid": self.grid,
            "patch": self.patch,
            "prefix": self.prefix,
            "layers": self.layers,
            "heads": self.heads,
            "pool": self.pool,
            "position": self.position,
            "tokenizer": self.tokenizer,
            "methods": self.methods,
            "default_method": self.default_method,
            "lens": self.lens,
            "similarity": self.similarity,
            "intervenes": True,
            "shuffles": not (height % self.grid[0] or width % self.grid[1]),
        }

    def find_samples(self, run: Path) -> SampleList:
        found = find_samples(run, self.image_size)
        return find_samples(run, None) if found is NONE and not self.labels else found  # a backbone learned from images alone

    def open_model(self, model: Model) -> Model:
        return find_backbone(model)


def describe(model: Model, stored: Stored) -> AttentionFacts:
    """Of a model without weights, on torch's meta device."""
    name, model = model.architecture, find_backbone(model)
    if not isinstance(model, Classifier):
        raise VitrailError(f"{stored.folder}: a model of the kind {name} has no backbone whose attention the studio could show")
    config = model.config
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    shown = bool(attentions) and all("weights" in module.kernel.supports for module in attentions)
    if not config.num_classes and not shown:
        raise VitrailError(
            f"{stored.folder}: this model has neither labels nor attention to look at: learn some with vitrail train --weights RUN, and look at that run"
        )
    grid, elements, tokens = find_grid(model)
    prefix = int(getattr(config, "prefix", 0))
    able = methods_for(model)
    return AttentionFacts(
        architecture=name,
        labels=name_classes(stored.labels, config.num_classes),
        multi_label=stored.multi_label,
        preprocessing=stored.preprocessing,
        grid=grid,
        elements=elements,
        prefix=prefix,
        layers=len(attentions),
        heads=max((module.heads for module in attentions), default=0),
        tokens=prefix + tokens,
        pool=getattr(model.head, "pool_by", "none"),
        position=getattr(config, "position", None),
        tokenizer=getattr(config, "tokenizer", None),
        parameters=count_parameters(model),
        attention=shown,
        lens=has_lens(model) and bool(config.num_classes),
        similarity=has_similarity(model),
        methods=tuple({"name": name, "words": METHODS[name].words} for name in able if config.num_classes or name in CLASSLESS),
        default_method=recommend_method(math.prod(grid), able) if config.num_classes else "attention",
    )


def find_backbone(model: Model) -> Model:
    """What the page computes with: of a model that learned features without labels the backbone."""
    return model.backbone if isinstance(model, Pretrained) else model


def find_grid(model: Classifier) -> tuple[tuple[int, int], int, int]:
    """The cells that the page shows, the elements of the group, and the cells of the first layer."""
    if isinstance(model, VisionTransformer | Swin | GroupTransformer):
        tokenizer: Any = model.tokenizer
        first = tuple(tokenizer.grid(model.image_size))
        last = tuple(model.encoder.grid(first)) if isinstance(model.encoder, HierarchicalEncoder | GroupEncoder) else first
        return (last[-2], last[-1]), (last[0] if len(last) == 3 else 1), first[-2] * first[-1]
    with torch.device("meta"), torch.inference_mode():  # shapes alone
        features = model.eval().forward_features(torch.empty(1, model.config.in_channels, *model.image_size))
    rows, columns = features_grid(features)
    return (rows, columns), 1, rows * columns


def has_similarity(model: Classifier) -> bool:
    """Whether places can be compared, asked of a model without numbers: what gets as far as computing has something to compute."""
    try:
        return not isinstance(position_similarity(model), str)
    except (NotImplementedError, RuntimeError):  # torch, where a number is asked for
        return True
