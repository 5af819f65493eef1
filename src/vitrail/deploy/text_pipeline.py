"""What pipelines that read text share: a tokenizer, a longest text, and the beams of those that search."""

from dataclasses import dataclass
from typing import Any, TypeVar

from vitrail.byte_pairs import check_tokenizer
from vitrail.deploy import pipeline
from vitrail.errors import VitrailError

S = TypeVar("S")  # a sample
R = TypeVar("R")  # its result


@dataclass(frozen=True, kw_only=True)
class BeamCall(pipeline.Call):
    """Keywords of a call that writes by beam search."""

    beams: int = 5
    batch: int = 32

    def check(self) -> None:
        if self.beams < 1 or self.batch < 1:
            raise VitrailError(f"beams and batch must be at least 1, got {self.beams} and {self.batch}")


class TextPipeline(pipeline.Pipeline[S, R]):
    """Sources are texts; a task says of which models in `check_purpose`."""

    single = (str,)

    def __init__(self, model: Any, *, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.tokenizer, self.longest = model.tokenizer, int(model.config.longest)

    def check_model(self, model: Any) -> None:
        self.check_purpose(model)
        check_tokenizer(model)

    def check_purpose(self, model: Any) -> None:
        """Refuse a model of another task."""
