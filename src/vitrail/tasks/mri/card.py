"""What the card of a model says that reconstructs MRI scans."""

from vitrail.models.catalogue import count_parameters
from vitrail.models.markdown import literal
from vitrail.models.reconstructor import Reconstructor
from vitrail.tasks.card import FOLDER, Card, use_python, use_shell

KEPT = {"none": "not enforced", "hard": "kept as they were measured", "sense": "fitted by a few steps of SENSE"}


def describe_reconstructor(model: Reconstructor) -> Card:
    return Card(
        title="reconstruction of accelerated scans",
        about=[
            f"A model of the Vitrail library for accelerated MRI: {count_parameters(model):,} parameters, any size and number of coils.",
            f"The zero-filled image of all coils goes through {literal(model.config.network)}, which takes out what the missing lines "
            f"of k-space left in it; measured lines are {KEPT[model.config.consistency]}.",
        ],
        use=[
            use_python(
                f'model = vt.load("{FOLDER}")',
                "image = model(kspace, mask, maps)  # complex: (b, c, h, w), (b, 1, w) True where measured, (b, c, h, w) to (b, h, w)",
            ),
            use_shell(f"vitrail eval {FOLDER} --data scan.npz --out scores/"),
        ],
        limits=[
            "No medical device: details that were not measured may be invented, or missing, without any sign of it.",
            "Another body, contrast, scanner, or acceleration than it was trained for may cost more than it gains.",
        ],
    )
