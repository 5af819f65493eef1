"""Translating sentences: `vitrail translate`."""

from collections.abc import Iterable, Iterator

from vitrail.deploy.translation import Translated, Translation
from vitrail.errors import VitrailError
from vitrail.machine import choose_device
from vitrail.models.folder import load


def translate(
    run: str, sentences: Iterable[str], *, beams: int = 5, batch: int = 32, device: str = "auto"
) -> Iterator[Translated]:
    """An answer a sentence, in their order, while they come."""
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
