"""From an engine's name to the engine, checked."""

from importlib.util import find_spec

import torch

from vitrail.deploy.engines.compiled import NO_COMPILER, CompiledEngine, find_compiler
from vitrail.deploy.engines.eager import TorchEngine
from vitrail.deploy.engines.engine import ENGINES, Engine, check_answers, in_one_line
from vitrail.deploy.engines.onnx_runtime import OnnxRuntimeEngine
from vitrail.deploy.engines.open_vino import OpenVinoEngine
from vitrail.deploy.export.interface import Interface, plain_interface
from vitrail.errors import VitrailError, check_choice
from vitrail.models.model import ImageModel, Model, unwrap
from vitrail.models.protocols import HasClasses

NEEDED = {
    "onnxruntime": (("onnxruntime", "onnx", "onnxscript"), "onnx"),
    "openvino": (("openvino",), "openvino"),
}  # and the extra


def missing(name: str) -> str | None:
    """What to do before this engine can be used, in one line; None if nothing. Nothing is imported or built."""
    if name == "compile":
        return None if find_compiler() else NO_COMPILER
    modules, extra = NEEDED.get(name, ((), ""))
    lacking = [module for module in modules if find_spec(module) is None]
    return (
        f'the engine {name} needs "{lacking[0]}", which is not installed: pip install "vitrail[{extra}]"' if lacking else None
    )


def installed() -> tuple[str, ...]:
    """The engines that can be used here."""
    return tuple(name for name in ENGINES if missing(name) is None)


def make_engine(model: Model, name: str, *, threads: int | None = None, interface: Interface | None = None) -> Engine:
    """An engine for a classifier, or a model of features. `threads`: of onnxruntime and openvino; torch's own number by default.

    `interface`: what it computes, by default the model's own forward. Its answers to a batch are compared with torch's (`CLOSE`) before it is handed out.
    """
    check_choice("engine", name, ENGINES)
    if threads is not None and threads < 1:
        raise VitrailError(f"threads must be at least 1, got {threads}")
    model = unwrap(model)
    if not isinstance(model, ImageModel) or not isinstance(model, HasClasses):
        raise VitrailError(f"engines are for models that classify images; this one is of the kind {model.architecture}")
    model = model.eval()
    interface = interface or plain_interface(model)
    if name == "torch":
        return TorchEngine(interface)
    if (lack := missing(name)) is not None:
        raise VitrailError(lack)
    weight = next(model.parameters())
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        raise VitrailError(f"the engine {name} is for 32-bit models on the CPU, this one is {weight.dtype} on {weight.device}")
    threads = threads or torch.get_num_threads()
    with in_one_line(f"the engine {name} cannot take this model"):
        engine: Engine
        if name == "compile":
            engine = CompiledEngine(model, interface)
        elif name == "onnxruntime":
            engine = OnnxRuntimeEngine(model, interface, threads=threads)
        else:
            engine = OpenVinoEngine(model, interface, threads=threads)
        check_answers(model, engine, name, interface=interface)
    return engine
