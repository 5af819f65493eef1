"""Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors, by the names of our layers or of timm's and transformers'.

o output width, i input width, r rank
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.files import write_whole
from vitrail.models.classifier import Classifier
from vitrail.models.convert.renaming import PROJECTIONS, Style, as_filters
from vitrail.models.convert.vit import CLASSIFIERS
from vitrail.models.convert.vit_names import MODELS, blocks, kind_of, pairs
from vitrail.models.lora import QUERY_AND_VALUE, adapted_layers, hold_still, is_adapted, learned_whole
from vitrail.models.model import unwrap
from vitrail.models.reading.hub import download, is_hub_id, split_hub_id
from vitrail.models.reading.json_text import read_object
from vitrail.models.reading.safetensors_file import read_safetensors
from vitrail.models.vit import VisionTransformer
from vitrail.nn.adapters.lora import PARTS, Adapted, adapt, row_norms, why_not

CONFIG, WEIGHTS, FOLDER = "adapter_config.json", "adapter_model.safetensors", "adapter"
BEFORE = "base_model.model."  # what stands before each of PEFT's keys
A, B, MAGNITUDE = ".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"
# What a config may say without a word; another value would be another computation.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "bias": ("none", None), "fan_in_fan_out": (False, None), "use_qalora": (False, None), "lora_bias": (False, None), "use_bdlora": (None, False),
    "layer_replication": (None,), "alora_invocation_tokens": (None,), "trainable_token_indices": (None,), "target_parameters": (None, []),
    "arrow_config": (None,), "kasa_config": (None,), "velora_config": (None,), "monteclora_config": (None,),
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal"),  # others change the weights of the model
}  # fmt: skip
Names = Literal["vitrail", "timm", "transformers"]


@dataclass(frozen=True)
class Delta:
    """scale B A of a layer, and its magnitudes; those with `parts` are of a joined projection, B then in blocks as `Adapted` has it."""

    a: Tensor  # r i, or r filters
    b: Tensor  # o r
    scale: float
    magnitude: Tensor | None = None
    parts: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return self.b.shape[1]


class Stored(NamedTuple):
    """What the two files say: of layers that are adapted, and of weights that are replaced as a whole."""

    deltas: dict[str, Delta]
    whole: dict[str, Tensor]


def save_adapter(model: nn.Module, folder: str | Path, *, names: Names = "vitrail") -> Path:
    """Write what a model of `vt.add_lora` has learned, head included, in PEFT's two files; `names`: whose layers they are for.

    By our names, or those of any other model's own modules, `PeftModel.from_pretrained(model, folder)` adapts the same model; timm's and
    transformers' are for the models that `vitrail export` makes of a vit.
    """
    check_choice("names", names, ("vitrail", "timm", "transformers"))
    folder, model = Path(folder), unwrap(model)
    layers = adapted_layers(model)
    if not layers:
        raise VitrailError("the model has no adapters to save: vt.add_lora makes them")
    deltas = {name: delta_of(layer) for name, layer in layers.items()}
    whole = {name: p.detach().cpu() for name, p in learned_whole(model).items()}
    least = min(delta.rank for delta in deltas.values())
    if names == "vitrail":
        deltas = {name: join_parts(layers[name], delta) for name, delta in deltas.items()}
    else:
        deltas, whole = to_names(model, deltas, whole, names)
    tensors = dict(sorted(whole.items()))
    for name, delta in deltas.items():
        filters = delta.a.ndim == 4
        tensors[name + A], tensors[name + B] = delta.a, delta.b[:, :, None, None] if filters else delta.b
        if delta.magnitude is not None:
            tensors[name + MAGNITUDE] = delta.magnitude[None, :, None, None] if filters else delta.magnitude
    record = {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": None, "inference_mode": True,
        **ranks_of(deltas, least=least),
        "lora_dropout": 0.0, "bias": "none", "fan_in_fan_out": False, "init_lora_weights": True,
        "use_dora": any(delta.magnitude is not None for delta in deltas.values()), "use_rslora": False,
        "target_modules": sorted(deltas), "modules_to_save": sorted({name.rpartition(".")[0] for name in whole}) or None,
    }  # fmt: skip
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise VitrailError(f"{folder}: a file is in the way of the folder of the adapter") from None
    content = {BEFORE + name: tensor.contiguous() for name, tensor in sorted(tensors.items())}
    write_whole(folder / WEIGHTS, safetensors.torch.save(content, metadata={"format": "pt"}))
    write_whole(folder / CONFIG, json.dumps(record, indent=2) + "\n")
    return folder


def ranks_of(deltas: Mapping[str, Delta], *, least: int) -> dict[str, Any]:
    """r and lora_alpha, and the layers that differ from most. `least`: the rank of each A and B; a joined projection has the sum of several."""
    common = next((delta for delta in deltas.values() if delta.rank == least), next(iter(deltas.values())))
    alpha = common.scale * least
    others = {name: delta for name, delta in deltas.items() if (delta.rank, delta.scale) != (least, common.scale)}
    return {
        "r": least,
        "lora_alpha": round(alpha) if alpha == round(alpha) else alpha,
        "rank_pattern": {name: delta.rank for name, delta in others.items()},
        "alpha_pattern": {name: delta.scale * delta.rank for name, delta in others.items()},
    }


def delta_of(layer: Adapted) -> Delta:
    """As the layer has it."""
    magnitude = None if layer.magnitude is None else layer.magnitude.detach().cpu()
    return Delta(layer.lora_a.detach().cpu(), layer.lora_b.detach().cpu(), layer.scale, magnitude, layer.parts)


def join_parts(layer: Adapted, delta: Delta) -> Delta:
    """Of a joined projection, as one A and one B of the whole of it: B is zero where an A is another part's."""
    if not delta.parts:
        return delta
    norms = row_norms(layer.weight.detach()).cpu()
    b = delta.b.new_zeros(len(norms), len(delta.a))
    for number, (rows, part) in enumerate(zip(layer.rows, delta.b.chunk(len(delta.parts)), strict=True)):
        b[rows, number * delta.rank : (number + 1) * delta.rank] = part
    magnitude = None
    if delta.magnitude is not None:
        magnitude = norms.clone()
        for rows, part in zip(layer.rows, delta.magnitude.chunk(len(delta.parts)), strict=True):
            magnitude[rows] = part
    return Delta(delta.a, b, delta.scale, magnitude)


