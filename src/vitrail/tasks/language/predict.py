"""What a language model makes of texts: continuations, or what may stand in the place of <mask>."""

from collections.abc import Iterator
from typing import Any

from vitrail.deploy.fill_mask import FillMask
from vitrail.deploy.predicted_files import Predicted, failure
from vitrail.deploy.text_generation import TextGeneration
from vitrail.errors import VitrailError
from vitrail.machine import choose_device
from vitrail.models.folder import load
from vitrail.models.purpose import purpose_of
from vitrail.tasks.language.options import PredictOptions

LISTED = 5  # subwords that may stand in the place of a mask


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """Of each text several continuations, or the likeliest subwords for what is masked; in Hugging Face's shapes."""
    model = load(run).to(choose_device(options.device))
    if purpose_of(model) == "fill":
        yield from fill_in(model, inputs, top_k=options.top_k or LISTED)
        return
    for text in inputs:
        try:
            (samples,) = continue_texts(
                model, [text], samples=options.samples, longest=options.max_length, temperature=options.temperature,
                top_k=options.top_k, top_p=options.top_p, seed=options.seed,
            )  # fmt: skip
        except VitrailError as error:
            yield failure(error)
            continue
        yield Predicted([{"generated_text": sample} for sample in samples], "\n".join(samples))


def fill_in(model: Any, texts: list[str], *, top_k: int) -> Iterator[Predicted]:
    fill = FillMask(model)
    for text in texts:
        try:
            rows = fill(text, top_k=top_k)
        except VitrailError as error:
            yield failure(error)
            continue
        each = rows if isinstance(rows[0], list) else [rows]  # a list for each mask, where there are several
        lines = ("   ".join(f"{row['token_str']} {100 * row['score']:5.1f} %" for row in some) for some in each)
        yield Predicted(rows, "\n".join(lines))


def continue_texts(model: Any, texts: list[str], **how: Any) -> list[list[str]]:
    """The samples of each text, with its beginning; `how` is what `TextGeneration` takes."""
    return [[row["generated_text"] for row in rows] for rows in TextGeneration(model)(texts, **how)]
