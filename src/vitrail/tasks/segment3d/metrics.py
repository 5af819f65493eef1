"""What a model of volumes is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="dice", title="Dice", short="Dice"),
    Metric(key="surface_mm", title="Mean distance of surfaces", short="surface distance", unit="mm", higher_is_better=False),
    Metric(key="hausdorff95_mm", title="95 % Hausdorff distance", short="95 % Hausdorff", unit="mm", higher_is_better=False),
    LOSS,
)
