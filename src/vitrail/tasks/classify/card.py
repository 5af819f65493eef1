"""What the card of a classifier says, or of a model that gives features."""

from vitrail.models.classifier import Classifier
from vitrail.models.readme import describe_config, describe_inputs, describe_size
from vitrail.tasks.card import FOLDER, Card, use_pipeline, use_python, use_shell


def describe_classifier(model: Classifier) -> Card:
    about = [describe_size(model), describe_config(model), *describe_inputs(model)]
    if not model.num_classes:
        use = use_python(f'model = vt.load("{FOLDER}")', "features = model(images)")
        return Card(title="image features", about=about, use=[use])
    several = f"It knows {model.num_classes} labels and nothing else; each has a score of its own, from 0 to 1."
    one = f"It answers with one of its {model.num_classes} classes even for an image of something else."
    return Card(
        title="multi-label image classifier" if model.multi_label else "image classifier",
        about=about,
        use=[
            use_pipeline("classify", "image-classification", 'classify("image.png")  # [{"label": ..., "score": ...}, ...]'),
            use_shell(f"vitrail predict {FOLDER} image.png"),
        ],
        limits=[several if model.multi_label else one],
    )