def to_names(
    model: nn.Module, deltas: Mapping[str, Delta], whole: Mapping[str, Tensor], names: Literal["timm", "transformers"]
) -> tuple[dict[str, Delta], dict[str, Tensor]]:
    """By the names of another library, whose vits compute what ours do."""
    if not isinstance(model, VisionTransformer):
        raise VitrailError(
            f"an adapter by the names of {names} is for a vit, not for a {getattr(model, 'architecture', 'model')}"
        )
    first = "" if names == "timm" or not model.config.num_classes else f"{kind_of(model.config)}."
    theirs = {
        ours: their if their.startswith(CLASSIFIERS) else first + their for their, ours in layer_names(model, names).items()
    }
    found, left = dict[str, Delta](), dict(deltas)
    if names == "timm":
        for their, inner in blocks(model.config, "timm"):
            projections = {name: left.pop(f"{inner}attention.{name}", None) for name in PROJECTIONS}
            if any(projections.values()):
                layers = [model.get_submodule(f"{inner}attention.{name}") for name in PROJECTIONS]
                found[f"{their}attn.qkv"] = join_projections(list(projections.values()), layers)
    if (patches := left.pop("tokenizer.project", None)) is not None:  # our matrix is their convolution
        filters = as_filters(patches.a, model.config.in_channels, int(model.config.patch))
        found[rename("tokenizer.project", theirs, names)] = replace(patches, a=filters)
    found |= {rename(name, theirs, names): delta for name, delta in left.items()}
    return found, {
        f"{rename(name.rpartition('.')[0], theirs, names)}.{name.rpartition('.')[2]}": p for name, p in whole.items()
    }


