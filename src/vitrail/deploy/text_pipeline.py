"""What pipelines that read text share: a tokenizer, a longest text, and the beams of those that search."""

from dataclasses import dataclass
from typing import TypeVar

from vitrail.deploy import pipeline
from vitrail.errors import VitrailError
from vitrail.models.model import Model
from vitrail.models.word_model import WordModel, check_tokenizer

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
    model: WordModel

    def __init__(self, model: Model, *, engine: str = "torch") -> None:
        super().__init__(model, engine=engine)
        self.tokenizer, self.longest = self.model.tokenizer, int(model.config.longest)

    def check_model(self, model: Model) -> None:
        self.check_purpose(model)
        assert isinstance(model, WordModel)
        check_tokenizer(model)

    def check_purpose(self, model: Model) -> None:
        """Refuse a model of another task."""
