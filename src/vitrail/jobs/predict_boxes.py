"""Finding objects in files: `vitrail predict` with a detector."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image

from vitrail.data.images import PictureError, read_picture
from vitrail.deploy.detection import ObjectDetection
from vitrail.deploy.pipeline import Answer
from vitrail.deploy.predicted_files import free_stem, open_folder, refuse_merging
from vitrail.errors import VitrailError
from vitrail.models.folder import load

BOXES = "_boxes.png"


def predict_boxes(
    run: str,
    paths: list[Path],
    *,
    threshold: float | None = None,
    out: str | None = None,
    engine: str = "torch",
    merge: int | None = None,
) -> Iterator[tuple[Path, Answer | VitrailError]]:
    """The boxes of each picture, surest first, and with `out` a file with them drawn; one that cannot be read gives its error."""
    refuse_merging(run, kind="a detector", merge=merge)
    if threshold is not None and not 0 <= threshold <= 1:
        raise VitrailError(f"--threshold must be from 0 to 1, got {threshold}")
    detect = ObjectDetection(load(run), engine=engine)
    folder = open_folder(out)
    taken: set[str] = set()
    for path in paths:
        try:
            picture = read_picture(path)
        except PictureError as error:
            yield path, error
            continue
        answer: Answer = detect(picture, threshold=threshold)
        if folder is not None:
            name = folder / (free_stem(path, taken) + BOXES)
            draw_answer(picture, answer, detect.labels).save(name)
            answer = [row | {"file": str(name)} for row in answer]
        yield path, answer


def draw_answer(picture: Image.Image, answer: Answer, labels: Sequence[str]) -> Image.Image:
    """The picture with its boxes, each class in a color of its own, the surest in front."""
    from vitrail.report.boxes import Drawn, class_color, draw_boxes  # here: it imports matplotlib

    drawn = [
        Drawn(list(row["box"].values()), class_color(labels.index(row["label"])), f"{row['label']} {row['score']:.2f}")
        for row in reversed(answer)
    ]
    return draw_boxes(picture, drawn)


def count_labels(answer: Answer) -> str:
    """5 found: 4 RBC, 1 WBC; the most frequent first."""
    counts = Counter(row["label"] for row in answer).most_common()
    return f"{len(answer)} found" + (": " if counts else "") + ", ".join(f"{count} {label}" for label, count in counts)
