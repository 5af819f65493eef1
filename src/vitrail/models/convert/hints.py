"""What is given beside the weights of a model: by whoever brings them, and by timm's config.json."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from vitrail.errors import VitrailError, check_choice
from vitrail.models.convert.foreign_records import as_count, as_size
from vitrail.nn.blocks.feed_forward import Activation
from vitrail.nn.heads.classification import Pool

POOLS: Mapping[str, Pool | None] = {"token": "class", "avg": "mean", "": None}
ACTIVATIONS = ("gelu", "quick_gelu", "relu")


class Hints(NamedTuple):
    """Nothing of it is needed, and what the weights say themselves is not asked for."""

    name: str | None = None  # timm's, such as vit_small_patch16_224
    image_size: tuple[int, int] | None = None
    heads: int | None = None
    pool: Pool | None = None
    activation: Activation = "gelu"


def read_hints(
    record: Mapping[str, Any] | None, *, image_size: tuple[int, int] | None = None, heads: int | None = None
) -> Hints:
    """What timm's record says of a model, in its `architecture`, `pretrained_cfg` and `model_args`; what is given here counts more."""
    if image_size is not None:
        as_size("image_size", image_size)
    if heads is not None:
        as_count("heads", heads)
    if record is None or "architecture" not in record:
        return Hints(image_size=image_size, heads=heads)
    cfg, options = table(record, "pretrained_cfg"), table(record, "model_args")
    size = options.get("img_size", (cfg.get("input_size") or (None, None))[1:])
    found = as_size("input_size", size) if size not in ((None,), [None]) else None
    own = options.get("num_heads")
    pool = check_choice("global_pool", str(options.get("global_pool", record.get("global_pool", ""))), POOLS)
    activation = check_choice("act_layer", str(options.get("act_layer", "gelu")), ACTIVATIONS)
    return Hints(
        name=str(record["architecture"]).split(".")[0],
        image_size=image_size or found,
        heads=heads or (None if own is None else as_count("num_heads", own)),
        pool=POOLS[pool],
        activation=cast(Activation, activation),
    )


def table(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A table inside a record, empty where there is none."""
    found = record.get(key) or {}
    if not isinstance(found, Mapping):
        raise VitrailError(f"config.json: {key} must be a table, got {type(found).__name__}")
    return found
