"""The way out: a folder that transformers or timm loads, with our weights under their names."""

import json
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
from torch import Tensor

from vitrail.errors import VitrailError, check_choice
from vitrail.files import write_whole
from vitrail.models.backbones import Pretrained
from vitrail.models.classifier import Classifier
from vitrail.models.convert.mae import config_to_vitmae, to_vitmae
from vitrail.models.convert.swin import to_swin
from vitrail.models.convert.timm_records import EPS, timm_record
from vitrail.models.convert.transformers_records import model_record, preprocessor_record
from vitrail.models.convert.vit import to_vit
from vitrail.models.detr import Detector
from vitrail.models.model import ImageModel, Model, unwrap
from vitrail.models.segmenter import Segmenter

Library = Literal["transformers", "timm"]
CONFIG, WEIGHTS, PREPROCESSOR = "config.json", "model.safetensors", "preprocessor_config.json"


def write_foreign(model: Model, folder: str | Path, *, style: Library) -> tuple[str, ...]:
    """Write the folder, and tell what is different there and how to load it, a line each. A folder with a model in it is refused.

    transformers: `AutoModelForImageClassification.from_pretrained(folder)`; timm: `timm.create_model("local-dir:folder", pretrained=True)`.
    """
    check_choice("library", style, ("transformers", "timm"))
    folder = Path(folder)
    model = unwrap(model)
    for name in (CONFIG, WEIGHTS):
        if (folder / name).exists():
            raise VitrailError(f"{folder}: there is a {name} in it already; choose another folder")
    record, weights = translate(model, style)  # before anything is written: it may be refused
    tensors = {name: tensor.contiguous() for name, tensor in sorted(weights.items())}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise VitrailError(f"{folder}: a file is in the way of the folder") from None
    write_whole(folder / WEIGHTS, safetensors.torch.save(tensors, metadata={"format": "pt"}))  # without it transformers refuses
    assert isinstance(model, ImageModel)  # `translate` has refused all others
    if style == "transformers":
        write_whole(folder / PREPROCESSOR, to_json(preprocessor_record(model.preprocessing)))
    write_whole(folder / CONFIG, to_json(record))
    return tuple(tell(model, folder, record, style))


def translate(model: Model, style: Library) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Their config.json, and the weights by the names of their files; refused where theirs do not compute what ours does."""
    files: Literal["timm", "transformers_files"] = "timm" if style == "timm" else "transformers_files"
    ours = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    config = model.config
    if model.architecture == "mae":
        weights = to_vitmae(ours, config, style=files)
        return {"architectures": ["ViTMAEForPreTraining"], **config_to_vitmae(config)}, weights
    if model.architecture not in ("vit", "swin"):
        inside = ": write its backbone" if isinstance(model, Pretrained | Segmenter | Detector) else ""
        raise VitrailError(f"{style} has no model of the kind {model.architecture}{inside}")
    assert isinstance(model, ImageModel)
    weights = (to_vit if model.architecture == "vit" else to_swin)(ours, config, style=files)
    record = timm_record(config, model.labels, model.preprocessing) if style == "timm" else model_record(config, model.labels)
    return record, weights


def tell(model: ImageModel, folder: Path, record: dict[str, Any], style: Library) -> list[str]:
    """What a user has to know."""
    notes, config = [], model.config
    if style == "timm" and config.eps != EPS[model.architecture]:
        notes.append(
            f"timm's norms have an eps of {EPS[model.architecture]:g}, this model's {config.eps:g}: its answers differ a little"
        )
    if record.get("architectures") == ["ViTModel"] and config.head_hidden is None:
        notes.append("ViTModel has a pooler, which is not among these weights: read last_hidden_state")
    if (
        model.preprocessing.fit == "crop"
        and model.preprocessing.size[0] != model.preprocessing.size[1]
        and style == "transformers"
    ):
        notes.append("its image processor squashes images where ours cuts the middle out: it has none for such a shape")
    if style == "timm":
        return [*notes, f'timm.create_model("local-dir:{folder}", pretrained=True) loads it']
    kind = "AutoModelForImageClassification" if isinstance(model, Classifier) and model.num_classes else "AutoModel"
    kind = "AutoModelForPreTraining" if model.architecture == "mae" else kind
    return [*notes, f'transformers.{kind}.from_pretrained("{folder}") loads it']


def to_json(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")
