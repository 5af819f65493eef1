"""What a training costs before it is started: floating-point operations, seconds and bytes, from the config alone.

n tokens, d width, r the MLP's width over d, L blocks, N parameters, w processes. docs/scale.md has the tables.
"""

import math
from dataclasses import dataclass
from typing import Literal

from vitrail.errors import VitrailError
from vitrail.models.catalogue import count_parameters
from vitrail.models.vit import ViTConfig, build_vit, resolve_config
from vitrail.nn.initialization import shapes_only
from vitrail.nn.tokenizers.convolutional import plan_convolutions

BACKWARD = 2  # gradients by the input and by the weights: each as many multiply-adds as the forward pass
MOMENTS = 2  # AdamW's two
ADAMW_BYTES = 28  # read weight, gradient and both moments, write three of them; four bytes each
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One kind of accelerator, a number of them a host, and what joins them. Rates are of one accelerator, a second."""

    name: str
    peak: float  # floating-point operations in the precision used
    utilization: float  # share of the peak that a training step reaches
    memory: float  # bytes
    memory_bandwidth: float  # bytes
    host: int  # accelerators a host
    inside: float  # bytes sent between those of a host
    between: float  # bytes sent between hosts
    overlap: float  # share of the exchange that hides behind the backward pass
    read: float  # images that its share of the host's cores decodes and augments
    block_seconds: float = 0.0  # least time of a block's step, however few the tokens: launching its kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """Seconds are of one step, bytes of one process."""

    parameters: int
    flops: float  # of the whole training, all processes
    steps: int
    compute_seconds: float
    launch_seconds: float  # what launching kernels takes longer than that
    exchange_seconds: float  # what the backward pass does not hide
    optimizer_seconds: float
    reading_seconds: float  # what the computing does not hide
    memory: float

    @property
    def step_seconds(self) -> float:
        busy = self.compute_seconds + self.launch_seconds + self.exchange_seconds
        return busy + self.optimizer_seconds + self.reading_seconds

    @property
    def hours(self) -> float:
        return self.steps * self.step_seconds / 3600

    @property
    def limit(self) -> str:
        """What to improve first: reading if all else waits for it, else the longest part of a step."""
        parts = {"computing": self.compute_seconds + self.optimizer_seconds, "launching": self.launch_seconds}
        parts["exchange"] = self.exchange_seconds
        return "reading" if self.reading_seconds else max(parts, key=lambda name: parts[name])


def grid_of(config: ViTConfig) -> tuple[int, int]:
    """Cells down and across. A convolutional tokenizer pads a side that does not divide; the others refuse it."""
    stride = config.patch
    assert stride != "auto"
    height, width = (math.ceil(side / stride) for side in config.image_size)
    return height, width


def tokenizer_macs(config: ViTConfig) -> int:
    """Multiply-adds of one image's tokens: a matrix on patches, 3x3 convolutions, residual blocks of them, or the first stages of a ResNet-50."""
    height, width = config.image_size
    assert config.patch != "auto"
    cells = math.prod(grid_of(config))
    if config.tokenizer == "patch":
        return cells * config.patch**2 * config.in_channels * config.width
    total, before = 0, config.in_channels
    if config.tokenizer == "conv":
        layers, pooling = config.tokenizer_layers, config.tokenizer_pooling
        for one in plan_convolutions(before, config.width, stride=config.patch, layers=layers, pooling=pooling):
            total += 9 * one.before * one.after * height * width
            if one.halves:
                height, width = math.ceil(height / 2), math.ceil(width / 2)
        return total
    if config.tokenizer == "residual":
        for after, blocks in zip((*config.tokenizer_widths, config.width), config.tokenizer_depths, strict=True):
            height, width = math.ceil(height / 2), math.ceil(width / 2)
            total += 9 * after * (before + 2 * blocks * after) * height * width
            before = after
        return total
    total, before = 49 * before * 64 * (height // 2) * (width // 2), 64
    for stage, blocks in enumerate((3, 4, 9)):
        inner, area = 64 << stage, (height // (4 << stage)) * (width // (4 << stage))
        for block in range(blocks):
            wide = area * (4 if stage and not block else 1)  # the first 1x1 of a stage comes before its stride
            shortcut = 0 if block else before * 4 * inner * area
            total += before * inner * wide + 9 * inner**2 * area + 4 * inner**2 * area + shortcut
            before = 4 * inner
    return total + before * config.width * cells


def cells_read(config: ViTConfig, *, training: bool) -> int:
    """How many cells the blocks read: in training those that are not dropped."""
    cells = math.prod(grid_of(config))
    return max(1, round(config.token_keep * cells)) if training else cells


def forward_macs(config: ViTConfig, *, training: bool = False) -> int:
    """Multiply-adds of one image: tokenizer + L (4 n d² + 2 n² d + 2 r n d²) + head. With merging n falls from block to block, between
    its two halves, and the cosines of one half of the cells with the other are counted.

    A block's matrices are queries, keys, values and output (4 d²) and the MLP's two (2 r d²; a gate is a third), for each token;
    the scores and the weighted sum of the values take n d each, for each token. Norms, softmax and activations are not counted: they are
    limited by memory, and the utilization answers for them.
    """
    config = resolve_config(config)
    cells = cells_read(config, training=training)
    d, hidden = config.width, int(config.width * config.mlp_ratio)
    matrices, blocks = 3 if config.activation == "swiglu" else 2, 0
    for _ in range(config.depth):
        n = cells + config.prefix
        blocks += 4 * n * d * d + 2 * n * n * d
        if config.merge:
            blocks += (cells // 2) * (cells - cells // 2) * (d // config.heads)
            cells -= min(config.merge, cells // 2)
        blocks += matrices * (cells + config.prefix) * d * hidden
    pool = 2 * cells * d if config.pool == "attention" else 0
    features = config.head_hidden or d
    head = pool + (d * features if config.head_hidden else 0) + features * config.num_classes
    return tokenizer_macs(config) + blocks + head


def training_flops(config: ViTConfig) -> float:
    """Floating-point operations of one image in training: two a multiply-add, forward and backward."""
    return 2.0 * (1 + BACKWARD) * forward_macs(config, training=True)


def parameter_count(config: ViTConfig) -> int:
    """Exact: the model is built without memory for its weights."""
    with shapes_only():
        return count_parameters(build_vit(config))


def state_bytes(precision: Precision, *, averaged: bool = False, shards: int = 1) -> float:
    """Bytes a parameter: weights, gradients and AdamW's moments in fp32, an average of the weights if kept, divided among
    `shards` processes; in bf16, beside them the copy of the weights that autocast makes for the matrix products."""
    kept = 4.0 * (1 + 1 + MOMENTS + averaged) / shards
    return kept + (2.0 if precision == "bf16" else 0.0)


def activation_bytes(config: ViTConfig, precision: Precision) -> float:
    """Bytes per image that the backward pass of the blocks waits for: L n d (32 + 8 r), and L n d (20 + 4 r) in bf16.

    For each token a block keeps, d numbers each: what enters both norms (in fp32 in either precision) and leaves them,
    queries, keys, values and the attention's output; and r d numbers before and after the activation, of a gated one
    gate and value, the gate's and their product. Fused attention keeps no
    n² weights. [Korthikanti+ 2022, section 4.1] counts the same for two bytes a number, with dropout and n² weights.
    """
    config = resolve_config(config)
    n = cells_read(config, training=True) + config.prefix
    a_number = 2 if precision == "bf16" else 4
    kept = 4 if config.activation == "swiglu" else 2
    return config.depth * n * config.width * (2 * 4 + (6 + kept * config.mlp_ratio) * a_number)


def all_reduce_seconds(size: float, *, machine: Machine, processes: int) -> float:
    """A ring all-reduce: each process sends and receives 2 (w - 1) / w of the gradient's bytes [Patarasuk & Yuan 2009]."""
    rate = machine.inside if processes <= machine.host else machine.between
    return 2 * (processes - 1) / processes * size / rate


def predict(
    config: ViTConfig,
    machine: Machine,
    *,
    images: int,
    epochs: int,
    processes: int = 1,
    batch: int = 1024,
    precision: Precision = "bf16",
    averaged: bool = False,
) -> Forecast:
    """A training of `epochs` over `images`, `batch` a step for all processes together, the model whole on each of them.

    step = max(compute, launching) + exchange + optimizer, or reading where that takes longer. A share `overlap` of the exchange
    hides behind the backward pass, as far as that is long enough. Gradients are exchanged in fp32. Validation is not included.
    """
    if batch % processes:
        raise VitrailError(f"the batch must divide among the processes: got {batch} images, {processes} processes")
    parameters, mine = parameter_count(config), batch // processes
    compute = mine * training_flops(config) / (machine.peak * machine.utilization)
    launch = max(0.0, config.depth * machine.block_seconds - compute)
    exchange = all_reduce_seconds(4.0 * parameters, machine=machine, processes=processes)
    exchange -= min(machine.overlap * exchange, BACKWARD / (1 + BACKWARD) * (compute + launch))
    optimizer = parameters * (ADAMW_BYTES + 8 * averaged) / machine.memory_bandwidth
    steps = epochs * (images // batch)
    return Forecast(
        parameters=parameters,
        flops=steps * batch * training_flops(config),
        steps=steps,
        compute_seconds=compute,
        launch_seconds=launch,
        exchange_seconds=exchange,
        optimizer_seconds=optimizer,
        reading_seconds=max(0.0, mine / machine.read - (compute + launch + exchange + optimizer)),
        memory=parameters * state_bytes(precision, averaged=averaged) + mine * activation_bytes(config, precision),
    )