def join_projections(deltas: list[Delta | None], layers: list[Any]) -> Delta:
    """Those of queries, keys and values as one of all three."""
    known = [delta for delta in deltas if delta is not None]
    if len({delta.scale for delta in known}) > 1:
        raise VitrailError("queries and values are adapted with different scales: timm, where they are one matrix, has one")
    norms = [row_norms(layer.weight.detach()).cpu() for layer in layers]
    b, column = known[0].b.new_zeros(sum(map(len, norms)), sum(delta.rank for delta in known)), 0
    for number, delta in enumerate(deltas):
        if delta is not None:
            row = sum(map(len, norms[:number]))
            b[row : row + len(delta.b), column : column + delta.rank] = delta.b
            column += delta.rank
    magnitude = None
    if known[0].magnitude is not None:
        own = [norm if delta is None else delta.magnitude for delta, norm in zip(deltas, norms, strict=True)]
        magnitude = torch.cat([one for one in own if one is not None])
    return Delta(torch.cat([delta.a for delta in known]), b, known[0].scale, magnitude)


def rename(name: str, names: Mapping[str, str], library: str) -> str:
    if name not in names:
        raise VitrailError(f'"{name}" has no counterpart in {library}: save the adapter by our own names')
    return names[name]


def layer_names(model: VisionTransformer, style: Style) -> dict[str, str]:
    """The layers of a vit, theirs to ours, without the name of a model in front; one that this model has not stands for nothing."""
    return dict(pairs(model.config, style))


def bare_name(name: str) -> str:
    """Without the name of transformers' model in front."""
    return next((name.removeprefix(f"{model}.") for model in MODELS if name.startswith(f"{model}.")), name)


def load_adapter(model: Any, source: str | Path) -> Any:
    """Adapt a model in place as PEFT's two files say, and give it back: a folder, a run folder or a hub id.

    Of our vits, the files may name the layers as timm or transformers does. A head of another number of classes takes the place of
    the model's own. What learns afterwards is what `vt.add_lora` leaves to learn.
    """
    if is_adapted(model):
        raise VitrailError("the model has adapters already: vt.merge_lora(model) makes them part of its weights")
    folder = find_adapter(source)
    stored = read_adapter(folder)
    stored = translate(model, stored, what=str(folder / WEIGHTS))
    layers = dict(model.named_modules())
    for name, delta in stored.deltas.items():
        check_layer(name, layers[name], delta, what=str(folder / WEIGHTS))
    fill_whole(model, stored.whole, what=str(folder / WEIGHTS))
    hold_still(model)
    for name, parameter in model.named_parameters():
        if name in stored.whole:
            parameter.requires_grad_(True)
    for name, delta in stored.deltas.items():
        put(layers[name], delta)
    return model


def find_adapter(source: str | Path) -> Path:
    """The folder with the two files."""
    path = Path(source).expanduser()
    for folder in (path, path / FOLDER, path / "best" / FOLDER):
        if (folder / CONFIG).is_file():
            return folder
    if not path.exists() and is_hub_id(str(source)):
        repository, revision = split_hub_id(str(source))
        folder = download(repository, [CONFIG, WEIGHTS], revision=revision)
        if (folder / CONFIG).is_file():
            return folder
    raise VitrailError(f"{source}: no adapter: there is no {CONFIG} in it")


