"""What captions are measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="exact", title="Captions exactly right", short="exact"),
    Metric(key="bleu", title="BLEU", short="BLEU", unit="hundred"),
    LOSS,
)
