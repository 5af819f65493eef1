"""What a detector is measured by. No torch here."""

from vitrail.tasks.metric import LOSS, Metric

METRICS = (
    Metric(key="ap50", title="Average precision at an overlap of 0.5", short="AP50"),
    Metric(key="ap", title="Average precision (COCO)", short="AP"),
    Metric(key="ap75", title="Average precision at an overlap of 0.75", short="AP75"),
    Metric(key="ap_small", title="Average precision of small objects", short="AP small"),
    Metric(key="ap_medium", title="Average precision of medium objects", short="AP medium"),
    Metric(key="ap_large", title="Average precision of large objects", short="AP large"),
    Metric(key="recall", title="Recall with 100 boxes", short="recall"),
    LOSS,
)
