"""What a BEiT is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="accuracy", title="Accuracy", short="accuracy"),
    Metric(key="most_frequent", title="Accuracy of the most frequent code everywhere", short="most frequent code"),
    LOSS,
)