def read_adapter(folder: Path) -> Stored:
    """What the files say, by the names that they use."""
    record = read_object(folder / CONFIG)
    if record.get("peft_type") != "LORA":
        raise VitrailError(f"{folder / CONFIG}: an adapter of the type {record.get('peft_type')!r}; only LORA is read")
    for key in ("rank_pattern", "alpha_pattern"):
        if not isinstance(record.get(key), dict | None):
            raise VitrailError(f"{folder / CONFIG}: {key} must be a table, got {record[key]!r}")
    for key, neutral in NEUTRAL.items():
        if record.get(key, neutral[0]) not in neutral:
            raise VitrailError(f"{folder / CONFIG}: {key} {record[key]!r} is not supported")
    tensors, path = read_safetensors(folder / WEIGHTS), folder / WEIGHTS
    bare = {name.removeprefix(BEFORE): tensor for name, tensor in tensors.items()}
    names = [name.removesuffix(A) for name in bare if name.endswith(A)]
    if not names:
        raise VitrailError(f"{path}: no adapter: it has no tensor that ends with {A}")
    deltas = dict[str, Delta]()
    for name in names:
        a, b, magnitude = bare.pop(name + A), bare.pop(name + B, None), bare.pop(name + MAGNITUDE, None)
        if b is None:
            raise VitrailError(f'{path}: "{name}{B}" is missing')
        if a.ndim < 2 or b.ndim < 2 or not len(a) or a.shape[0] != b.shape[1]:
            raise VitrailError(f'{path}: "{name}" has an A of {tuple(a.shape)} and a B of {tuple(b.shape)}, which do not fit')
        if bool(record.get("use_dora")) != (magnitude is not None):
            raise VitrailError(f'{path}: "{name}" has {"no" if magnitude is None else "a"} magnitude, against {CONFIG}')
        rank = record.get("r")
        joined = isinstance(rank, int) and in_pattern(record.get("rank_pattern"), name) == 2 * rank
        magnitude = None if magnitude is None else magnitude.flatten()
        delta = Delta(a, b.flatten(1), scale_of(record, name, len(a), what=str(folder / CONFIG)), magnitude)
        deltas[name] = take_parts(delta) if joined and name.endswith("qkv") else delta
    if (strange := next((name for name in bare if ".lora_" in name), None)) is not None:
        raise VitrailError(f'{path}: unknown tensor "{strange}"')
    return Stored(deltas, bare)


def scale_of(record: Mapping[str, Any], name: str, rank: int, *, what: str) -> float:
    """By what B A of a layer is multiplied."""
    alpha = in_pattern(record.get("alpha_pattern"), name)
    alpha = record.get("lora_alpha") if alpha is None else alpha
    if not isinstance(alpha, int | float) or isinstance(alpha, bool):
        raise VitrailError(f"{what}: lora_alpha must be a number, got {alpha!r}")
    return float(alpha / (math.sqrt(rank) if record.get("use_rslora") else rank))


def in_pattern(patterns: Mapping[str, Any] | None, name: str) -> Any:
    """The value of the first key, an expression, that the end of a name matches; None where none does."""
    for key, value in (patterns or {}).items():
        try:
            if re.fullmatch(rf"(?:.*\.)?(?:{key})", name):
                return value
        except re.error:
            raise VitrailError(f"{CONFIG}: {key!r} is no expression") from None
    return None


def take_parts(delta: Delta) -> Delta:
    """The inverse of `join_parts` for queries and values; unchanged where B has no such blocks."""
    half = delta.rank // 2
    query, key, value = delta.b.chunk(PARTS)
    if key.any() or query[:, half:].any() or value[:, :half].any():
        return delta
    b, magnitude = torch.cat([query[:, :half], value[:, half:]]), delta.magnitude
    if magnitude is not None:
        thirds = magnitude.chunk(PARTS)
        magnitude = torch.cat([thirds[part] for part in QUERY_AND_VALUE])
    return Delta(delta.a, b, delta.scale, magnitude, QUERY_AND_VALUE)


