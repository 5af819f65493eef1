"""How long and how to learn: what the training loop receives."""

from dataclasses import dataclass
from typing import Literal

from vitrail.learn.optim.optimizers import OptimizerName

Precision = Literal["fp32", "bf16"]
Schedule = Literal["cosine", "inverse_sqrt", "constant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """`minutes`, where given, bounds the run instead of `epochs`."""

    epochs: int
    minutes: float | None = None
    began_with: tuple[int, float | None] | None = None  # epochs and minutes of a run whose end was moved since; None: these
    scored: bool = False  # whether test was read at the end that the run had before
    patience: int | None = None  # epochs without a higher validation score, after which the run ends
    finish: bool = False  # train no more: validate what was not yet validated, and end
    lr: float
    weight_decay: float
    final_weight_decay: float | None = None  # where the pull on the weights ends, by a cosine; None: where it began
    warmup: float  # share of the run
    probe: float = 0.0  # share of the run in which only the head learns, at the peak rate, before the schedule begins
    schedule: Schedule = "cosine"  # of the rate after the warmup
    clip: float  # largest norm of the gradient
    optimizer: OptimizerName = "adamw"
    layer_decay: float = 1.0  # factor on the rate from each block to the one before it
    accumulate: int = 1  # parts that a batch is cut into
    sam: float = 0.0  # radius of sharpness-aware minimization
    ema: float = 0.0  # decay of the average of the weights; 0: none
    progressive: float = 1.0  # share of the image's side to begin with
    multiple: int = 1  # of which a smaller side must be one
    keep_last: bool = False  # best/ is of the last epoch: the validation images are learned from too
    seed: int = 0  # only used where several processes must draw different numbers
    device: str = "cpu"
    precision: Precision = "fp32"
