"""What a language model makes of texts: `vt.pipeline("text-generation")` and `vt.pipeline("fill-mask")`, `vitrail complete` and `predict`."""

from pathlib import Path
from typing import Any

from vitrail.deploy import pipeline
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.tasks.language.fill_mask import FillMask
from vitrail.tasks.language.options import PredictOptions
from vitrail.tasks.language.text_generation import TextGeneration

PIPELINES: dict[str, type[pipeline.Pipeline[Any, Any]]] = {"text-generation": TextGeneration, "fill-mask": FillMask}


class Pipeline(pipeline.Pipeline[Any, Any]):
    """Continues texts, or fills in what is masked in them: by Hugging Face's name, or by what the model learned."""

    @classmethod
    def open(cls, source: Any, *, name: str | None = None, engine: str = "torch") -> pipeline.Pipeline[Any, Any]:
        model = load(source) if isinstance(source, str | Path) else source
        kind = PIPELINES[name] if name else FillMask if model.pipeline_tag == "fill-mask" else TextGeneration
        return kind(model, engine=engine)

    @classmethod
    def from_options(cls, run: str, options: PredictOptions) -> pipeline.Pipeline[Any, Any]:
        return cls.open(load(run).to(choose_device(options.device)))
