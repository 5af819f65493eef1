"""What a language model makes of texts: `vt.pipeline("text-generation")` and `vt.pipeline("fill-mask")`, `vitrail complete` and `predict`."""

from pathlib import Path
from typing import Any

from vitrail.deploy import pipeline
from vitrail.models.folder import load
from vitrail.tasks.language.fill_mask import FillMask
from vitrail.tasks.language.text_generation import TextGeneration

PIPELINES: dict[str, type[pipeline.Pipeline[Any, Any]]] = {"text-generation": TextGeneration, "fill-mask": FillMask}


class Pipeline(pipeline.Pipeline[Any, Any]):
    """Continues texts, or fills in what is masked in them: by Hugging Face's name, or by what the model learned."""

    devices = True

    @classmethod
    def open(cls, source: Any, *, name: str | None = None, engine: str = "torch") -> pipeline.Pipeline[Any, Any]:
        model = load(source) if isinstance(source, str | Path) else source
        kind = PIPELINES[name] if name else FillMask if model.pipeline_tag == "fill-mask" else TextGeneration
        return kind(model, engine=engine)
