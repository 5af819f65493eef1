"""Finding objects in files: `vitrail predict` with a detector."""

from collections import Counter
from collections.abc import Iterator, Sequence

from PIL import Image

from vitrail.data.images import PictureError, read_picture
from vitrail.data.inputs import expand
from vitrail.deploy.detection import Answer, ObjectDetection
from vitrail.deploy.predicted_files import Predicted, failure, free_stem, open_folder
from vitrail.models.folder import load
from vitrail.tasks.detect.options import PredictOptions

BOXES = "_boxes.png"
WIDEST = 60  # columns for the name of a file


def predict(run: str, inputs: list[str], options: PredictOptions) -> Iterator[Predicted]:
    """The boxes of each image, the highest score first, and with --out a file with them drawn."""
    paths = expand(inputs)
    detect = ObjectDetection(load(run), engine=options.engine)
    folder = open_folder(options.out)
    taken: set[str] = set()
    width = min(WIDEST, max(len(str(path)) for path in paths))
    for path in paths:
        try:
            image = read_picture(path)
        except PictureError as error:
            yield failure(error)
            continue
        boxes: Answer = detect(image, threshold=options.threshold)
        if folder is not None:
            name = folder / (free_stem(path, taken) + BOXES)
            draw_predicted(image, boxes, detect.labels).save(name)
            boxes = [row | {"file": str(name)} for row in boxes]
        yield Predicted(boxes, f"{path!s:<{width}}  {count_labels(boxes)}")


def draw_predicted(image: Image.Image, boxes: Answer, labels: Sequence[str]) -> Image.Image:
    """The image with its boxes, each class in a color of its own, the highest score in front."""
    from vitrail.report.boxes import Drawn, class_color, draw_boxes  # here: it imports matplotlib

    drawn = [
        Drawn(list(row["box"].values()), class_color(labels.index(row["label"])), f"{row['label']} {row['score']:.2f}")
        for row in reversed(boxes)
    ]
    return draw_boxes(image, drawn)


def count_labels(boxes: Answer) -> str:
    """5 found: 4 RBC, 1 WBC; the most frequent first."""
    counts = Counter(row["label"] for row in boxes).most_common()
    return f"{len(boxes)} found" + (": " if counts else "") + ", ".join(f"{count} {label}" for label, count in counts)
