"""What exact resumption needs: everything that the next step depends on, in safetensors and JSON, no pickle."""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError
from vitrail.files import write_whole

Row = dict[str, int | float]  # of results.csv or metrics.jsonl
TENSORS, NUMBERS = "state.safetensors", "state.json"


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a run has come. The order of the data is a function of (seed, epoch), so two numbers find the place in it."""

    epoch: int = 0
    batch: int = 0  # batches of this epoch already done
    step: int = 0  # optimizer steps in all
    elapsed: float = 0.0  # seconds spent training and validating
    loss_sum: float = 0.0  # of this epoch's batches
    rate: float = 0.0  # learning rate of the last step
    target: float | None = None  # the highest validation score less its standard error: what the best epoch must reach
    best: Row | None = None  # the validation metrics of the best epoch
    rows: list[Row] = field(default_factory=list)  # results.csv
    finished: bool = False


def save_state(folder: Path, progress: Progress, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """One checkpoint: written beside the last one under a temporary name, renamed when whole, the last one then removed."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    names = {id(p): name for name, p in model.named_parameters()}
    for parameter, values in optimizer.state.items():
        tensors |= {f"optimizer/{key}/{names[id(parameter)]}": value for key, value in values.items()}
    tensors["generator/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors |= {f"generator/cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    folder.mkdir(parents=True, exist_ok=True)
    temporary, final = folder / ".writing", folder / f"step-{progress.step:09d}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    write_whole(temporary / TENSORS, safetensors.torch.save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}))
    write_whole(temporary / NUMBERS, json.dumps(asdict(progress)))
    if final.exists():  # the same step again, such as an interruption right after an epoch's end
        shutil.rmtree(folder / ".replaced", ignore_errors=True)
        final.rename(folder / ".replaced")
    temporary.rename(final)
    for old in folder.iterdir():
        if old != final:
            shutil.rmtree(old, ignore_errors=True)


def latest_state(folder: Path) -> Path | None:
    """The newest whole checkpoint, or None."""
    found = sorted(f for f in folder.glob("step-*") if (f / NUMBERS).is_file()) if folder.is_dir() else []
    if not found and (folder / ".replaced" / NUMBERS).is_file():
        return folder / ".replaced"
    return found[-1] if found else None


def read_progress(checkpoint: Path) -> Progress:
    try:
        return Progress(**json.loads((checkpoint / NUMBERS).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise VitrailError(f"{checkpoint / NUMBERS}: not a readable training state ({error})") from None


def load_state(checkpoint: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Put model, optimizer and generators back where they were."""
    path = checkpoint / TENSORS
    try:
        tensors = safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise VitrailError(f"{path}: truncated or not a training state ({error})") from None
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "generator": {}}
    for key, value in tensors.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = value
    try:
        model.load_state_dict(parts["model"])
    except RuntimeError as error:
        raise VitrailError(f"{path}: does not fit this model ({' '.join(str(error).split())[:200]})") from None
    parameters = dict(model.named_parameters())
    state: dict[Tensor, dict[str, Any]] = {}
    for key, value in parts["optimizer"].items():
        what, name = key.split("/", 1)
        parameter = parameters[name]
        # AdamW's fused form keeps its step counter on the parameter's device, as it was when saved.
        state.setdefault(parameter, {})[what] = value.to(parameter.device)
    optimizer.state.update(state)
    torch.set_rng_state(parts["generator"]["cpu"])
    for key, value in parts["generator"].items():
        if key.startswith("cuda") and torch.cuda.is_available():
            torch.cuda.set_rng_state(value, int(key.removeprefix("cuda")))
    return read_progress(checkpoint)
