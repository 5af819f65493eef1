"""Blocks of options about trained weights: which ones a run starts from, what of them stays, and what learns beside them. No torch here."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from cyclopts import Parameter

from vitrail.errors import VitrailError
from vitrail.records import OMITTED
from vitrail.tasks.options import TASK, Block, Range, integer, spell, switch


@dataclass(frozen=True, kw_only=True)
class PretrainedOptions(Block):
    """Weights to start from that nobody has named."""

    by_default: ClassVar[Literal["auto", "none"]] = "none"  # without --pretrained, and without a --model

    pretrained: Annotated[
        str | None,
        Parameter(
            help="auto: weights from the local cache, the Hugging Face hub or the package, as data and time allow; none: from scratch; "
            "anything else is what --weights takes."
        ),
    ] = field(default=None, metadata=OMITTED)

    def check(self) -> None:
        super().check()
        from vitrail.models.pretrained import resolve_source

        weights, model = getattr(self, "weights", None), getattr(self, "model", "auto")
        named = weights if self.pretrained in (None, "auto", "none") else self.pretrained
        if (
            weights is not None
            and self.pretrained is not None
            and (self.pretrained in ("auto", "none") or resolve_source(self.pretrained) != resolve_source(weights))
        ):
            raise VitrailError(f"--pretrained {self.pretrained} and --weights {weights} are the same option: give one of them")
        if self.pretrained == "auto":
            for name in (name for name in getattr(self, "of_weights", ()) if name != "model"):
                if getattr(self, name, None) not in (None, "auto"):
                    raise VitrailError(f"--pretrained auto brings its own model: {spell(name)} cannot be given beside it")
        bringing = f"--model {model}" if "." in model else None if named is None else f"--pretrained {named}"
        if weights is None and bringing is not None:
            for name in getattr(self, "of_weights", ()):
                if getattr(self, name, None) not in (None, "auto") and not (name == "model" and "." in model and named is None):
                    raise VitrailError(f"{bringing} brings its own model: {spell(name)} cannot be given beside it")
        if "." in model and (weights or self.pretrained == "none"):
            other = "--pretrained none" if weights is None else f"--weights {weights}"
            raise VitrailError(f"--model {model} brings its weights: {other} cannot be given beside it")

    def normalize(self) -> Any:
        """Weights that are named, in whatever way, are those of `weights`."""
        from vitrail.models.pretrained import split_tag, weights_of

        found = super().normalize()
        if found.pretrained not in (None, "auto", "none"):
            found = replace(found, weights=found.pretrained, pretrained=None).normalize()
        elif "." in found.model:
            found = replace(found, weights=weights_of(*split_tag(found.model)), model="auto", pretrained=None).normalize()
        return found


@dataclass(frozen=True, kw_only=True)
class FreezeOptions(Block):
    """Weights that stay."""

    freeze: Annotated[
        Literal["none", "encoder"] | int,
        Range(ge=0),
        integer(
            "What stays as --weights has it: the encoder, or its stem and so many of the first blocks (0: the stem).",
            group=TASK,
        ),
    ] = "none"

    def check(self) -> None:
        super().check()
        if self.freeze != "none" and not may_have_weights(self):
            raise VitrailError(f"--freeze {self.freeze} keeps what --weights brings: give --weights too")


LoraTarget = Literal["attention", "output", "mlp", "convolution"]


@dataclass(frozen=True, kw_only=True)
class LoraOptions(Block):
    """Thin matrices that learn beside weights that stay."""

    lora: Annotated[
        int | None,
        Range(ge=1, le=1024),
        integer("LoRA: rank of what learns beside the weights of --weights, which stay; the head learns too.", group=TASK),
    ] = field(default=None, metadata=OMITTED)
    lora_targets: Annotated[
        tuple[LoraTarget, ...],
        Parameter(
            consume_multiple=True,
            negative="",
            group=TASK,
            help="Of --lora: layers that are adapted; attention: queries and values.",
        ),
    ] = field(default=("attention",), metadata=OMITTED)
    lora_alpha: Annotated[
        float | None,
        Range(gt=0),
        Parameter(group=TASK, help="Of --lora: what it adds is multiplied by this over the rank; by default 1 in all."),
    ] = field(default=None, metadata=OMITTED)
    dora: Annotated[bool, switch("Of --lora: the norm of each row of a weight learns, too (DoRA).", group=TASK)] = field(
        default=False, metadata=OMITTED
    )

    def check(self) -> None:
        super().check()
        if self.lora is None:
            for given, option in (
                (self.dora, "--dora"),
                (self.lora_alpha is not None, f"--lora-alpha {self.lora_alpha}"),
                (self.lora_targets != ("attention",), f"--lora-targets {' '.join(self.lora_targets)}"),
            ):
                if given:
                    raise VitrailError(f"{option} is about LoRA: give --lora and a rank too")
            return
        if not self.lora_targets or len(set(self.lora_targets)) < len(self.lora_targets):
            raise VitrailError(f"--lora-targets names each kind of layer once, got {' '.join(self.lora_targets) or 'none'}")
        if not may_have_weights(self):
            raise VitrailError(f"--lora {self.lora} adapts what --weights brings: give --weights too")
        if getattr(self, "freeze", "none") != "none":
            raise VitrailError(
                f"--lora {self.lora} and --freeze {getattr(self, 'freeze', '')} do not go together: --lora keeps the weights as they are by itself"
            )


def may_have_weights(options: Any) -> bool:
    """Whether weights are named, or are looked for without a word."""
    return bool(options.weights) or "." in options.model or wished(options) != "none"


def wished(options: Any) -> str:
    """auto or none: the user's, or the task's where neither weights nor a model or a part of one were named."""
    if options.weights is not None:
        return "none"
    if options.pretrained is not None:
        return str(options.pretrained)
    named = [name for name in (*options.of_weights, "pack") if getattr(options, name, None) not in (None, "auto", False)]
    return "none" if named else str(options.by_default)
