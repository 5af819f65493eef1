"""A model folder: config.json, model.safetensors, README.md, and tokenizer.json if the model reads text. Every later version reads what an earlier one wrote."""

import json
import platform
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from vitrail.byte_pairs import BytePairs
from vitrail.errors import VitrailError, VitrailWarning
from vitrail.files import read_json, write_whole
from vitrail.models.catalogue import ARCHITECTURES, build_model
from vitrail.models.convert.peft import FOLDER, save_adapter
from vitrail.models.lora import is_adapted, merged_weights
from vitrail.models.model import Model, unwrap
from vitrail.models.pretrained import check_sums, find_packaged, provenance_of, resolve_source, suggest_weights
from vitrail.models.protocols import HasClasses
from vitrail.models.reading.foreign import PICKLES
from vitrail.models.reading.hub import download, is_hub_id, split_hub_id
from vitrail.models.reading.safetensors_file import read_safetensors
from vitrail.models.reading.shards import INDEX
from vitrail.models.readme import README, readme
from vitrail.models.segmenter import Segmenter
from vitrail.models.word_model import WordModel
from vitrail.nn.initialization import shapes_only
from vitrail.preprocessing import Preprocessing
from vitrail.records import from_record, to_record
from vitrail.version import __version__

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
FOREIGN = frozenset({".safetensors", ".npz"})  # what weights of other libraries are read from without a question


def save(
    model: nn.Module, folder: str | Path, *, card: str | None = None, weights: Mapping[str, torch.Tensor] | None = None
) -> Path:
    """Write a model folder; files that are already there are replaced one by one, each whole.

    `card` is the text of README.md; by default what the model is and how to load it. `weights` are the model's, where it is divided among
    processes and has not all of them itself. Of a model with adapters (LoRA) the weights are the merged ones; what was learned by itself stands
    in the folder `adapter` inside.
    """
    folder = Path(folder)
    model = unwrap(model)
    if not isinstance(model, Model) or model.architecture not in ARCHITECTURES:
        raise VitrailError(f"only models from vt.create_model or vt.load can be saved, got {type(model).__name__}")
    check_fit(model, what="this model")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise VitrailError(f"{folder}: a file is in the way of the model folder") from None
    # Contiguous copies in name order, and no metadata: the bytes depend on the weights only.
    own = merged_weights(model) if weights is None else weights
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(own.items())}
    write_whole(folder / WEIGHTS, safetensors.torch.save(tensors))
    tokenizer = model_tokenizer(model)
    if tokenizer is not None:
        write_whole(folder / TOKENIZER, tokenizer.to_json() + "\n")
    config = json.dumps(describe(model), indent=2, ensure_ascii=False) + "\n"
    # A class named by a folder whose name is not UTF-8 has lone surrogates; the escape of Python for them is that of JSON.
    write_whole(folder / CONFIG, config.encode(errors="backslashreplace"))
    write_whole(folder / README, readme(model) if card is None else card)
    if is_adapted(model):
        save_adapter(model, folder / FOLDER)
    return folder


