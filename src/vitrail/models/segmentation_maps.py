"""What a segmenter takes from its encoder: which of its maps, how large their cells are, and the maps themselves.

b batch, ch channels, h w picture
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError, VitrailWarning, check_choice
from vitrail.models import resnet, swin, vit
from vitrail.models.backbones import NETWORKS
from vitrail.models.features import tokens_behind
from vitrail.models.swin import SwinConfig
from vitrail.models.vit import ViTConfig
from vitrail.nn.functional.maps import to_maps
from vitrail.nn.tokenizers.convolutional import ConvTokenizer
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


def settle_encoder(
    network: str, record: Mapping[str, Any], given: Mapping[str, Any], *, head: str
) -> tuple[Any, tuple[int, int]]:
    """The encoder's config, without classes and with what is given, and the size of pictures: the encoder's own is whole cells of it."""
    check_choice("network of an encoder", network, NETWORKS)
    config = replace(from_record(NETWORKS[network].config, record, what="backbone"), num_classes=0)
    known = {one.name for one in fields(config)}
    changes = {name: value for name, value in given.items() if value is not None}
    for name in changes:
        if name not in known:
            raise VitrailError(f"{name}={changes[name]}: an encoder of the kind {network} has no {name}")
    if isinstance(config, ViTConfig):
        where = config.position_where if changes.get("position", config.position) == config.position else "auto"
        config = vit.settle(replace(config, position_where=where, **changes))
    else:
        config = replace(config, **changes)
        (swin.check if isinstance(config, SwinConfig) else resnet.check)(config)
    size: tuple[int, int] = config.image_size
    return replace(config, image_size=whole_cells(size, coarsest_stride(config, head=head))), size


def coarsest_stride(config: Any, *, head: str) -> int:
    """Pixels from one cell of the coarsest map to the next; UPerNet halves the last map of a plain encoder."""
    if isinstance(config, ViTConfig):
        patch = vit.settle(config).patch
        assert patch != "auto"
        return patch * (2 if head == "upernet" else 1)
    first = config.patch if isinstance(config, SwinConfig) else 1
    return int(first) << (len(config.depths) - 1)


def whole_cells(size: Sequence[int], stride: int) -> tuple[int, int]:
    """The least size of whole cells that holds a picture."""
    height, width = (side + -side % stride for side in size)
    return height, width


def fit_encoder(backbone: Any, settings: Mapping[str, Any], *, head: str) -> Any:
    """The encoder for whole cells of the pictures that are meant, with their channels, dropping what is to be dropped."""
    from vitrail.models.adapting import adapt  # which needs the catalogue, which needs this
    from vitrail.models.catalogue import rebuild

    if settings.get("drop_path", getattr(backbone.config, "drop_path", None)) != getattr(backbone.config, "drop_path", None):
        backbone = rebuild(backbone, drop_path=settings["drop_path"])
    wanted = whole_cells(settings["image_size"], coarsest_stride(backbone.config, head=head))
    changes = {"image_size": wanted, "in_channels": settings.get("in_channels", backbone.config.in_channels)}
    changes = {name: value for name, value in changes.items() if value != getattr(backbone.config, name)}
    backbone, notes = adapt(backbone, **changes)
    for note in notes:
        warnings.warn(note, VitrailWarning, stacklevel=3)
    return backbone


def map_widths(network: str, config: Any) -> list[int]:
    """The channels of all maps that an encoder can give: behind each block, or stage."""
    if network == "vit":
        return [config.width] * config.depth
    return [config.width << stage for stage in range(len(config.depths))] if network == "swin" else list(config.widths)


def default_layers(network: str, depth: int, head: str) -> tuple[int, ...]:
    """The last; for heads that read several, all stages, or four blocks at equal distances: of 24 the 6th, 12th, 18th and last  [Zheng+ 2021, section 3.2]."""
    if head not in SEVERAL:
        return (depth - 1,)
    if network != "vit":
        return tuple(range(depth))
    return tuple(-(-depth * (number + 1) // MAPS) - 1 for number in range(MAPS))


def fine_width(backbone: Any) -> int:
    """The channels of the fine map that `read_maps` gives."""
    if backbone.architecture != "vit":
        return map_widths(backbone.architecture, backbone.config)[0]
    return int(getattr(backbone.tokenizer, "fine_width", backbone.config.width))


def read_maps(
    backbone: Any, images: Float[Tensor, "b ch h w"], layers: Sequence[int], *, norms: nn.ModuleDict, fine: bool = False
) -> list[Float[Tensor, "b _ _ _"]]:
    """The maps behind the blocks or stages `layers`, each through the norm that has its number. With `fine` one more behind them: from
    within the convolutional stem, of a stem of patches its own map, of an encoder of stages the first one's."""
    more: list[Tensor] = []
    if fine and backbone.architecture == "vit":
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
    if isinstance(tokenizer, ConvTokenizer | ResNetStem):
        fine, tokens = tokenizer.forward_fine(images)
    else:
        tokens = tokenizer(images)
        fine = to_maps(tokens.x, (tokens.grid[0], tokens.grid[1]))
    return fine, backbone.position.embed(tokens if backbone.prefix is None else backbone.prefix(tokens))
