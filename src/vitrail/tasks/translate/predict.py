"""Translations of sentences: `vitrail predict` and `vitrail translate`."""

from collections.abc import Iterable, Iterator

from vitrail.deploy.predicted_files import Predicted
from vitrail.deploy.translation import Translated, Translation
from vitrail.errors import VitrailError
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.tasks.translate.options import PredictOptions


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """One result per sentence, in Hugging Face's shapes; what was cut or never seen in training is in its notes."""
    found = translate(run, inputs, beams=options.num_beams, batch=options.batch_size, device=options.device)
    for one in found:
        yield Predicted([{"translation_text": one.text}], one.text, notes=one.notes)


def translate(
    run: str, sentences: Iterable[str], *, beams: int = 5, batch: int = 32, device: str = "auto"
) -> Iterator[Translated]:
    """A translation per sentence, in their order, while they come."""
    if beams < 1 or batch < 1:
        raise VitrailError(f"--beams and --batch must be at least 1, got {beams} and {batch}")
    return Translation(load(run).to(choose_device(device))).stream(sentences, beams=beams, batch=batch)


def read_standard_input(stream: Iterable[bytes]) -> Iterator[str]:
    """Its lines. One that is not UTF-8 ends the reading, and is named."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r").removeprefix("\ufeff" if number == 1 else "")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise VitrailError(f"standard input: line {number:,} is not UTF-8 text (byte 0x{byte:02x})") from None
