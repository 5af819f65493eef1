"""What a segmenter takes from its encoder: which of its maps, how large their cells are, and the maps themselves.

b batch, ch channels, h w image
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError, VitrailWarning, check_choice
from vitrail.models.backbones import NETWORKS
from vitrail.models.features import is_plain, tokens_behind
from vitrail.models.protocols import Backbone, FeatureInfo
from vitrail.models.vit import VisionTransformer
from vitrail.nn.functional.maps import to_maps
from vitrail.nn.tokenizers.convolutional import ConvTokenizer
from vitrail.nn.tokenizers.residual import ResidualTokenizer
from vitrail.nn.tokenizers.resnet_stem import ResNetStem
from vitrail.records import from_record
from vitrail.tokens import Tokens

INSIDE = (
    "image_size",
    "in_channels",
    "position",
    "attention",
    "attention_options",
    "drop_path",
)  # the encoder's own, changed through the segmenter's config
SEVERAL = ("setr_mla", "upernet")  # heads that read several maps
MAPS = 4  # of a plain encoder  [Zheng+ 2021; Bao+ 2022]


def resolve_encoder(
    network: str, record: Mapping[str, Any], given: Mapping[str, Any], *, head: str
) -> tuple[Any, tuple[int, int]]:
    """The encoder's config, without classes and with what is given, and the size of images: the encoder's own is whole cells of it."""
    check_choice("network of an encoder", network, NETWORKS)
    config = replace(from_record(NETWORKS[network].config, record, what="backbone"), num_classes=0)
    known = {one.name for one in fields(config)}
    changes = {name: value for name, value in given.items() if value is not None}
    for name in changes:
        if name not in known:
            raise VitrailError(f"{name}={changes[name]}: an encoder of the kind {network} has no {name}")
    if "position_where" in known and changes.get("position", config.position) != config.position:
        changes["position_where"] = "auto"
    config = NETWORKS[network].resolve(replace(config, **changes))
    size: tuple[int, int] = config.image_size
    return replace(config, image_size=padded_size(network, config, size, head=head)), size


def coarsest_stride(config: Any, *, head: str) -> int:
    """Pixels from one cell of the coarsest map to the next; UPerNet halves the last map of a plain encoder."""
    info: tuple[FeatureInfo, ...] = config.feature_info
    return max(row.stride for row in info) * (2 if head == "upernet" and is_plain(info) else 1)


def padded_size(network: str, config: Any, size: Sequence[int], *, head: str) -> tuple[int, int]:
    """The least size that the encoder takes and that holds an image of another."""
    return whole_cells(size, coarsest_stride(config, head=head), square=NETWORKS[network].needs_square(config))


def whole_cells(size: Sequence[int], stride: int, *, square: bool = False) -> tuple[int, int]:
    """The least size of whole cells that holds an image."""
    height, width = (side + -side % stride for side in size)
    return (max(height, width),) * 2 if square else (height, width)


def fit_encoder(backbone: Any, settings: Mapping[str, Any], *, head: str) -> Any:
    """The encoder for whole cells of the images that are meant, with their channels, dropping what is to be dropped."""
    from vitrail.models.adapting import adapt  # which needs the catalogue, which needs this
    from vitrail.models.catalogue import rebuild

    if settings.get("drop_path", getattr(backbone.config, "drop_path", None)) != getattr(backbone.config, "drop_path", None):
        backbone = rebuild(backbone, drop_path=settings["drop_path"])
    wanted = padded_size(backbone.architecture, backbone.config, settings["image_size"], head=head)
    changes = {"image_size": wanted, "in_channels": settings.get("in_channels", backbone.config.in_channels)}
    changes = {name: value for name, value in changes.items() if value != getattr(backbone.config, name)}
    backbone, notes = adapt(backbone, **changes)
    for note in notes:
        warnings.warn(note, VitrailWarning, stacklevel=3)
    return backbone


def default_layers(info: Sequence[FeatureInfo], head: str) -> tuple[int, ...]:
    """The last; for heads that read several, the last of each stride, or of a plain encoder four blocks at equal distances: of 24 the 6th, 12th,
    18th and last  [Zheng+ 2021, section 3.2]."""
    depth = len(info)
    if head not in SEVERAL:
        return (depth - 1,)
    if is_plain(info):
        return tuple(-(-depth * (number + 1) // MAPS) - 1 for number in range(MAPS))
    return tuple({row.stride: number for number, row in enumerate(info)}.values())


def fine_width(backbone: Backbone) -> int:
    """The channels of the fine map that `read_maps` gives."""
    if isinstance(backbone, VisionTransformer):
        return int(getattr(backbone.tokenizer, "fine_width", backbone.config.width))
    return backbone.feature_info[0].channels


def read_maps(
    backbone: Backbone, images: Float[Tensor, "b ch h w"], layers: Sequence[int], *, norms: nn.ModuleDict, fine: bool = False
) -> list[Float[Tensor, "b _ _ _"]]:
    """The maps behind the blocks or stages `layers`, each through the norm that has its number. With `fine` one more behind them: from
    within the convolutional stem, of a stem of patches its own map, of an encoder of stages the first one's."""
    more: list[Tensor] = []
    if fine and isinstance(backbone, VisionTransformer):
        found, tokens = embed_fine(backbone, images)
        more, behind = [found], tokens_behind(backbone.encoder, tokens, layers, position=backbone.position)
    else:
        layers = (*layers, 0) if fine else layers
        behind = backbone.forward_intermediates(images, layers)
    maps = []
    for number, tokens in zip(layers, behind, strict=True):
        cells = norms[str(number)](tokens.cells) if str(number) in norms else tokens.cells
        maps.append(to_maps(cells, (tokens.grid[0], tokens.grid[1])))
    return [*maps, *more]


def embed_fine(backbone: Any, images: Float[Tensor, "b ch h w"]) -> tuple[Float[Tensor, "b _ _ _"], Tokens]:
    """As `VisionTransformer.embed`, with the fine map."""
    tokenizer = backbone.tokenizer
    if isinstance(tokenizer, ConvTokenizer | ResidualTokenizer | ResNetStem):
        fine, tokens = tokenizer.forward_fine(images)
    else:
        tokens = tokenizer(images)
        fine = to_maps(tokens.x, (tokens.grid[0], tokens.grid[1]))
    return fine, backbone.position.embed(tokens if backbone.prefix is None else backbone.prefix(tokens))
