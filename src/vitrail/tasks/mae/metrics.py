"""What a masked autoencoder is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="explained", title="Explained variance of masked patches", short="explained"),
    LOSS,
)
