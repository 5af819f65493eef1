"""Which parameters weight decay pulls on, and how fast each layer learns."""

import re
from typing import Any

from torch import nn

from vitrail.errors import VitrailError
from vitrail.nn.positions.relative_table import ContinuousBias

# A captioner's encoder is a whole model of images: its parameters have the same names behind one more `encoder.`; so it is with what
# learns without labels, around a backbone or a student. A model that writes all words at once has a Transformer in it.
WITHIN = r"(?:encoder\.|transformer\.|backbone\.|student\.)?"
FIRST = re.compile(WITHIN + r"(?:tokenizer|prefix|position|stem|stem_norm)\.")  # what stands before the first block
TABLE = re.compile(r"(transformer\.)?(?:words\.table|colors)\.weight")  # what words or colors are read from
# Of a convolutional net, its stages. A merging has the number of the block that stands behind it.
BLOCK = re.compile(WITHIN + r"(?:encoder\.(?:blocks|mergings)|stages)\.(\d+)\.")
INNER = re.compile(
    WITHIN + r"(?:encoder|decoder)\.(?:blocks|mergings)\."
)  # those of a decoder too, which all learn at the full rate
Named = list[tuple[str, nn.Parameter]]


def split_by_decay(model: nn.Module) -> tuple[Named, Named]:
    """The trainable parameters: matrices and filters; then biases, norms, scales, tokens and position tables.

    [Dosovitskiy+ 2021's successors, timm]: what a linear map multiplies by is decayed, what is added is not, nor the small network that
    makes a continuous position bias [Liu+ 2022's code].
    """
    added = {id(p) for m in model.modules() for n, p in m.named_parameters(recurse=False) if n.endswith(("table", "tokens"))}
    added |= {id(p) for n, p in model.named_parameters() if ".tables." in n}
    added |= {id(p) for module in model.modules() if isinstance(module, ContinuousBias) for p in module.parameters()}
    trainable = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decayed = [(name, p) for name, p in trainable if p.ndim >= 2 and id(p) not in added]
    chosen = {id(p) for _, p in decayed}
    return decayed, [(name, p) for name, p in trainable if id(p) not in chosen]


def layer_groups(model: nn.Module, weight_decay: float, *, layer_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimizer, by weight decay and by layer: "scale" = layer_decay^(depth + 1 - layer) is a layer's share of the rate.

    [Clark+ 2020; Bao+ 2022, BEiT]: for fine-tuning, where the first layers are general already. Layer 0 is the tokenizer with
    prefix tokens and positions, the stem, or the table of words or colors that the first block alone reads; block (or stage) i is
    layer i + 1; the last norm and the head, with a table that is the head's too, are layer depth + 1 and have a scale of 1, as has
    all of a decoder. "hidden" says whether a group is of matrices between what reads pixels and what names classes, which an
    optimizer may treat in a way of its own.
    """
    if not 0.0 < layer_decay <= 1.0:
        raise VitrailError(f"layer_decay must be more than 0 and at most 1, got {layer_decay:g}")
    depth = count_blocks(model)
    if depth == 0 and layer_decay < 1.0:
        raise VitrailError(f"layer_decay must be 1 for a model without encoder.blocks or stages, got {layer_decay:g}")
    decayed, spared = split_by_decay(model)
    tables = first_tables(model)
    groups: dict[tuple[bool, float, float], list[nn.Parameter]] = {}
    for number, (name, parameter) in enumerate(decayed + spared):
        layer, is_decayed = 0 if name in tables else layer_of(name, depth), number < len(decayed)
        between = number > 0 and layer <= depth and name not in tables
        hidden = is_decayed and (INNER.match(name) is not None or between)
        decay, scale = weight_decay if is_decayed else 0.0, layer_decay ** (depth + 1 - layer)
        groups.setdefault((hidden, decay, scale), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": decay, "scale": scale, "hidden": hidden}
        for (hidden, decay, scale), parameters in groups.items()
    ]


def first_parameters(model: nn.Module, blocks: int) -> set[str]:
    """Names of what stands before the first block, and of the first `blocks` blocks."""
    depth = count_blocks(model)
    if not 0 <= blocks <= depth:
        raise VitrailError(f"--freeze {blocks}: the model has {depth} blocks")
    tables = first_tables(model)
    return {name for name, _ in model.named_parameters() if name in tables or layer_of(name, depth) <= blocks}


def count_blocks(model: nn.Module) -> int:
    return 1 + max((int(found[1]) for name, _ in model.named_parameters() if (found := BLOCK.match(name))), default=-1)


def first_tables(model: nn.Module) -> set[str]:
    """The tables that go into the first block of an encoder and into nothing else: a tied one is the head's, a captioner's words
    are its decoder's."""
    names = {name for name, _ in model.named_parameters()}
    found = {name: match[1] or "" for name in names if (match := TABLE.fullmatch(name))}
    read = {name: inside for name, inside in found.items() if f"{inside}head.output.weight" in names}
    return {name for name, inside in read.items() if any(other.startswith(f"{inside}encoder.blocks.") for other in names)}


def layer_of(name: str, depth: int) -> int:
    """The layer that a parameter of this name belongs to, in 0 .. depth + 1."""
    if found := BLOCK.match(name):
        return int(found[1]) + 1
    return 0 if FIRST.match(name) else depth + 1