def describe(model: Model) -> dict[str, Any]:
    """What config.json says."""
    return {
        "format": FORMAT,
        "library": "vitrail",
        "architecture": model.architecture,
        **({} if model.task is None else {"task": model.task}),
        "config": to_record(model.config),
        "labels": None if model.labels is None else list(model.labels),
        **({"multi_label": True} if model.multi_label else {}),
        **({"colors": [list(color) for color in model.colors]} if isinstance(model, Segmenter) and model.colors else {}),
        "preprocessing": None if model.preprocessing is None else to_record(model.preprocessing),
        **({} if model_tokenizer(model) is None else {"tokenizer": TOKENIZER}),
        **({} if model.provenance is None else {"source": model.provenance}),
        "versions": {"vitrail": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    }


def model_tokenizer(model: Model) -> Any:
    """What makes numbers of text for a model; None for one that reads none, or has not got any yet."""
    return model.tokenizer if isinstance(model, WordModel) else None


def load(source: str | Path) -> Any:
    """A model in evaluation mode from a model folder, a run folder (its best/), a .safetensors file beside its config.json,
    a hub id "owner/name", or a name of weights (`vitrail models --pretrained`); also from weights of other libraries, .safetensors, .npz or a folder of transformers or timm, where every line
    about what was supposed is a VitrailWarning."""
    source = resolve_source(source) if isinstance(source, str) else source
    if (folder := find_own(source)) is not None:
        return load_folder(folder)
    from vitrail.models.importing import import_model  # which reads our own folders too

    model, notes = import_model(source)
    for note in notes:
        warnings.warn(note, VitrailWarning, stacklevel=2)
    return model


def load_folder(folder: Path) -> Any:
    """A model in evaluation mode from a folder that `save` wrote. Weights of half precision are read as float32, in which models are trained;
    what a folder says of the SHA-256 of its files is checked before they are parsed."""
    sums = check_sums(folder)
    config = read_config(folder / CONFIG)
    architecture = ARCHITECTURES[config["architecture"]]
    what = f"{folder / CONFIG}"
    settings = from_record(architecture.config, config["config"], what=f"{what}: config")
    tensors = {
        name: tensor.float() if tensor.dtype == torch.float16 else tensor
        for name, tensor in read_safetensors(folder / WEIGHTS).items()
    }
    try:
        with shapes_only():  # no time spent on drawing weights that are replaced at once
            model: Model = build_model(config["architecture"], settings)
    except Exception as error:  # sizes that no layer can have: torch raises whatever it likes
        raise VitrailError(f"{what}: config: no such model can be built ({error})") from None
    if (model.preprocessing is None) != (config["preprocessing"] is None):
        rule = "no images: preprocessing must be null" if model.preprocessing is None else "images: preprocessing is missing"
        raise VitrailError(f"{what}: a model of the kind {model.architecture} reads {rule}")
    if config["preprocessing"] is not None:
        model.preprocessing = from_record(Preprocessing, config["preprocessing"], what=f"{what}: preprocessing")
    if config["labels"] is not None or config.get("multi_label", False):
        if not isinstance(model, HasClasses):
            raise VitrailError(f"{what}: a model of the kind {model.architecture} has no classes to label")
        model.labels = None if config["labels"] is None else tuple(config["labels"])
        model.multi_label = config.get("multi_label", False)  # the key came after the first folders of this format
    if config.get("colors") is not None:
        set_colors(model, config["colors"], what=what)
    if config.get("tokenizer") is not None:
        if not isinstance(model, WordModel):
            raise VitrailError(f"{what}: a model of the kind {model.architecture} reads no text: it has no tokenizer")
        model.tokenizer = read_tokenizer(folder / TOKENIZER)
    if config.get("task") is not None:
        model.task = config["task"]
    if config.get("source") is not None:
        model.provenance = config["source"]
    if sums:
        model.provenance = provenance_of(folder, sums)
    check_fit(model, what=what)
    fill(model, tensors, what=str(folder / WEIGHTS))
    return model.eval()


def set_colors(model: Model, colors: list[Any], *, what: str) -> None:
    """What the classes of a segmenter are drawn in."""
    if not isinstance(model, Segmenter):
        raise VitrailError(f"{what}: a model of the kind {model.architecture} draws no classes: it has no colors")
    try:
        model.colors = colors
    except VitrailError as error:
        raise VitrailError(f"{what}: {error}") from None


def check_fit(model: Model, *, what: str) -> None:
    """What is reported of a model beside its weights must be about that model."""
    if model.labels is not None and isinstance(model, HasClasses) and len(model.labels) != model.num_classes:
        raise VitrailError(f"{what}: {len(model.labels)} labels for {model.num_classes} classes")
    if model.preprocessing is not None and model.preprocessing.channels != model.config.in_channels:
        raise VitrailError(
            f"{what}: preprocessing gives {model.preprocessing.channels} channels, the model expects {model.config.in_channels}"
        )
    if isinstance(model, WordModel) and model.tokenizer is not None and len(model.tokenizer) > model.vocabulary:
        raise VitrailError(f"{what}: the tokenizer has {len(model.tokenizer)} pieces, the model knows {model.vocabulary}")


def find(source: str | Path) -> Path:
    """The model folder that a user's words stand for."""
    if (folder := find_own(source)) is None:
        raise VitrailError(f"{source}: weights of another library; `vitrail import {source} --out FOLDER` makes a model folder")
    return folder


def architecture_of(run: str) -> str | None:
    """What kind of model a run or model folder has, by its config.json, without reading the weights; None where it has none of ours."""
    try:
        folder = find_own(run)
    except VitrailError:  # a cascade, or no model at all, which whoever opens it tells
        return None
    return None if folder is None else str(read_config(folder / CONFIG)["architecture"])


def find_own(source: str | Path) -> Path | None:
    """The same, or None where the words stand for what may be weights of another library."""
    path = Path(source).expanduser()
    if path.is_file():
        if path.name == WEIGHTS and (path.parent / CONFIG).is_file():
            return path.parent if is_own(path.parent / CONFIG) else None
        if path.suffix.lower() in FOREIGN | PICKLES or path.name.endswith(f".safetensors{INDEX}"):
            return None
        raise VitrailError(
            f"{path}: not a model; expected a model folder, a run folder or a .safetensors file, or weights of another library"
        )
    if path.is_dir():
        for folder in (path, path / "best", path / "last"):
            if (folder / CONFIG).is_file():
                return folder if is_own(folder / CONFIG) else None
        if any(file.suffix.lower() in FOREIGN | PICKLES and file.name != WEIGHTS for file in path.iterdir()):
            return None
        raise VitrailError(f"{path}: not a model folder: {CONFIG} is missing (and no best/ or last/ in it has one)")
    if isinstance(source, str) and (packaged := find_packaged(source)) is not None:
        return packaged.folder
    if is_hub_id(str(source)) and path.suffix.lower() not in FOREIGN | PICKLES:
        repository, revision = split_hub_id(str(source))
        folder = download(repository, [CONFIG, WEIGHTS, TOKENIZER, README], revision=revision)
        return folder if (folder / CONFIG).is_file() and is_own(folder / CONFIG) else None
    raise VitrailError(f"{path}: no such file or folder{suggest_weights(source)}")


def is_own(path: Path) -> bool:
    """Whether a config.json is not plainly that of another library. Where it is nobody's, `read_config` says so."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return True
    if not isinstance(config, dict) or config.get("library") == "vitrail" or "format" in config:
        return True
    return not any(name in config for name in ("model_type", "architectures", "architecture"))


def check_keys(record: Mapping[str, Any], expected: Mapping[str, Any], *, path: Path, newest: int) -> None:
    """That a file has each key, with a value of its type, and no format but those up to `newest`."""
    for key, kind in expected.items():
        if key not in record:
            raise VitrailError(f'{path}: the key "{key}" is missing')
        if not isinstance(record[key], kind):
            raise VitrailError(f'{path}: the key "{key}" must be {getattr(kind, "__name__", kind)}, got {record[key]!r}')
        if key == "format" and record[key] > newest:  # before the other keys, which may be others by then
            raise VitrailError(f"{path}: format {record[key]} is newer than this version reads ({newest}); update vitrail")


def read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    if not isinstance(config, dict) or config.get("library") != "vitrail":
        raise VitrailError(f'{path}: not a config of this library (no "library": "vitrail" in it)')
    expected = {"format": int, "architecture": str, "config": dict, "labels": list | None, "preprocessing": dict | None}
    check_keys(config, expected, path=path, newest=FORMAT)
    if not isinstance(config.get("task"), str | None):
        raise VitrailError(f'{path}: the key "task" must be a text, got {config["task"]!r}')
    if not isinstance(config.get("multi_label", False), bool):
        raise VitrailError(f'{path}: the key "multi_label" must be bool, got {config["multi_label"]!r}')
    if not isinstance(colors := config.get("colors"), list | None) or not all(isinstance(one, list) for one in colors or ()):
        raise VitrailError(f'{path}: the key "colors" must be a list of three numbers for each class')
    if not isinstance(config.get("source"), dict | None):
        raise VitrailError(f'{path}: the key "source" must be a table, got {config["source"]!r}')
    if config.get("tokenizer") not in (None, TOKENIZER):
        raise VitrailError(f'{path}: the key "tokenizer" must be "{TOKENIZER}", got {config["tokenizer"]!r}')
    if config["labels"] is not None and not all(isinstance(label, str) for label in config["labels"]):
        raise VitrailError(f"{path}: labels must be a list of texts")
    if config["architecture"] not in ARCHITECTURES:
        raise VitrailError(f"{path}: unknown architecture {config['architecture']!r}: expected {', '.join(ARCHITECTURES)}")
    return config


def read_tokenizer(path: Path) -> BytePairs:
    """Plain data: a vocabulary and its merges."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise VitrailError(f"{path}: missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise VitrailError(f"{path}: not readable as text ({error})") from None
    return BytePairs.from_json(text, where=str(path))


def fill(model: nn.Module, tensors: Mapping[str, torch.Tensor], *, what: str) -> None:
    """Give a model its weights, or say which name or shape does not fit and what was expected."""
    own = model.state_dict()
    for problem, names in (("misses", own.keys() - tensors.keys()), ("has the unknown", tensors.keys() - own.keys())):
        if names:
            more = f" and {len(names) - 1} more" if names - {min(names)} else ""
            raise VitrailError(f'{what}: {problem} weight "{min(names)}"{more}')
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape:
            raise VitrailError(f'{what}: "{name}" has shape {tuple(tensor.shape)}, expected {tuple(own[name].shape)}')
        if tensor.is_floating_point() != own[name].is_floating_point():
            raise VitrailError(f'{what}: "{name}" holds {tensor.dtype}, expected {own[name].dtype}')
    model.load_state_dict(dict(tensors), assign=True)
