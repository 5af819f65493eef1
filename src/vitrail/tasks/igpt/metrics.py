"""What a model of pixels is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="bits_per_pixel", title="Bits per pixel", short="bits per pixel", unit="", higher_is_better=False, digits=3),
    Metric(key="likelihood", title="Mean probability of a color", short="likelihood"),
    Metric(key="probe_accuracy", title="Accuracy of a linear probe", short="probe accuracy"),
    LOSS,
)
