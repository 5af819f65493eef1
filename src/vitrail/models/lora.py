"""LoRA and DoRA on a whole model: which layers are adapted, what else learns, and the merged weights."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError, check_choice
from vitrail.nn.adapters.lora import OWN, Adapted, adapt, merge, why_not

Target = Literal["attention", "output", "mlp", "convolution"]
TARGETS: tuple[Target, ...] = get_args(Target)
DEFAULT: tuple[Target, ...] = ("attention",)
# Ends of the names of layers: ours, then timm's and those of transformers. Keys are never adapted [Hu+ 2021, section 7.1].
JOINED = re.compile(r"(?:.*\.)?qkv")
NAMES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "attention": re.compile(r"(?:.*\.)?(?:query|value|q_proj|v_proj|qkv)"),
        "output": re.compile(r"(?:.*\.)?(?:attention|attn|self_attn)\.(?:output|proj|o_proj|out_proj|output\.dense)"),
        "mlp": re.compile(r"(?:.*\.)?(?:mlp\.(?:expand|contract|fc1|fc2)|intermediate\.dense|(?<!attention\.)output\.dense)"),
    }
)
QUERY_AND_VALUE = (0, 2)  # of a joined projection
# Parts that name classes: ours, then timm's and those of transformers. They learn as they do without adapters.
HEADS = frozenset({"head", "distilled_head", "head_dist", "fc", "classifier", "cls_classifier", "distillation_classifier"})


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a model learns by adapters."""

    layers: int
    adapters: int  # parameters
    model: int  # parameters without adapters and without the heads
    heads: int

    def __str__(self) -> str:
        return (
            f"{self.adapters:,} parameters in {self.layers} layers, {100 * self.adapters / max(1, self.model):.2f} % of the model "
            f"without its head; its head learns too ({self.heads:,})"
        )


def add_lora(
    model: nn.Module,
    rank: int,
    *,
    targets: Sequence[str] = DEFAULT,
    alpha: float | int | None = None,
    dora: bool = False,
) -> Any:
    """Adapt a model in place, and give it back: W + alpha / rank B A in every layer of `targets`  [Hu+ 2021]; `dora`: with magnitudes.

    It computes what it did before, bit for bit. From now on only adapters and heads learn: the rest takes no gradient, and statistics of
    batch norms stand still. `alpha` is `rank` by default. A joined projection of queries, keys and values learns in queries and values.
    """
    if rank < 1:
        raise VitrailError(f"the rank of LoRA must be at least 1, got {rank}")
    if alpha is not None and not alpha > 0:
        raise VitrailError(f"alpha of LoRA must be more than 0, got {alpha:g}")
    if is_adapted(model):
        raise VitrailError("the model has adapters already: vt.merge_lora(model) makes them part of its weights")
    layers = find_layers(model, targets)
    hold_still(model)
    for name, layer in layers.items():
        parts = QUERY_AND_VALUE if JOINED.fullmatch(name) else ()
        adapt(layer, rank=rank, scale=(rank if alpha is None else alpha) / rank, dora=dora, parts=parts)
    return model


def find_layers(model: nn.Module, targets: Sequence[str]) -> dict[str, nn.Module]:
    """The layers of each target by name; one that cannot be adapted is refused, and so is a target that the model has none of."""
    kind, found = getattr(model, "architecture", type(model).__name__), dict[str, nn.Module]()
    if not targets:
        raise VitrailError(f"LoRA needs layers to adapt: some of {', '.join(TARGETS)}")
    for target in targets:
        check_choice("target of LoRA", target, TARGETS)
        layers = {name: layer for name, layer in outside_heads(model) if is_target(name, layer, target)}
        if not layers:
            others = [name for name in TARGETS if any(is_target(*one, name) for one in outside_heads(model))]
            has = f"it has {', '.join(others)}" if others else "it has none that LoRA adapts"
            raise VitrailError(f"LoRA on {target}: a model of the kind {kind} has no such layers; {has}")
        for name, layer in layers.items():
            if (reason := why_not(layer)) is not None:
                raise VitrailError(f'LoRA on {target}: "{name}" {reason}, which cannot be adapted')
        found |= layers
    return {name: layer for name, layer in model.named_modules() if name in found}


def is_target(name: str, layer: nn.Module, target: str) -> bool:
    if target == "convolution":
        return isinstance(layer, nn.Conv2d)
    return isinstance(layer, nn.Linear | nn.Conv2d) and NAMES[target].fullmatch(name) is not None


def outside_heads(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((name, layer) for name, layer in model.named_modules() if name.split(".")[0] not in HEADS)


def hold_still(model: nn.Module) -> None:
    """All but the heads stays as it is: no gradient, and batch norms use the statistics that they have."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.split(".")[0] in HEADS)
    for _, layer in outside_heads(model):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.register_forward_pre_hook(stop_training)


def stop_training(layer: nn.Module, inputs: Any) -> None:
    """A hook: whatever mode the model is in, this layer is in evaluation mode."""
    layer.training = False


def is_adapted(model: nn.Module) -> bool:
    return any(isinstance(layer, Adapted) for layer in model.modules())


def adapted_layers(model: nn.Module) -> dict[str, Adapted]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, Adapted)}


def learned_whole(model: nn.Module) -> dict[str, nn.Parameter]:
    """What learns beside the adapters: the heads."""
    named = model.named_parameters()
    return {name: p for name, p in named if p.requires_grad and name.rpartition(".")[2] not in OWN}


def measure_share(model: nn.Module) -> Share:
    layers = adapted_layers(model)
    own = [p for layer in layers.values() for name, p in layer.named_parameters(recurse=False) if name in OWN]
    adapters = sum(p.numel() for p in own)
    heads = sum(p.numel() for name, p in model.named_parameters() if name.split(".")[0] in HEADS)
    whole = sum(p.numel() for p in model.parameters())
    return Share(layers=len(layers), adapters=adapters, model=whole - heads - adapters, heads=heads)


@torch.no_grad()
def merged_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of the plain model that computes the same; those of a model without adapters as they are."""
    found, layers = dict(model.state_dict()), adapted_layers(model)
    for name, layer in layers.items():
        before = f"{name}." if name else ""
        for own in OWN:
            found.pop(f"{before}{own}", None)
        found[f"{before}weight"] = layer.merged_weight()
    return found


def merge_lora(model: nn.Module) -> Any:
    """Make a model plain in place, and give it back: it computes the same up to rounding, and all of it learns again."""
    for layer in adapted_layers(model).values():
        merge(layer)
    for module in model.modules():
        release(module._forward_pre_hooks)
    return model.requires_grad_(True)


def release(hooks: Any) -> None:
    """Take the hooks of `hold_still` away."""
    for key in [key for key, hook in hooks.items() if hook is stop_training]:
        del hooks[key]


def describe_lora(model: nn.Module, targets: Iterable[str], *, rank: int, dora: bool) -> str:
    """What learns, in a line."""
    return f"{'DoRA' if dora else 'LoRA'} of rank {rank} on {', '.join(targets)}: {measure_share(model)}"