def translate(model: nn.Module, stored: Stored, *, what: str) -> Stored:
    """By the names of the model's own layers."""
    own = {name for name, _ in model.named_modules()}
    named = [*stored.deltas, *(name.rpartition(".")[0] for name in stored.whole)]
    if own.issuperset(named):
        return stored
    styles: tuple[Style, ...] = ("timm", "transformers", "transformers_files")  # the last: its modules up to version 4
    for style in styles if isinstance(model, VisionTransformer) else ():
        assert isinstance(model, VisionTransformer)
        ours = layer_names(model, style)
        joined = {f"{their}attn.qkv": f"{inner}attention." for their, inner in blocks(model.config, style) if style == "timm"}
        if not (ours.keys() | joined.keys()).issuperset(map(bare_name, named)):
            continue
        deltas = dict[str, Delta]()
        for name, delta in stored.deltas.items():
            if (bare := bare_name(name)) in joined:
                deltas |= {joined[bare] + part: one for part, one in split_projections(delta).items()}
            else:
                deltas[ours[bare]] = delta
        layer_of = {name: name.rpartition(".") for name in stored.whole}
        whole = {f"{ours[bare_name(layer_of[name][0])]}.{layer_of[name][2]}": p for name, p in stored.whole.items()}
        return Stored(deltas, whole)
    strange = next(name for name in named if name not in own)
    raise VitrailError(f'{what}: the model has no layer "{strange}"')


def split_projections(delta: Delta) -> dict[str, Delta]:
    """Of a joined projection, those of its parts; they share an A where it is not known to be in blocks."""
    known = delta.parts or tuple(range(PARTS))
    each_a = delta.a.chunk(len(known)) if delta.parts else [delta.a] * PARTS
    magnitudes = [None] * len(known) if delta.magnitude is None else delta.magnitude.chunk(len(known))
    pieces = zip(known, each_a, delta.b.chunk(len(known)), magnitudes, strict=True)
    return {PROJECTIONS[part]: Delta(a, b, delta.scale, magnitude) for part, a, b, magnitude in pieces}


def check_layer(name: str, layer: nn.Module, delta: Delta, *, what: str) -> None:
    """A delta must be for such a layer."""
    if (reason := why_not(layer)) is not None:
        raise VitrailError(f'{what}: "{name}" {reason}, which cannot be adapted')
    weight: Any = layer.weight
    rows = len(weight) * len(delta.parts) // PARTS if delta.parts else len(weight)
    found, expected = (len(delta.b), delta.a[0].numel()), (rows, weight[0].numel())
    if found != expected or (delta.magnitude is not None and len(delta.magnitude) != rows):
        raise VitrailError(
            f'{what}: "{name}" is adapted from {found[1]} to {found[0]} values, the layer has {expected[1]} and {expected[0]}'
        )


@torch.no_grad()
def put(layer: nn.Module, delta: Delta) -> None:
    """Adapt a layer with these numbers."""
    rank = delta.rank
    adapted = adapt(layer, rank=rank, scale=delta.scale, dora=delta.magnitude is not None, parts=delta.parts)
    adapted.lora_a.copy_(delta.a.reshape(adapted.lora_a.shape))
    adapted.lora_b.copy_(delta.b)
    if adapted.magnitude is not None and delta.magnitude is not None:
        adapted.magnitude.copy_(delta.magnitude)


@torch.no_grad()
def fill_whole(model: nn.Module, whole: Mapping[str, Tensor], *, what: str) -> None:
    """Weights that are replaced as a whole: the head's."""
    output = whole.get("head.output.weight")
    if isinstance(model, Classifier) and output is not None and output.ndim == 2 and len(output) != model.num_classes:
        model.reset_classifier(len(output))
    own = model.state_dict()
    for name, tensor in whole.items():
        if name not in own:
            raise VitrailError(f'{what}: the model has no weight "{name}"')
        if own[name].shape != tensor.shape:
            raise VitrailError(f'{what}: "{name}" has shape {tuple(tensor.shape)}, expected {tuple(own[name].shape)}')
        own[name].copy_(tensor)
