"""Feature maps for dense heads: `create_model(..., features_only=True)`.

b batch, ch channels, h w image, d width, gh gw grid
"""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.models.classifier import Classifier
from vitrail.models.protocols import Backbone, FeatureInfo
from vitrail.nn.encoders.plain import PlainEncoder
from vitrail.nn.functional.maps import to_maps
from vitrail.nn.positions.position import Position
from vitrail.tokens import Tokens

LAST = 3  # maps of a plain encoder that are given by default, as in timm


class FeatureTable:
    """What timm's `FeatureInfo` answers: facts of the maps that come out; with `idx`, of any map, or of several."""

    def __init__(self, info: Sequence[FeatureInfo], out_indices: Sequence[int]) -> None:
        self.out_indices = tuple(out_indices)
        self.info = [
            {"num_chs": row.channels, "reduction": row.stride, "module": row.name, "index": number}
            for number, row in enumerate(info)
        ]

    def get(self, key: str, idx: int | Sequence[int] | None = None) -> Any:
        if isinstance(idx, int):
            return self.info[idx][key]
        return [self.info[number][key] for number in (self.out_indices if idx is None else idx)]

    def channels(self, idx: int | Sequence[int] | None = None) -> Any:
        return self.get("num_chs", idx)

    def reduction(self, idx: int | Sequence[int] | None = None) -> Any:
        """Pixels from one cell to the next."""
        return self.get("reduction", idx)

    def module_name(self, idx: int | Sequence[int] | None = None) -> Any:
        return self.get("module", idx)

    def get_dicts(self, keys: Sequence[str] | None = None, idx: int | Sequence[int] | None = None) -> Any:
        if isinstance(idx, int):
            return {key: self.info[idx][key] for key in keys or self.info[idx]}
        return [self.get_dicts(keys, number) for number in (self.out_indices if idx is None else idx)]

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self.info[number]

    def __len__(self) -> int:
        return len(self.info)


class FeatureMaps(nn.Module):
    """A model whose output is a list of maps, b d gh gw each, in the order of `out_indices`.

    As in timm, an int asks for the last maps, and the last norm is left out, so that maps are what the next block reads. By default a plain
    encoder gives its last three maps, an encoder of stages all of them.
    """

    def __init__(self, model: nn.Module, *, out_indices: int | Sequence[int] | None = None) -> None:
        super().__init__()
        if not isinstance(model, Classifier):
            raise VitrailError(f"features_only: a model of the kind {model.architecture} has no maps to give")
        self.out_indices = choose_maps(model, out_indices)
        self.feature_info = FeatureTable(model.feature_info, self.out_indices)
        model.reset_classifier(0)
        model.prune(max(self.out_indices))
        self.model = model

    def forward(self, images: Float[Tensor, "b ch h w"]) -> list[Float[Tensor, "b d gh gw"]]:
        found = self.model.forward_intermediates(images, self.out_indices)
        return [to_maps(tokens.cells, (tokens.grid[0], tokens.grid[1])) for tokens in found]


def choose_maps(backbone: Backbone, asked: int | Sequence[int] | None) -> tuple[int, ...]:
    """The numbers of the maps that are asked for, from 0."""
    info = backbone.feature_info
    if asked is None:
        asked = min(LAST, len(info)) if is_plain(info) else len(info)
    if isinstance(asked, int):
        if not 1 <= asked <= len(info):
            raise VitrailError(f"out_indices must be from 1 to {len(info)}, or a list of maps, got {asked}")
        asked = range(len(info) - asked, len(info))
    if not asked:
        raise VitrailError("out_indices must name at least one map, got none")
    return tuple(find_indices(asked, len(info), what="out_indices: map"))


def is_plain(info: Sequence[FeatureInfo]) -> bool:
    """Whether all maps are of one size, as those of a plain Vision Transformer."""
    return len({row.stride for row in info}) == 1


def find_indices(indices: Sequence[int], count: int, *, what: str = "map") -> list[int]:
    """The same numbers, counted from 0."""
    for index in indices:
        if not -count <= index < count:
            name = what.rsplit(" ", 1)[-1]
            raise VitrailError(f"{what} {index} does not exist: the model has {count} {name}s, 0 to {count - 1}")
    return [index % count for index in indices]


def tokens_behind(encoder: PlainEncoder, tokens: Tokens, indices: Sequence[int], *, position: Position) -> list[Tokens]:
    """The tokens behind the blocks `indices` (negative: from the end), in the order asked for, normed as the last are."""
    numbers = find_indices(indices, len(encoder.blocks), what="block")
    kept = encoder.walk(tokens, position=position, keep=numbers)[1]
    return in_order(kept, numbers)


def in_order(kept: Sequence[Tokens], numbers: Sequence[int]) -> list[Tokens]:
    """Tokens that were kept from the first to the last, in the order in which their numbers stand."""
    by_number = dict(zip(sorted(set(numbers)), kept, strict=True))
    return [by_number[number] for number in numbers]
