"""What a segmenter is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="miou", title="Mean intersection over union", short="mIoU"),
    Metric(key="pixel_accuracy", title="Pixel accuracy", short="pixel accuracy"),
    Metric(key="boundary_f", title="Boundary F (2 pixels)", short="boundary F"),
    LOSS,
)
