"""What the toy is measured by: lower is better."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (Metric(key="mae", title="Mean absolute error", short="error", unit="", higher_is_better=False), LOSS)
